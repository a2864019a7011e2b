//! Scalars: element types, numbers, integers, functions of elements, conditions, and the rules of their types. It knows no memory.

pub(crate) mod across;
pub mod affine;
pub mod condition;
pub(crate) mod elem;
pub mod element;
pub(crate) mod evaluate;
pub(crate) mod expr;
pub(crate) mod flow;
pub mod fp8;
pub(crate) mod id;
pub mod lanes;
pub mod limits;
pub mod narrow;
pub mod number;
pub(crate) mod operation;
pub mod scan;
pub mod semiring;
pub mod target;
pub mod typing;
