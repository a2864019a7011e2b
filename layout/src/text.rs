//! Layouts as text: `Display` prints `(4,(2,3)):(1,(4,8))`, `FromStr` reads it back.

use std::fmt;
use std::str::FromStr;

use crate::error::{Condition, LayoutError, Result, shortened};
use crate::few::Few;
use crate::layout::Layout;
use crate::profile::{Nest, Profile};
use crate::tuple::Tuple;
use crate::value::{Path, Symbol, Value};

/// Deepest nesting that text may have. Values built in code may go deeper.
const MAX_DEPTH: usize = 64;

pub(crate) fn write_tuple(f: &mut fmt::Formatter<'_>, leaves: &[Value], profile: &Profile) -> fmt::Result {
    if leaves.is_empty() {
        return f.write_str("()");
    }
    for (i, (leaf, nest)) in leaves.iter().zip(profile.0.iter()).enumerate() {
        if i > 0 {
            f.write_str(",")?;
        }
        for _ in 0..nest.opens {
            f.write_str("(")?;
        }
        write!(f, "{leaf}")?;
        for _ in 0..nest.closes {
            f.write_str(")")?;
        }
    }
    Ok(())
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_tuple(f, &self.leaves, &self.profile)
    }
}

impl fmt::Debug for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_tuple(f, &self.shape, &self.profile)?;
        f.write_str(":")?;
        write_tuple(f, &self.stride, &self.profile)
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Tuple {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Tuple> {
        let mut reader = Reader::new("tuple", text);
        let tuple = reader.tuple()?;
        reader.end("the end, or `,` inside parentheses")?;
        Ok(tuple)
    }
}

impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Layout> {
        let mut reader = Reader::new("layout", text);
        let layout = reader.layout()?;
        reader.end("the end of the layout")?;
        Ok(layout)
    }
}

/// Reads tuples and layouts from the front of a text. The expressions of the command line use it too.
pub struct Reader<'t> {
    what: &'static str,
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// A reader at the beginning of `text`; `what` names the thing in errors.
    pub fn new(what: &'static str, text: &'t str) -> Reader<'t> {
        Reader { what, text, at: 0 }
    }

    /// What is left, without leading spaces.
    pub fn rest(&mut self) -> &'t str {
        self.peek();
        &self.text[self.at..]
    }

    /// The next byte that is not a space.
    pub fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|b| *b == b' ' || *b == b'\t') {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Takes one character if it is next.
    pub fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// Takes one character, or says what was expected.
    pub fn need(&mut self, wanted: u8, expected: &'static str) -> Result<()> {
        if self.take(wanted) {
            Ok(())
        } else {
            Err(self.expected(expected))
        }
    }

    /// An error unless everything has been read.
    pub fn end(&mut self, expected: &'static str) -> Result<()> {
        if self.peek().is_none() {
            Ok(())
        } else {
            Err(self.expected(expected))
        }
    }

    /// An error at this place.
    pub fn expected(&mut self, expected: &'static str) -> LayoutError {
        self.peek();
        let found = match self.text[self.at..].chars().next() {
            None => "the end".to_owned(),
            Some(c) => format!("`{}`", shortened(&c.to_string())),
        };
        let column = self.text[..self.at].chars().count() + 1;
        LayoutError::new(
            self.what,
            Condition::Parse {
                column,
                expected,
                found,
            },
        )
        .with(self.text)
    }

    /// `shape:stride`, or a shape alone for the compact column-major layout.
    pub fn layout(&mut self) -> Result<Layout> {
        let shape = self.tuple()?;
        self.need(b':', "`:` and the stride")?;
        let stride = self.tuple()?;
        let made = Layout::new(shape, stride);
        made.map_err(|e| e.with(self.text).within(self.what, [self.text.into()]))
    }

    /// A number or a parenthesised tuple.
    pub fn tuple(&mut self) -> Result<Tuple> {
        let mut leaves: Few<Value> = Few::empty(Value::Int(0));
        let mut nests: Few<Nest> = Few::empty(Profile::NONE);
        let (mut depth, mut opens) = (0usize, 0u16);
        loop {
            while self.take(b'(') {
                depth += 1;
                opens += 1;
                if depth > MAX_DEPTH {
                    self.at -= 1;
                    return Err(self.expected("at most 64 levels of parentheses"));
                }
            }
            leaves.push(self.leaf()?);
            nests.push(Nest { opens, closes: 0 });
            opens = 0;
            while depth > 0 && self.take(b')') {
                depth -= 1;
                let last = nests.len() - 1;
                nests[last].closes += 1;
            }
            if depth == 0 {
                return Ok(Tuple {
                    leaves,
                    profile: Profile(nests),
                });
            }
            self.need(b',', "`,` or `)`")?;
        }
    }

    fn leaf(&mut self) -> Result<Value> {
        const WANTED: &str = "a number or `(`";
        let negative = self.take(b'-');
        match self.peek() {
            Some(b'_') if !negative && !self.word_follows() => {
                self.at += 1;
                Ok(Value::Any)
            }
            Some(b'0'..=b'9') => {
                let n = self.number(negative)?;
                match self.peek() {
                    Some(b'@') => self.basis(n),
                    Some(b'*') => {
                        self.at += 1;
                        self.symbol(n)
                    }
                    _ => Ok(Value::Int(n)),
                }
            }
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.symbol(if negative { -1 } else { 1 }),
            _ => Err(self.expected(WANTED)),
        }
    }

    fn word_follows(&self) -> bool {
        self.text
            .as_bytes()
            .get(self.at + 1)
            .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    }

    /// A decimal number.
    pub fn number(&mut self, negative: bool) -> Result<i64> {
        self.peek();
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut n = 0i64;
        while let Some(digit @ b'0'..=b'9') = bytes.get(self.at).copied() {
            let digit = i64::from(digit - b'0');
            let next = n.checked_mul(10).and_then(|n| {
                if negative {
                    n.checked_sub(digit)
                } else {
                    n.checked_add(digit)
                }
            });
            n = match next {
                Some(n) => n,
                None => {
                    self.at = start;
                    return Err(self.expected("a number of at most 63 bits"));
                }
            };
            self.at += 1;
        }
        if self.at == start {
            Err(self.expected("a number"))
        } else {
            Ok(n)
        }
    }

    fn basis(&mut self, times: i64) -> Result<Value> {
        let mut steps = Vec::new();
        while self.take(b'@') {
            steps.insert(0, self.number(false)? as usize);
        }
        let path =
            Path::new(&steps).ok_or_else(|| self.expected("at most four basis steps, each under 256"))?;
        Ok(if times == 0 {
            Value::Int(0)
        } else {
            Value::Basis { times, path }
        })
    }

    /// A name: a letter or `_`, then letters, digits and `_`.
    pub fn word(&mut self) -> Option<&'t str> {
        self.peek();
        let rest = &self.text[self.at..];
        let len = rest
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
            .count();
        let starts = rest
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        (starts && len > 0).then(|| {
            self.at += len;
            &rest[..len]
        })
    }

    fn symbol(&mut self, times: i64) -> Result<Value> {
        let name = self.word().ok_or_else(|| self.expected("the name of a symbol"))?;
        let (name, over) = if name == "ceil" && self.take(b'(') {
            let name = self.word().ok_or_else(|| self.expected("the name of a symbol"))?;
            self.need(b'/', "`/`")?;
            let over = self.number(false)?;
            self.need(b')', "`)`")?;
            (name, over)
        } else {
            (name, 1)
        };
        match u32::try_from(over) {
            Ok(over) if over > 0 && times != 0 => Ok(Value::Sym {
                times,
                of: Symbol::new(name),
                over,
            }),
            Ok(over) if over > 0 => Ok(Value::Int(0)),
            _ => Err(self.expected("a divisor between 1 and 4294967295")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn round_trip(text: &str) {
        assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
    }

    #[test]
    fn prints_what_it_reads() {
        for text in [
            "4:1",
            "(4):(1)",
            "(4,(2,3)):(1,(4,8))",
            "((2,2),((3)),4):((1,-2),((0)),9)",
            "(M,ceil(K/8)):(1,128*lda)",
            "(4,3):(1@0,2@1@0)",
            "(1,2,3,4,5,6,7,8,9,10,11,12,13,14):(1,2,3,4,5,6,7,8,9,10,11,12,13,14)",
        ] {
            round_trip(text);
        }
        assert_eq!(
            " ( 4 , 2 ) : ( 1 , 4 ) ".parse::<Layout>().unwrap().to_string(),
            "(4,2):(1,4)"
        );
    }

    #[track_caller]
    fn refused(text: &str, line: &str) {
        assert_eq!(text.parse::<Layout>().unwrap_err().line(), line);
    }

    #[test]
    fn says_where_text_goes_wrong() {
        refused("", "layout: column 1: expected a number or `(`, found the end");
        refused("(4,2:(1,4)", "layout: column 5: expected `,` or `)`, found `:`");
        refused(
            "(4,2)",
            "layout: column 6: expected `:` and the stride, found the end",
        );
        refused(
            "(4,2)):(1,4)",
            "layout: column 6: expected `:` and the stride, found `)`",
        );
        refused(
            "(4,2):(1,4))",
            "layout: column 12: expected the end of the layout, found `)`",
        );
        refused(
            "(4,é):(1,4)",
            "layout: column 4: expected a number or `(`, found `é`",
        );
        refused(
            "(4,2):1",
            "layout: the shape (4,2) and the stride 1 do not nest alike",
        );
        refused(
            "(4,0):(1,4)",
            "layout: leaf 1 has the extent 0, and an extent must be at least 1",
        );
        refused(
            "(4,-2):(1,4)",
            "layout: leaf 1 has the extent -2, and an extent must be at least 1",
        );
        refused("(4,_):(1,4)", "layout: `_` in leaf 1 is not a possible extent");
        refused("():()", "layout: column 2: expected a number or `(`, found `)`");
        let digits = "9".repeat(10_000);
        refused(
            &digits,
            "layout: column 1: expected a number of at most 63 bits, found `9`",
        );
        let deep = "(".repeat(1000) + "1";
        refused(
            &deep,
            "layout: column 65: expected at most 64 levels of parentheses, found `(`",
        );
        refused(
            "(4294967296,4294967296):(1,1)",
            "layout: the size or the largest offset passes 63 bits at leaf 1",
        );
    }
}
