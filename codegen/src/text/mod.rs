//! Tile programs and thread programs as text: printed, and parsed back to equal programs. The text leaves out
//! source locations.
//!
//! ```
//! use tilewright_codegen::{Elem, build::Builder, text, tile::Program};
//! let mut b = Builder::new("nothing");
//! b.tensor("x", Elem::F32, (tilewright_layout::Value::symbol("N"),), None, false)?;
//! let program = b.finish();
//! let printed = text::print(&program);
//! assert!(printed.contains(r#"name "x" elem f32 space global layout (N):(1)"#));
//! assert_eq!(text::print(&text::parse::<Program>(&printed).unwrap()), printed);
//! # Ok::<(), tilewright_codegen::problem::Problem>(())
//! ```
//!
//! Both representations are tables of records. A record is a list of fields, each its name and its value; fields at their
//! usual value are left out. `copy from … to …` is a record after the name of a statement, `submode(…, 4, _)` a variant with
//! parts, `_` is `None`, `[a, b]` a list, and `{ … }` a list of one record on each line.

mod terminals;
mod thread;
mod tile;

use std::fmt;

use crate::thread::Kernel;
use crate::tile::Program;

/// A parse error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The expected token.
    pub expected: String,
    /// The token in the text.
    pub actual: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { line, column, expected, actual } = self;
        write!(f, "line {line}, column {column}: {expected} is expected, and here is {actual}")
    }
}

impl std::error::Error for Wrong {}

type Result<T> = std::result::Result<T, Wrong>;

/// A type with a text.
trait Text: Sized {
    /// Is each element of a list on a separate line?
    const LINES: bool = false;

    /// Writes it.
    fn write(&self, to: &mut Writer);

    /// Reads it back.
    fn read(from: &mut Reader<'_>) -> Result<Self>;
}

/// The text so far.
#[derive(Default)]
struct Writer {
    text: String,
    indent: usize,
}

impl Writer {
    fn new_line(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("    ", self.indent));
    }

    /// Characters as they are.
    fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The name of a field, without its prefix.
    fn field(&mut self, name: &str) {
        if !self.text.ends_with([' ', '\n']) && !self.text.is_empty() {
            self.raw(" ");
        }
        self.raw(name);
        self.raw(" ");
    }
}

/// The rest of a text.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Reader<'t> {
        Reader { text, at: 0 }
    }

    /// The rest, without leading space and comments.
    fn rest(&mut self) -> &'t str {
        loop {
            let rest = &self.text[self.at..];
            let begin = rest.trim_start();
            self.at += rest.len() - begin.len();
            if !begin.starts_with("//") {
                return begin;
            }
            self.at += begin.find('\n').unwrap_or(begin.len());
        }
    }

    fn wrong(&mut self, expected: impl Into<String>) -> Wrong {
        let rest = self.rest();
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        let actual = match rest.split_whitespace().next() {
            None => "the end".to_owned(),
            Some(word) => format!("`{}`", word.chars().take(24).collect::<String>()),
        };
        Wrong { line, column, expected: expected.into(), actual }
    }

    /// Takes these characters if they are next.
    fn takes(&mut self, wanted: &str) -> bool {
        let actual = self.rest().starts_with(wanted);
        self.at += if actual { wanted.len() } else { 0 };
        actual
    }

    fn needs(&mut self, wanted: &str) -> Result<()> {
        if self.takes(wanted) { Ok(()) } else { Err(self.wrong(format!("`{wanted}`"))) }
    }

    /// Peeks at the next word.
    fn peek(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    }

    fn word(&mut self) -> &'t str {
        let word = self.peek();
        self.at += word.len();
        word
    }

    /// Takes a word if it is next.
    fn takes_word(&mut self, wanted: &str) -> bool {
        let actual = self.peek() == wanted;
        self.at += if actual { wanted.len() } else { 0 };
        actual
    }

    fn end(&mut self) -> Result<()> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.wrong("the end")) }
    }
}

/// A tile program or a thread program.
#[expect(private_bounds)]
pub trait Representation: Text {}

impl Representation for Program {}

impl Representation for Kernel {}

/// The text of a program.
pub fn print(program: &impl Representation) -> String {
    printed(program)
}

/// The program of a text.
pub fn parse<P: Representation>(text: &str) -> Result<P> {
    parsed(text)
}

/// The text of a value.
fn printed<T: Text>(value: &T) -> String {
    let mut to = Writer::default();
    value.write(&mut to);
    to.text.push('\n');
    to.text
}

/// The value of a text.
fn parsed<T: Text>(text: &str) -> Result<T> {
    let mut from = Reader::new(text);
    let value = T::read(&mut from)?;
    from.end()?;
    Ok(value)
}

/// A field in a record: with its usual value, if it has one, it is left out.
macro_rules! write_field {
    ($to:ident, $name:expr, $value:expr) => {
        $to.field($name);
        $crate::text::Text::write($value, $to);
    };
    ($to:ident, $name:expr, $value:expr, $usual:expr) => {
        if *$value != $usual {
            write_field!($to, $name, $value);
        }
    };
}

macro_rules! read_field {
    ($from:ident, $name:expr) => {
        match $from.takes_word($name) {
            true => $crate::text::Text::read($from)?,
            false => return Err($from.wrong(format!("the field `{}`", $name))),
        }
    };
    ($from:ident, $name:expr, $usual:expr) => {
        match $from.takes_word($name) {
            true => $crate::text::Text::read($from)?,
            false => $usual,
        }
    };
}

/// Structs as records. Fields after `-` have no text.
macro_rules! records {
    ($($ty:ident { $($field:ident $(= $usual:expr)?),* $(, - $skipped:ident)* })*) => {$(
        impl $crate::text::Text for $ty {
            const LINES: bool = true;

            fn write(&self, to: &mut $crate::text::Writer) {
                $(write_field!(to, stringify!($field), &self.$field $(, $usual)?);)*
            }

            fn read(from: &mut $crate::text::Reader<'_>) -> $crate::text::Result<Self> {
                Ok($ty {
                    $($field: read_field!(from, stringify!($field) $(, $usual)?),)*
                    $($skipped: Default::default(),)*
                })
            }
        }
    )*};
}

/// Enums: `name`, `name(part, part)` or a record after its name. Fields in brackets are parts by their positions.
macro_rules! variants {
    ($($ty:ident {
        $(
            $word:literal $variant:ident
            $(($($part:ident),+))? $([$($item:ident),+])? $({ $($field:ident $(= $usual:expr)?),+ })?
        ),+ $(,)?
    })*) => {$(
        impl $crate::text::Text for $ty {
            fn write(&self, to: &mut $crate::text::Writer) {
                match self {
                    $($ty::$variant $(($($part),+))? $({ $($item),+ })? $({ $($field),+ })? => {
                        to.raw($word);
                        $($crate::text::terminals::call(to, &[$(&|to| $crate::text::Text::write($part, to)),+]);)?
                        $($crate::text::terminals::call(to, &[$(&|to| $crate::text::Text::write($item, to)),+]);)?
                        $($(write_field!(to, stringify!($field), $field $(, $usual)?);)+)?
                    })+
                }
            }

            fn read(from: &mut $crate::text::Reader<'_>) -> $crate::text::Result<Self> {
                let known: &[&str] = &[$($word),+];
                match from.peek() {
                    $($word => {
                        from.word();
                        $(
                            let mut first = true;
                            $(let $part = $crate::text::terminals::part(from, &mut first)?;)+
                            from.needs(")")?;
                        )?
                        $(
                            let mut first = true;
                            $(let $item = $crate::text::terminals::part(from, &mut first)?;)+
                            from.needs(")")?;
                        )?
                        $($(let $field = read_field!(from, stringify!($field) $(, $usual)?);)+)?
                        Ok($ty::$variant $(($($part),+))? $({ $($item),+ })? $({ $($field),+ })?)
                    })+
                    _ => Err(from.wrong(format!("one of {}", known.join(", ")))),
                }
            }
        }
    )*};
}

use {read_field, records, variants, write_field};
