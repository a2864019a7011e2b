//! Inputs of a run in words: `x: f32 [M=4096, N=1000] row-major normal`.

use tilewright_codegen::Elem;

use crate::output::{Result, pointed};

/// The settings of an option for an argument.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) elem: Option<Elem>,
    /// The extents of its modes, some with their names.
    pub(crate) extents: Vec<(Option<String>, i64)>,
    /// Is the last mode contiguous, or the first?
    pub(crate) rows: Option<bool>,
    pub(crate) contents: Option<Contents>,
}

/// The elements of a tensor, or a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Contents {
    /// From -1 to 1, or small integers.
    Uniform,
    /// Normally distributed, mean 0 and deviation 1.
    Normal,
    /// All the same.
    Constant(f64),
    /// Each its number in memory.
    Index,
    /// From 0 to 255.
    Bytes,
}

const WORDS: &str = "write NAME: TYPE [M=4096, N=1000] row-major normal, any part but the name may be left out; contents are \
                     uniform, normal, zeros, ones, index or a number";

impl Input {
    /// Reads one.
    pub(crate) fn read(text: &str) -> Result<Input> {
        let wrong = |word: &str, what: String| {
            let (line, at) = (format!("{text}'"), word.as_ptr() as usize - text.as_ptr() as usize);
            pointed(&what, "--input '", [&line, &line[at..at + word.len()]], WORDS)
        };
        let Some((name, mut rest)) = text.split_once(':') else {
            return Err(wrong(text, "an argument's name and a colon come first".into()));
        };
        let mut input = Input { name: name.trim().to_owned(), ..Input::default() };
        while let Some(begin) = rest.find(|c: char| !c.is_whitespace()) {
            rest = &rest[begin..];
            if let Some(inside) = rest.strip_prefix('[') {
                let Some((extents, after)) = inside.split_once(']') else {
                    return Err(wrong(rest, "the bracket is not closed".into()));
                };
                for word in extents.split(',') {
                    let (name, number) = match word.split_once('=') {
                        Some((name, number)) => (Some(name.trim().to_owned()), number.trim()),
                        None => (None, word.trim()),
                    };
                    match number.parse() {
                        Ok(extent @ 0..=0x7fff_ffff) => input.extents.push((name, extent)),
                        _ => return Err(wrong(number, "an extent is a number from 0 to 2147483647".into())),
                    }
                }
                rest = after;
                continue;
            }
            let end = rest.find(|c: char| c.is_whitespace() || c == '[').unwrap_or(rest.len());
            let word;
            (word, rest) = rest.split_at(end);
            match word {
                "row-major" => input.rows = Some(true),
                "column-major" => input.rows = Some(false),
                "uniform" => input.contents = Some(Contents::Uniform),
                "normal" => input.contents = Some(Contents::Normal),
                "zeros" => input.contents = Some(Contents::Constant(0.0)),
                "ones" => input.contents = Some(Contents::Constant(1.0)),
                "index" => input.contents = Some(Contents::Index),
                _ => match (Elem::named(word), word.parse()) {
                    (Some(elem), _) => input.elem = Some(elem),
                    (None, Ok(number)) => input.contents = Some(Contents::Constant(number)),
                    (None, Err(_)) => {
                        return Err(wrong(word, format!("`{word}` is no type, layout or contents")));
                    }
                },
            }
        }
        Ok(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Failure;

    #[test]
    fn inputs_are_read() {
        let read = |text| Input::read(text).expect(text);
        let whole = read("x: f32 [M=4096, N=1000] row-major normal");
        let extents = vec![(Some("M".to_owned()), 4096), (Some("N".to_owned()), 1000)];
        let (name, contents) = ("x".to_owned(), Some(Contents::Normal));
        assert_eq!(whole, Input { name, elem: Some(Elem::F32), extents, rows: Some(true), contents });
        assert_eq!(read("alpha: 0.5").contents, Some(Contents::Constant(0.5)));
        assert_eq!(read("y:bf16[8]").extents, [(None, 8)]);
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        match Input::read(text) {
            Err(Failure::Refused(message)) => assert_eq!(message, format!("{expected}\nhelp: {WORDS}")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_read_is_pointed_at() {
        refused(
            "x: f33 [4]",
            "`f33` is no type, layout or contents\n  --input 'x: f33 [4]'\n              ^^^",
        );
        refused(
            "x: [4, b]",
            "an extent is a number from 0 to 2147483647\n  --input 'x: [4, b]'\n                  ^",
        );
        refused("x: [4", "the bracket is not closed\n  --input 'x: [4'\n              ^^");
        refused("x", "an argument's name and a colon come first\n  --input 'x'\n           ^");
    }
}
