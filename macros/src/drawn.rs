//! Randomly drawn kernels, printed and parsed back: the text of a kernel is complete.

use crate::function;
use crate::text::Text;
use proc_macro2::{Span, TokenStream, TokenTree};
use tilewright_codegen::{Definition, ast};
use tilewright_fuzz::draw::Kind;

const KERNELS: u64 = 200;

/// The kernel of a printed function.
#[track_caller]
pub(crate) fn read(printed: &str) -> ast::Kernel {
    let mut tokens = printed.parse::<TokenStream>().expect("tokens").into_iter();
    tokens.next(); // `#`
    let Some(TokenTree::Group(attribute)) = tokens.next() else { panic!("no attribute\n{printed}") };
    let inside = attribute.stream().into_iter().find_map(|token| match token {
        TokenTree::Group(inside) => Some(inside.stream()),
        _ => None,
    });
    let mut text = Text::new(Span::call_site());
    let kernel = function::read(inside.unwrap_or_default(), tokens.collect(), &mut text);
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
