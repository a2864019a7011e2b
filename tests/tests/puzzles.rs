//! The course of `examples/puzzles`: a puzzle as shipped fails with an explanation, and its solution passes.

#[allow(dead_code)]
#[path = "../../examples/puzzles/main.rs"]
mod puzzles;
#[path = "../../examples/puzzles/solutions/mod.rs"]
mod solutions;

use puzzles::course::COURSE;

#[test]
fn shipped_puzzles_are_explained() {
    let mut explanations = String::new();
    for puzzle in COURSE {
        let Err(why) = (puzzle.check)(&(puzzle.kernel)()) else { panic!("{} has no hole", puzzle.file) };
        explanations += &format!("{}\n{why}\n\n", puzzle.file);
    }
    insta::assert_snapshot!(explanations);
}

#[test]
fn solutions_pass() {
    for (puzzle, solution) in COURSE.iter().zip(solutions::solutions()) {
        let result = (puzzle.check)(&solution);
        assert!(result.is_ok(), "{}: {}", puzzle.file, result.unwrap_err());
    }
}

#[test]
fn solutions_differ_in_the_hole() {
    for puzzle in COURSE {
        assert_eq!(puzzle.text.matches("// HOLE: ").count(), 1, "{}", puzzle.file);
        assert!(!puzzle.solution.contains("HOLE"), "{}", puzzle.file);
    }
}
