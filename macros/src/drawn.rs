//! Randomly drawn kernels, printed and parsed back: the text of a kernel is complete.

use tilewright_codegen::{Definition, ast};
use tilewright_fuzz::draw::Kind;
use tilewright_parse::file;

const KERNELS: u64 = 200;

/// The kernel of a printed function.
#[track_caller]
pub(crate) fn read(printed: &str) -> ast::Kernel {
    let (kernel, text) = file::read(printed);
    assert!(text.problems.is_empty(), "{:?}\n{printed}", text.problems);
    kernel.expect("a kernel")
}

#[test]
fn printed_kernels_are_read_as_they_were_drawn() {
    let mut count = 0;
    for seed in 0..KERNELS {
        let Definition::Function(kernel, _) = Kind::Parts.kernel(seed) else { continue };
        let printed = kernel.to_string();
        assert_eq!(read(&printed).to_string(), printed, "seed {seed}");
        count += 1;
    }
    assert!(count > KERNELS / 2, "{count} of {KERNELS}");
}
