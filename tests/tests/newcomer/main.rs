//! Kernels as a newcomer would write them from the documentation of the language, each at most a page, compared
//! with double precision in every variant, at sizes that tiles do not divide.

mod arithmetic;
mod decoding;
mod detection;
mod differences;
mod elements;
mod gathers;
mod gradients;
mod graphs;
mod identifiers;
mod learning;
mod lists;
mod models;
mod moves;
mod names;
mod neighbours;
mod numbers;
mod pictures;
mod producers;
mod products;
mod sciences;
mod searches;
mod serving;
mod steps;
mod sums;
mod systems;
mod training;
mod transformed;
mod tuples;
mod week;
