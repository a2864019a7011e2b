//! Texts of leaves: numbers, names, lists, layouts.

use tilewright_layout::{Composed, Layout, Obligation, Symbol, Tuple, Value};

use super::{Reader, Result, Text, Writer, read_field, records, variants, write_field};
use crate::isa;
use crate::isa::atom::Atom;
use crate::launch::fields::{value_records, value_variants};
use crate::thread::{Bin, Cmp, Fast, Scope, Un, Unroll};
use crate::values::affine::{Arith, Coord};
use crate::values::condition::{Require, Test};
use crate::values::elem::Elem;
use crate::values::expr::Expr;
use crate::values::number::Number;

/// Writes `(part, part)`.
pub(super) fn call(to: &mut Writer, parts: &[&dyn Fn(&mut Writer)]) {
    for (at, part) in parts.iter().enumerate() {
        to.raw(if at == 0 { "(" } else { ", " });
        part(to);
    }
    to.raw(")");
}

/// Reads a part of `(part, part)`.
pub(super) fn part<T: Text>(from: &mut Reader<'_>, first: &mut bool) -> Result<T> {
    from.needs(if *first { "(" } else { "," })?;
    *first = false;
    T::read(from)
}

impl Reader<'_> {
    /// An integer of a type.
    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Result<T> {
        let rest = self.rest();
        let sign = usize::from(rest.starts_with('-'));
        let digits = rest[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - sign);
        match rest[..sign + digits].parse() {
            Ok(n) => {
                self.at += sign + digits;
                Ok(n)
            }
            Err(_) => Err(self.wrong("an integer")),
        }
    }
}

/// Types whose text is what they display.
macro_rules! displayed {
    ($($ty:ty, $from:ident => $read:expr;)*) => {$(
        impl Text for $ty {
            fn write(&self, to: &mut Writer) {
                to.raw(&self.to_string());
            }

            fn read($from: &mut Reader<'_>) -> Result<$ty> {
                $read
            }
        }
    )*};
}

displayed! {
    u8, from => from.number();
    u32, from => from.number();
    i32, from => from.number();
    i64, from => from.number();
    usize, from => from.number();
    bool, from => match from.peek() {
        "true" | "false" => Ok(from.word() == "true"),
        _ => Err(from.wrong("true or false")),
    };
    Layout, from => of_layouts(from, "layout", |reader| reader.layout().ok());
    Composed, from => of_layouts(from, "layout", |reader| reader.composed().ok());
    Value, from => of_layouts(from, "size", |reader| reader.tuple().ok().and_then(|tuple: Tuple| tuple.as_leaf()));
    Elem, from => {
        let elem = Elem::named(from.peek()).ok_or_else(|| from.wrong("an element type"))?;
        from.word();
        Ok(elem)
    };
    Number, from => {
        let rest = from.rest();
        let part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let text = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        let number = match text.parse::<i128>() {
            Ok(n) => Some(Number::Int(n)),
            Err(_) => text.parse().ok().map(Number::Float),
        };
        let number = number.ok_or_else(|| from.wrong("a number"))?;
        from.at += text.len();
        Ok(number)
    };
}

impl Text for String {
    fn write(&self, to: &mut Writer) {
        to.raw(&format!("{self:?}"));
    }

    fn read(from: &mut Reader<'_>) -> Result<String> {
        if !from.takes("\"") {
            return Err(from.wrong("a name in quotes"));
        }
        let mut text = String::new();
        let rest = from.rest();
        let mut left = rest.char_indices();
        while let Some((at, c)) = left.next() {
            match c {
                '"' => {
                    from.at += at + 1;
                    return Ok(text);
                }
                '\\' => text.extend(match left.next().map(|(_, c)| c) {
                    Some('n') => Some('\n'),
                    Some('t') => Some('\t'),
                    other => other,
                }),
                c => text.push(c),
            }
        }
        Err(from.wrong("a closing quote"))
    }
}

impl<T: Text> Text for Option<T> {
    fn write(&self, to: &mut Writer) {
        match self {
            Some(value) => value.write(to),
            None => to.raw("_"),
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<T>> {
        if from.takes_word("_") { Ok(None) } else { T::read(from).map(Some) }
    }
}

/// Writes `[value, value]`.
fn list<T: Text>(to: &mut Writer, values: &[T]) {
    to.raw("[");
    for (at, value) in values.iter().enumerate() {
        to.raw(if at > 0 { ", " } else { "" });
        value.write(to);
    }
    to.raw("]");
}

impl<T: Text> Text for Vec<T> {
    fn write(&self, to: &mut Writer) {
        if T::LINES {
            to.raw("{");
            to.indent += 1;
            for value in self {
                to.new_line();
                value.write(to);
            }
            to.indent -= 1;
            to.new_line();
            return to.raw("}");
        }
        list(to, self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Vec<T>> {
        let (open, close) = if T::LINES { ("{", "}") } else { ("[", "]") };
        from.needs(open)?;
        let mut values = Vec::new();
        while !from.takes(close) {
            if !T::LINES && !values.is_empty() {
                from.needs(",")?;
            }
            values.push(T::read(from)?);
        }
        Ok(values)
    }
}

impl<T: Text, const N: usize> Text for [T; N] {
    fn write(&self, to: &mut Writer) {
        list(to, self);
    }

    fn read(from: &mut Reader<'_>) -> Result<[T; N]> {
        from.needs("[")?;
        let mut values = Vec::new();
        for at in 0..N {
            if at > 0 {
                from.needs(",")?;
            }
            values.push(T::read(from)?);
        }
        from.needs("]")?;
        values.try_into().map_err(|_| from.wrong(format!("{N} values")))
    }
}

macro_rules! tuples {
    ($(($($ty:ident $at:tt),+))*) => {$(
        impl<$($ty: Text),+> Text for ($($ty),+) {
            fn write(&self, to: &mut Writer) {
                call(to, &[$(&|to| self.$at.write(to)),+]);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self> {
                let mut first = true;
                let all = ($(part::<$ty>(from, &mut first)?),+);
                from.needs(")")?;
                Ok(all)
            }
        }
    )*};
}

tuples! { (A 0, B 1) (A 0, B 1, C 2) }

impl<T: Text> Text for Box<T> {
    fn write(&self, to: &mut Writer) {
        (**self).write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Box<T>> {
        T::read(from).map(Box::new)
    }
}

/// Parses a layout as the layout crate prints it.
fn of_layouts<T>(
    from: &mut Reader<'_>,
    what: &'static str,
    read: impl FnOnce(&mut tilewright_layout::Reader<'_>) -> Option<T>,
) -> Result<T> {
    let rest = from.rest();
    let mut reader = tilewright_layout::Reader::new(what, rest);
    match read(&mut reader) {
        Some(value) => {
            from.at += rest.len() - reader.rest().len();
            Ok(value)
        }
        None => Err(from.wrong(format!("a {what}"))),
    }
}

impl Text for Symbol {
    fn write(&self, to: &mut Writer) {
        to.raw(self.name());
    }

    fn read(from: &mut Reader<'_>) -> Result<Symbol> {
        match from.word() {
            "" => Err(from.wrong("a name")),
            name => Ok(Symbol::new(name)),
        }
    }
}

impl Text for &'static Atom {
    fn write(&self, to: &mut Writer) {
        to.raw(self.name);
    }

    fn read(from: &mut Reader<'_>) -> Result<&'static Atom> {
        let name = from.peek();
        let row = isa::find(name).ok_or_else(|| from.wrong("an instruction"))?;
        from.word();
        Ok(row)
    }
}

value_records!(records);
value_variants!(variants);
