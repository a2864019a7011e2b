//! What is printed of shipped kernels, apart from their CUDA C: loop nests, programs as text, findings.

mod checks;
mod explain;
mod plurals;
mod programs;
