//! `layout!`: a layout written as it is printed.

/// A layout literal: `layout!((4, (2, 3)) : (1, (4, 8)))`, or without a stride the compact column-major
/// layout of a shape. Numbers may be any constant expression, also with your own constants, so the literal
/// can be used in a `const`.
///
/// ```
/// use tilewright_layout::{Layout, layout};
/// const BM: usize = 128;
/// const BK: usize = 8;
/// const PADDED: Layout = layout!((BM, BK) : (1, BM + 1));
/// assert_eq!(PADDED.to_string(), "(128,8):(1,129)");
/// assert_eq!(layout!((32, 8)).to_string(), "(32,8):(1,32)");
/// assert_eq!(layout!(32 : 4).to_string(), "32:4");
/// ```
///
/// A shape or stride that is a single expression with an operator needs parentheses: `layout!((BM + 1) : 1)`.
///
/// # Panics
/// When shape and stride do not nest alike or an extent is not positive. In a `const` that is a compile
/// error:
///
/// ```compile_fail
/// use tilewright_layout::{Layout, layout};
/// const WRONG: Layout = layout!((4, 2) : (1, 4, 8));
/// ```
#[macro_export]
macro_rules! layout {
    ($shape:tt) => {
        $crate::Layout::literal($crate::__layout_tokens!([] [$shape] []), ::core::option::Option::None)
    };
    ($shape:tt : - $stride:tt) => {
        $crate::layout!($shape : (-$stride))
    };
    ($shape:tt : $stride:tt) => {
        $crate::Layout::literal(
            $crate::__layout_tokens!([] [$shape] []),
            ::core::option::Option::Some($crate::__layout_tokens!([] [$stride] [])),
        )
    };
}

/// `[tokens so far] [rest of this tuple] [rest of the enclosing tuples, innermost first]`
#[doc(hidden)]
#[macro_export]
macro_rules! __layout_tokens {
    // all done
    ([$($out:tt)*] [] []) => { &[$($out)*] };
    // a tuple ends
    ([$($out:tt)*] [] [[$($rest:tt)*] $($outer:tt)*]) => {
        $crate::__layout_tokens!([$($out)* $crate::__Token::Close,] [$($rest)*] [$($outer)*])
    };
    // a tuple with a comma in it: `(a, …)`
    ([$($out:tt)*] [($($inner:tt)*) , $($rest:tt)*] $outer:tt) => {
        $crate::__layout_paren!([$($out)*] ($($inner)*) [$($rest)*] $outer)
    };
    ([$($out:tt)*] [($($inner:tt)*)] $outer:tt) => {
        $crate::__layout_paren!([$($out)*] ($($inner)*) [] $outer)
    };
    // a number
    ([$($out:tt)*] [$leaf:expr , $($rest:tt)*] $outer:tt) => {
        $crate::__layout_tokens!([$($out)* $crate::__Token::Leaf(($leaf) as i64),] [$($rest)*] $outer)
    };
    ([$($out:tt)*] [$leaf:expr] $outer:tt) => {
        $crate::__layout_tokens!([$($out)* $crate::__Token::Leaf(($leaf) as i64),] [] $outer)
    };
}

/// Parentheses with a comma are a tuple, and otherwise only parentheses, as in Rust.
#[doc(hidden)]
#[macro_export]
macro_rules! __layout_paren {
    ($out:tt (($($inner:tt)*)) $rest:tt $outer:tt) => {
        $crate::__layout_paren!($out ($($inner)*) $rest $outer)
    };
    ([$($out:tt)*] ($leaf:expr) [$($rest:tt)*] $outer:tt) => {
        $crate::__layout_tokens!([$($out)* $crate::__Token::Leaf(($leaf) as i64),] [$($rest)*] $outer)
    };
    ([$($out:tt)*] ($($inner:tt)*) [$($rest:tt)*] [$($outer:tt)*]) => {
        $crate::__layout_tokens!([$($out)* $crate::__Token::Open,] [$($inner)*] [[$($rest)*] $($outer)*])
    };
}
