//! Layouts as text: `Display` prints `(4,(2,3)):(1,(4,8))`, `FromStr` reads it back.

use std::fmt;
use std::str::FromStr;

use crate::error::{Condition, LayoutError, Result, shortened};
use crate::few::Few;
use crate::layout::Layout;
use crate::profile::{Nest, Profile};
use crate::tuple::Tuple;
use crate::value::{Path, Symbol, Value};

/// The deepest nesting of a text and of a layout. Other tuples that are built in code may be deeper.
pub(crate) const MAX_DEPTH: usize = 64;

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
        fmt::Display::fmt(leaf, f)?;
        for _ in 0..nest.closes {
            f.write_str(")")?;
        }
    }
    Ok(())
}

/// Digits without `Formatter`'s padding, which took half of the time of printing a layout.
pub(crate) fn write_int(f: &mut fmt::Formatter<'_>, n: i64) -> fmt::Result {
    let mut digits = [b'0'; 20];
    let (mut at, mut rest) = (digits.len(), n.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    f.write_str(std::str::from_utf8(&digits[at..]).map_err(|_| fmt::Error)?)
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

/// Prints numbers as they are: width and precision are ignored.
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

/// Parses tuples and layouts from the front of a text. The expressions of the command line use it too.
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

    /// The remaining text, without leading spaces.
    pub fn rest(&mut self) -> &'t str {
        self.peek();
        &self.text[self.at..]
    }

    /// The next byte that is not a space.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|b| *b == b' ' || *b == b'\t') {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Takes one character if it is next.
    #[inline]
    pub fn take(&mut self, wanted: u8) -> bool {
        let actual = self.peek() == Some(wanted);
        self.at += usize::from(actual);
        actual
    }

    /// Takes one character, or returns an error with what was expected.
    pub fn need(&mut self, wanted: u8, expected: &'static str) -> Result<()> {
        if self.take(wanted) { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// An error unless everything has been read.
    pub fn end(&mut self, expected: &'static str) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// An error at this position.
    pub fn expected(&mut self, expected: &'static str) -> LayoutError {
        self.peek();
        let actual = match self.text[self.at..].chars().next() {
            None => "the end".to_owned(),
            Some(c) => format!("`{}`", shortened(&c.to_string())),
        };
        let column = self.text[..self.at].chars().count() + 1;
        LayoutError::new(self.what, Condition::Parse { column, expected, actual }).with(self.text)
    }

    /// The name of the parsed thing, for errors.
    pub(crate) fn what(&self) -> &'static str {
        self.what
    }

    /// `shape:stride`.
    ///
    /// ```
    /// use tilewright_layout::Reader;
    /// let mut reader = Reader::new("example", "(4,2):(1,4) and more");
    /// assert_eq!(reader.layout()?.to_string(), "(4,2):(1,4)");
    /// assert_eq!(reader.rest(), "and more");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn layout(&mut self) -> Result<Layout> {
        let mut layout = Layout::empty();
        self.layout_into(&mut layout)?;
        Ok(layout)
    }

    /// Parses into an existing layout; after an error its value is unspecified.
    pub(crate) fn layout_into(&mut self, layout: &mut Layout) -> Result<()> {
        self.shape_into(layout)?;
        self.need(b':', "`:` and the stride")?;
        self.stride_into(layout)
    }

    pub(crate) fn shape_into(&mut self, layout: &mut Layout) -> Result<()> {
        layout.shape.clear();
        layout.profile.0.clear();
        self.tuple_into(&mut layout.shape, &mut layout.profile.0)
    }

    /// The stride of a layout whose shape has been read.
    pub(crate) fn stride_into(&mut self, layout: &mut Layout) -> Result<()> {
        layout.stride.clear();
        let mut nests = Few::empty(Profile::NONE);
        self.tuple_into(&mut layout.stride, &mut nests)?;
        let made = if nests == layout.profile.0 {
            layout.check(self.what)
        } else {
            let (leaves, profile) = (layout.stride.clone(), Profile(nests));
            let (shape, stride) = (layout.shape(), Tuple { leaves, profile });
            Err(LayoutError::new(self.what, Condition::NotCongruent { shape, stride }))
        };
        made.map_err(|e| e.within(self.what, [self.text.into()]))
    }

    /// The layout of a shape whose stride is next.
    pub fn layout_of(&mut self, shape: Tuple) -> Result<Layout> {
        let made = Layout::new(shape, self.tuple()?);
        made.map_err(|e| e.within(self.what, [self.text.into()]))
    }

    /// A number or a parenthesised tuple.
    ///
    /// ```
    /// use tilewright_layout::Reader;
    /// let mut reader = Reader::new("example", "(4,_) 7");
    /// assert_eq!((reader.tuple()?.to_string(), reader.tuple()?.to_string()), ("(4,_)".to_string(), "7".to_string()));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn tuple(&mut self) -> Result<Tuple> {
        let mut tuple = Tuple { leaves: Few::empty(Value::Int(0)), profile: Profile::empty() };
        self.tuple_into(&mut tuple.leaves, &mut tuple.profile.0)?;
        Ok(tuple)
    }

    /// A tuple, into leaves and nests that are empty. In place: moving tuples was most of the time of
    /// parsing.
    fn tuple_into(&mut self, leaves: &mut Few<Value>, nests: &mut Few<Nest>) -> Result<()> {
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
            leaves.push(match self.plain_integer() {
                Some(n) => Value::Int(n),
                None => self.leaf()?,
            });
            let mut closes = 0;
            while depth > 0 && self.take(b')') {
                depth -= 1;
                closes += 1;
            }
            nests.push(Nest { opens, closes });
            opens = 0;
            if depth == 0 {
                return Ok(());
            }
            if !self.take(b',') {
                return Err(self.expected("`,` or `)`"));
            }
        }
    }

    /// Nearly every leaf is a small number followed by `,`, `)`, `:` or the end. [`leaf`](Reader::leaf)
    /// parses everything else.
    #[inline]
    fn plain_integer(&mut self) -> Option<i64> {
        let bytes = &self.text.as_bytes()[self.at..];
        let (mut n, mut len) = (0i64, 0);
        for byte in bytes.iter().take(10) {
            match byte {
                b'0'..=b'9' => n = n * 10 + i64::from(byte - b'0'),
                b',' | b')' | b':' if len > 0 => {
                    self.at += len;
                    return Some(n);
                }
                _ => return None,
            }
            len += 1;
        }
        if len == 0 || len < bytes.len() {
            return None;
        }
        self.at += len;
        Some(n)
    }

    fn leaf(&mut self) -> Result<Value> {
        const WANTED: &str = "a number or `(`";
        let negative = self.take(b'-');
        match self.peek() {
            Some(b'_') if !negative && !self.at_word() => {
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

    fn at_word(&self) -> bool {
        self.text.as_bytes().get(self.at + 1).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    }

    /// A decimal number.
    pub fn number(&mut self, negative: bool) -> Result<i64> {
        self.peek();
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if len == 0 {
            return Err(self.expected("a number"));
        }
        let sign = if negative { -1 } else { 1 };
        let (sure, more) = rest[..len].split_at(len.min(18)); // eighteen digits always fit
        let mut n = 0i64;
        for byte in sure {
            n = n * 10 + sign * i64::from(byte - b'0');
        }
        for byte in more {
            let next = n.checked_mul(10);
            n = match next.and_then(|n| n.checked_add(sign * i64::from(byte - b'0'))) {
                Some(n) => n,
                None => return Err(self.expected("a number of at most 63 bits")),
            };
        }
        self.at += len;
        Ok(n)
    }

    fn basis(&mut self, times: i64) -> Result<Value> {
        let mut steps = Vec::new();
        while self.take(b'@') {
            if steps.len() > 4 {
                return Err(self.expected("at most four basis steps, each under 256"));
            }
            steps.insert(0, self.number(false)? as usize);
        }
        let path =
            Path::new(&steps).ok_or_else(|| self.expected("at most four basis steps, each under 256"))?;
        Ok(if times == 0 { Value::Int(0) } else { Value::Basis { times, path } })
    }

    /// A name: a letter or `_`, then letters, digits and `_`.
    ///
    /// ```
    /// use tilewright_layout::Reader;
    /// assert_eq!(Reader::new("example", " coalesce(4:1)").word(), Some("coalesce"));
    /// ```
    pub fn word(&mut self) -> Option<&'t str> {
        self.peek();
        let rest = &self.text[self.at..];
        let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let starts = rest.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        // `_` alone is not a name: it is a whole mode.
        (starts && &rest[..len] != "_").then(|| {
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
            Ok(over) if over > 0 && times != 0 => Ok(Value::Sym { times, of: Symbol::new(name), over }),
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
        assert_eq!(" ( 4 , 2 ) : ( 1 , 4 ) ".parse::<Layout>().unwrap().to_string(), "(4,2):(1,4)");
    }

    #[track_caller]
    fn refused(text: &str, line: &str) {
        assert_eq!(text.parse::<Layout>().unwrap_err().line(), line);
    }

    #[test]
    fn says_where_text_goes_wrong() {
        refused("", "layout: column 1: expected a number or `(`, found the end");
        refused("(4,2:(1,4)", "layout: column 5: expected `,` or `)`, found `:`");
        refused("(4,2)", "layout: column 6: expected `:` and the stride, found the end");
        refused("(4,2)):(1,4)", "layout: column 6: expected `:` and the stride, found `)`");
        refused("(4,2):(1,4))", "layout: column 12: expected the end of the layout, found `)`");
        refused("(4,é):(1,4)", "layout: column 4: expected a number or `(`, found `é`");
        refused("(4,2):1", "layout: the shape (4,2) and the stride 1 are not congruent");
        refused("(4,0):(1,4)", "layout: leaf 1 has the extent 0, and an extent must be at least 1");
        refused("(4,-2):(1,4)", "layout: leaf 1 has the extent -2, and an extent must be at least 1");
        refused("(4,_):(1,4)", "layout: `_` in leaf 1 is not a possible extent");
        refused("():()", "layout: column 2: expected a number or `(`, found `)`");
        let digits = "9".repeat(10_000);
        refused(&digits, "layout: column 1: expected a number of at most 63 bits, found `9`");
        let deep = "(".repeat(1000) + "1";
        refused(&deep, "layout: column 65: expected at most 64 levels of parentheses, found `(`");
        refused(
            "(4294967296,4294967296):(1,1)",
            "layout: the size or the largest offset passes 63 bits at leaf 1",
        );
    }
}
