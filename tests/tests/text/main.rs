//! Texts about shipped kernels, apart from their CUDA C (loop nests, programs as text, findings), and texts of documentation.

mod adding;
mod checks;
mod explain;
mod merged;
mod plurals;
mod programs;
mod quick_reference;
