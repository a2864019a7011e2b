//! Randomly drawn kernels, printed and parsed back: the text of a kernel is complete.

use crate::function;
use crate::text::Text;
use proc_macro2::{Span, TokenStream};
use tilewright_codegen::Definition;
use tilewright_fuzz::judge::Source;
use tilewright_fuzz::{draw, source};

const KERNELS: u64 = 200;

#[test]
fn printed_kernels_are_read_as_they_were_drawn() {
    let mut read = 0;
    for seed in 0..KERNELS {
        let Source::Text(Definition::Function(kernel, _)) = draw::subject(seed).source else { continue };
        let printed = source::kernel(&kernel);
        let item = printed.strip_prefix("#[kernel]\n").expect("an attribute in front");
        let mut text = Text::new(Span::call_site());
        let again = function::read(TokenStream::new(), item.parse().expect("tokens"), &mut text);
        assert!(text.problems.is_empty(), "seed {seed}\n{printed}");
        assert_eq!(source::kernel(&again.expect("a kernel")), printed, "seed {seed}");
        read += 1;
    }
    assert!(read > KERNELS / 2, "{read} of {KERNELS}");
}
