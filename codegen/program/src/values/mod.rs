//! Scalars: element types, numbers, integers, functions of elements, conditions, and the rules of their types. It knows no memory.

pub mod across;
pub mod affine;
pub mod arithmetic;
pub mod condition;
pub mod elem;
pub mod element;
pub(crate) mod evaluate;
pub mod expr;
pub mod flow;
pub mod fp8;
pub mod id;
pub mod lanes;
pub mod limits;
pub mod narrow;
pub mod number;
pub mod operation;
pub mod scan;
pub mod semiring;
pub mod target;
pub mod typing;
