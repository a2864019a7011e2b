//! [`Tiler`]: the right operand of composition, division and products.

use std::fmt;
use std::str::FromStr;

use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::text::Reader;
use crate::tuple::{All, Tuple};
use crate::value::Value;

/// A layout for the whole left operand, or one tiler for each of its modes.
///
/// A shape is a tiler by mode: `(128,8)` takes 128 consecutive elements of the first mode and 8 of the
/// second. `_` leaves a mode unchanged. In text, `<4:2,8:1>` is a tiler by mode made of layouts.
///
/// ```
/// use tilewright_layout::{ALL, Tiler, layout};
/// let a = layout!((8, 16) : (1, 8));
/// assert_eq!(a.composition((4, 8))?.to_string(), "(4,8):(1,8)");
/// assert_eq!(a.composition((layout!(4 : 2), ALL))?.to_string(), "(4,16):(2,8)");
/// assert_eq!("<4:2,_>".parse::<Tiler>()?, (layout!(4 : 2), ALL).into());
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[allow(clippy::large_enum_variant)] // most tilers are the large variant, and none is kept
pub enum Tiler {
    /// A layout, applied to the left operand as a whole.
    Layout(Layout),
    /// One tiler for each mode; further modes are left as they are.
    Modes(Vec<Tiler>),
    /// `_`: leave it as it is.
    Keep,
}

impl From<Layout> for Tiler {
    fn from(layout: Layout) -> Tiler {
        Tiler::Layout(layout)
    }
}

impl From<&Layout> for Tiler {
    fn from(layout: &Layout) -> Tiler {
        Tiler::Layout(layout.clone())
    }
}

impl From<&Tiler> for Tiler {
    fn from(tiler: &Tiler) -> Tiler {
        tiler.clone()
    }
}

impl From<All> for Tiler {
    fn from(_: All) -> Tiler {
        Tiler::Keep
    }
}

impl From<&Tuple> for Tiler {
    fn from(shape: &Tuple) -> Tiler {
        match shape.as_leaf() {
            Some(Value::Any) => Tiler::Keep,
            Some(extent) => Tiler::Layout(Layout::leaf(extent, Value::Int(1))),
            None => Tiler::Modes(shape.modes().map(|mode| Tiler::from(&mode)).collect()),
        }
    }
}

impl From<Tuple> for Tiler {
    fn from(shape: Tuple) -> Tiler {
        Tiler::from(&shape)
    }
}

macro_rules! from_int {
    ($($int:ty),*) => {$(
        impl From<$int> for Tiler {
            fn from(n: $int) -> Tiler {
                Tuple::from(n).into()
            }
        }
    )*};
}
from_int!(i64, i32, u32, u8, usize);

macro_rules! from_tuple {
    ($($name:ident),*) => {
        impl<$($name: Into<Tiler>),*> From<($($name,)*)> for Tiler {
            #[allow(non_snake_case)]
            fn from(($($name,)*): ($($name,)*)) -> Tiler {
                Tiler::Modes(vec![$($name.into()),*])
            }
        }
    };
}
from_tuple!(A);
from_tuple!(A, B);
from_tuple!(A, B, C);
from_tuple!(A, B, C, D);

impl Tiler {
    /// Are all extents possible?
    pub(crate) fn check(&self, op: &'static str) -> Result<()> {
        match self {
            Tiler::Layout(layout) => layout.check(op),
            Tiler::Modes(modes) => modes.iter().try_for_each(|mode| mode.check(op)),
            Tiler::Keep => Ok(()),
        }
    }
}

impl fmt::Display for Tiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tiler::Layout(layout) => write!(f, "{layout}"),
            Tiler::Keep => f.write_str("_"),
            Tiler::Modes(modes) => {
                for (i, mode) in modes.iter().enumerate() {
                    write!(f, "{}{mode}", if i == 0 { "<" } else { "," })?;
                }
                f.write_str(">")
            }
        }
    }
}

impl fmt::Debug for Tiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Tiler {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Tiler> {
        let mut reader = Reader::new("tiler", text);
        let tiler = reader.tiler()?;
        reader.end("the end of the tiler")?;
        Ok(tiler)
    }
}

impl Reader<'_> {
    /// `<…>`, a layout, or a shape.
    pub fn tiler(&mut self) -> Result<Tiler> {
        let mut tiler = Tiler::Keep;
        self.tiler_into(&mut tiler)?;
        Ok(tiler)
    }

    /// The same, into a value that is used again; see [`composed_into`](Reader::composed_into).
    pub fn tiler_into(&mut self, tiler: &mut Tiler) -> Result<()> {
        self.tiler_at(tiler, 0)
    }

    fn tiler_at(&mut self, tiler: &mut Tiler, depth: usize) -> Result<()> {
        if depth > 16 {
            return Err(self.expected("at most 16 levels of `<`"));
        }
        if self.take(b'<') {
            let mut modes = vec![];
            loop {
                let mut mode = Tiler::Keep;
                self.tiler_at(&mut mode, depth + 1)?;
                modes.push(mode);
                if !self.take(b',') {
                    break;
                }
            }
            self.need(b'>', "`,` or `>`")?;
            *tiler = Tiler::Modes(modes);
            return Ok(());
        }
        if !matches!(tiler, Tiler::Layout(_)) {
            *tiler = Tiler::Layout(Layout::empty());
        }
        let Tiler::Layout(layout) = tiler else {
            return Ok(());
        };
        self.shape_into(layout)?;
        if self.take(b':') {
            return self.stride_into(layout);
        }
        let (leaves, profile) = (layout.shape.clone(), layout.profile.clone());
        *tiler = Tiler::from(Tuple { leaves, profile });
        tiler.check(self.what())
    }
}
