//! Serialisation of trees, which a compiled program carries so that a kernel can be specialised again at
//! run time.
//!
//! Numbers are variable-length, sequences are counted, variants are one byte. Reading never trusts its input: wrong
//! bytes give `None`, and nesting is bounded.

use crate::source::stack::with_room;
use crate::source::stack::{self, ROOM};

/// Something that can be written to bytes and read back.
pub trait Wire: Sized {
    /// Appends itself.
    fn put(&self, to: &mut Vec<u8>);
    /// Takes itself from the front; `None` when the bytes are not one.
    fn get(from: &mut Bytes<'_>) -> Option<Self>;
}

/// The remaining bytes, and the nesting depth of the reader.
#[derive(Debug)]
pub struct Bytes<'b> {
    left: &'b [u8],
    depth: u32,
    /// Are spans read as they are? Otherwise all are the default.
    with_spans: bool,
}

/// Deepest nesting that is read back: statements in statements, and expressions in the innermost of them.
const DEEPEST: u32 = 2 * stack::DEEPEST;

impl<'b> Bytes<'b> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(*first)
    }

    /// Takes this variant, if it is next.
    pub(crate) fn skip(&mut self, variant: u8) -> bool {
        let result = self.left.first() == Some(&variant);
        if result {
            self.left = &self.left[1..];
        }
        result
    }

    pub(crate) fn span(&mut self) -> Option<u32> {
        let span = u32::get(self)?;
        Some(if self.with_spans { span } else { 0 })
    }

    pub(crate) fn variant(&mut self) -> Option<u8> {
        self.byte()
    }

    /// Reads one level of a recursive type; `None` if it is too deep. Deep trees get a separate stack.
    pub(crate) fn deeper<T: Send>(&mut self, read: impl FnOnce(&mut Self) -> Option<T> + Send) -> Option<T> {
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let inner = match self.depth == ROOM {
            true => with_room(|| read(self)),
            false => read(self),
        };
        self.depth -= 1;
        inner
    }

    /// Reads at this level.
    pub(crate) fn beside<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        read(self)
    }
}

/// A tree as bytes.
pub fn encode<T: Wire>(tree: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    tree.put(&mut bytes);
    bytes
}

/// A tree from bytes; `None` unless all of them are one tree.
pub fn decode<T: Wire>(bytes: &[u8]) -> Option<T> {
    whole(Bytes { left: bytes, depth: 0, with_spans: true })
}

/// A tree from bytes, as if it were not written at any position: each span is the default.
pub fn decode_without_spans<T: Wire>(bytes: &[u8]) -> Option<T> {
    whole(Bytes { left: bytes, depth: 0, with_spans: false })
}

fn whole<T: Wire>(mut bytes: Bytes<'_>) -> Option<T> {
    let tree = T::get(&mut bytes)?;
    bytes.left.is_empty().then_some(tree)
}

impl Wire for u64 {
    fn put(&self, to: &mut Vec<u8>) {
        let mut n = *self;
        while n >= 0x80 {
            to.push(n as u8 | 0x80);
            n >>= 7;
        }
        to.push(n as u8);
    }

    fn get(from: &mut Bytes<'_>) -> Option<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = from.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }
}

impl Wire for i64 {
    fn put(&self, to: &mut Vec<u8>) {
        (((self << 1) ^ (self >> 63)) as u64).put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<i64> {
        let n = u64::get(from)?;
        Some((n >> 1) as i64 ^ -((n & 1) as i64))
    }
}

/// Integers as wider ones.
macro_rules! widened {
    ($($ty:ty as $wide:ty),*) => {$(
        impl Wire for $ty {
            fn put(&self, to: &mut Vec<u8>) {
                (*self as $wide).put(to);
            }

            fn get(from: &mut Bytes<'_>) -> Option<$ty> {
                <$wide>::get(from)?.try_into().ok()
            }
        }
    )*};
}

widened!(u32 as u64, usize as u64, i32 as i64);

impl Wire for u8 {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(*self);
    }

    fn get(from: &mut Bytes<'_>) -> Option<u8> {
        from.byte()
    }
}

impl Wire for i128 {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn get(from: &mut Bytes<'_>) -> Option<i128> {
        let (bytes, rest) = from.left.split_first_chunk::<16>()?;
        from.left = rest;
        Some(i128::from_le_bytes(*bytes))
    }
}

impl Wire for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn get(from: &mut Bytes<'_>) -> Option<bool> {
        match from.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Wire for f64 {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_bits().to_le_bytes());
    }

    fn get(from: &mut Bytes<'_>) -> Option<f64> {
        let (bits, rest) = from.left.split_first_chunk::<8>()?;
        from.left = rest;
        Some(f64::from_bits(u64::from_le_bytes(*bits)))
    }
}

impl Wire for String {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u64).put(to);
        to.extend_from_slice(self.as_bytes());
    }

    fn get(from: &mut Bytes<'_>) -> Option<String> {
        let len = usize::try_from(u64::get(from)?).ok()?;
        let (text, rest) = from.left.split_at_checked(len)?;
        from.left = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u64).put(to);
        for item in self {
            item.put(to);
        }
    }

    fn get(from: &mut Bytes<'_>) -> Option<Vec<T>> {
        let len = u64::get(from)?;
        // Every item takes at least a byte, so a wrong count cannot ask for much memory.
        if len > from.left.len() as u64 {
            return None;
        }
        // A plain loop, like the one above: this recurses, and iterators would use more stack.
        let mut all = Vec::new();
        for _ in 0..len {
            all.push(T::get(from)?);
        }
        Some(all)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        self.iter().for_each(|item| item.put(to));
    }

    fn get(from: &mut Bytes<'_>) -> Option<Option<T>> {
        Some(if bool::get(from)? { Some(T::get(from)?) } else { None })
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (**self).put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<Box<T>> {
        Some(Box::new(T::get(from)?))
    }
}

macro_rules! tuples {
    ($(($($ty:ident $at:tt),+))*) => {$(
        impl<$($ty: Wire),+> Wire for ($($ty),+) {
            fn put(&self, to: &mut Vec<u8>) {
                $(self.$at.put(to);)+
            }

            fn get(from: &mut Bytes<'_>) -> Option<Self> {
                Some(($($ty::get(from)?),+))
            }
        }
    )*};
}

tuples! { (A 0, B 1) (A 0, B 1, C 2) }

impl<T: Wire, const N: usize> Wire for [T; N] {
    fn put(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put(to));
    }

    fn get(from: &mut Bytes<'_>) -> Option<[T; N]> {
        let mut all = Vec::new();
        for _ in 0..N {
            all.push(T::get(from)?);
        }
        all.try_into().ok()
    }
}

/// Implements [`Wire`] for types by listing their parts, in the order of encoding.
macro_rules! wire {
    () => {};
    (struct $name:ident { $($field:ident),* $(,)? } $($rest:tt)*) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                $(self.$field.put(to);)*
            }
            fn get(from: &mut $crate::wire::Bytes<'_>) -> Option<Self> {
                Some($name { $($field: $crate::wire::Wire::get(from)?),* })
            }
        }
        $crate::wire::wire! { $($rest)* }
    };
    (struct $name:ident ( $($field:ident),* ); $($rest:tt)*) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                let $name($($field),*) = self;
                $($field.put(to);)*
            }
            fn get(from: &mut $crate::wire::Bytes<'_>) -> Option<Self> {
                $(let $field = $crate::wire::Wire::get(from)?;)*
                Some($name($($field),*))
            }
        }
        $crate::wire::wire! { $($rest)* }
    };
    // An enum that contains itself.
    (deep enum $name:ident $variants:tt $($rest:tt)*) => {
        $crate::wire::wire! { @enum deeper $name $variants }
        $crate::wire::wire! { $($rest)* }
    };
    (enum $name:ident $variants:tt $($rest:tt)*) => {
        $crate::wire::wire! { @enum beside $name $variants }
        $crate::wire::wire! { $($rest)* }
    };
    // The tag of a variant is its position.
    (@enum $level:ident $name:ident { $($variant:ident $(( $($item:ident),* ))? $({ $($field:ident),* })?),* $(,)? }) => {
        const _: () = {
            enum Tag { $($variant),* }

            impl $crate::wire::Wire for $name {
                fn put(&self, to: &mut Vec<u8>) {
                    match self {
                        $($name::$variant $(( $($item),* ))? $({ $($field),* })? => {
                            to.push(Tag::$variant as u8);
                            $($($item.put(to);)*)?
                            $($($field.put(to);)*)?
                        })*
                    }
                }
                fn get(from: &mut $crate::wire::Bytes<'_>) -> Option<Self> {
                    from.$level(|from| {
                        let tag = from.variant()?;
                        $(if tag == Tag::$variant as u8 {
                            $($(let $item = $crate::wire::Wire::get(from)?;)*)?
                            $($(let $field = $crate::wire::Wire::get(from)?;)*)?
                            return Some($name::$variant $(( $($item),* ))? $({ $($field),* })?);
                        })*
                        None
                    })
                }
            }
        };
    };
}
pub(crate) use wire;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ast::*;

    #[test]
    fn trees_round_trip() {
        let name = |text: &str| Name { text: text.into(), span: Span(7) };
        let int = |n| Expr { span: Span(1), kind: ExprKind::Int(n) };
        let call = ExprKind::Call {
            function: name("tile"),
            types: vec![],
            args: vec![Arg { name: Some(name("stages")), value: int(-4) }],
        };
        let stmt = Stmt {
            span: Span(300),
            kind: StmtKind::Let {
                pattern: Pattern::Tuple(Span(2), vec![Pattern::Name(name("x")), Pattern::Hole(Span(3))]),
                value: Expr { span: Span(4), kind: call },
            },
        };
        let bytes = encode(&stmt);
        assert_eq!(decode::<Stmt>(&bytes), Some(stmt.clone()));
        for cut in 0..bytes.len() {
            assert_eq!(decode::<Stmt>(&bytes[..cut]), None, "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0xff;
            let _ = decode::<Stmt>(&wrong); // any answer, but no panic
        }
    }
}
