//! Front ends: a function (`evaluate`) or the keys of a product (`matmul`, `words`) become tile programs, by calls of
//! [`crate::build`].

pub mod evaluate;
pub mod matmul;
pub mod words;
