//! A course of twenty puzzles on tile layouts. Each file has a kernel with a hole, and a check that runs it in the simulator.
//!
//! ```console
//! $ cargo run --example puzzles                  # checks the puzzles in order, up to the first that fails
//! $ cargo run --example puzzles -- hint          # a hint for that puzzle; `hint 2` is the next
//! $ cargo run --example puzzles -- 7             # checks puzzle 7 only
//! $ cargo run --example puzzles -- all           # checks all; `list` only lists them
//! $ cargo run --example puzzles -- solution 7
//! ```

mod check;
mod costs;
pub(crate) mod course;
mod goal;
mod hints;
mod p01_map;
mod p02_strides;
mod p03_broadcast;
mod p04_threads;
mod p05_vectors;
mod p06_halo;
mod p07_transpose;
mod p08_swizzle;
mod p09_row_sums;
mod p10_block_sum;
mod p11_softmax;
mod p12_scan;
mod p13_race;
mod p14_deadlock;
mod p15_product;
mod p16_pipeline;
mod p17_tensor_cores;
mod p18_fragment;
mod p19_persistent;
mod p20_attention;

use course::COURSE;
use hints::HINTS;

/// The index of the first puzzle that is not solved.
fn next() -> Option<usize> {
    COURSE.iter().position(|puzzle| puzzle.result().is_err())
}

fn progress() {
    let solved = next().unwrap_or(COURSE.len());
    println!("[{}{}] {solved} of 20\n", "#".repeat(solved), ".".repeat(20 - solved));
    match COURSE.get(solved) {
        Some(puzzle) => {
            puzzle.print();
            println!("\na hint: cargo run --example puzzles -- hint");
        }
        None => {
            println!("You have solved all puzzles. Read examples/linear.rs and examples/attention.rs next.")
        }
    }
}

fn hint(number: usize) {
    let Some(puzzle) = next() else { return println!("all puzzles are solved") };
    let hints = HINTS[puzzle];
    let number = number.clamp(1, hints.len());
    println!("{}\nhint {number} of {}: {}", COURSE[puzzle].title(), hints.len(), hints[number - 1]);
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = words.last().and_then(|word| word.parse::<usize>().ok());
    let puzzle = number.and_then(|number| COURSE.get(number.checked_sub(1)?));
    match (words.first().map(String::as_str), puzzle) {
        (None, _) => progress(),
        (Some("hint"), _) => hint(number.unwrap_or(1)),
        (Some("list"), _) => COURSE.iter().for_each(|puzzle| println!("{}", puzzle.title())),
        (Some("all"), _) => COURSE.iter().for_each(|puzzle| {
            let state = if puzzle.result().is_ok() { "solved" } else { "open" };
            println!("{state:8}{}", puzzle.title());
        }),
        (Some("solution"), Some(puzzle)) => print!("{}", puzzle.solution),
        (Some(_), Some(puzzle)) => puzzle.print(),
        (Some(_), None) => {
            println!("arguments: hint, hint 2, list, all, 7, solution 7; none for the next puzzle")
        }
    }
}
