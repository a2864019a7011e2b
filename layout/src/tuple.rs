//! Hierarchical tuples of [`Value`]s: shapes, strides, coordinates and tilers by shape are all this one type.

use crate::few::Few;
use crate::profile::Profile;
use crate::value::Value;

/// A number, or a tuple of tuples: `8`, `(4,(2,3))`, `(2,_)`.
///
/// Rust tuples of integers convert into it, and it parses from text.
///
/// ```
/// use tilewright_layout::{ALL, Tuple};
/// let shape = Tuple::from((4, (2, 3)));
/// assert_eq!(shape, "(4,(2,3))".parse().unwrap());
/// assert_eq!((shape.rank(), shape.depth(), shape.leaves().len()), (2, 2, 3));
/// assert_eq!(Tuple::from((1, ALL)).to_string(), "(1,_)");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tuple {
    pub(crate) leaves: Few<Value>,
    pub(crate) profile: Profile,
}

/// `_`: the whole of a mode, in a coordinate or a tiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct All;

/// The one value of [`All`].
pub const ALL: All = All;

impl Tuple {
    /// One number.
    ///
    /// ```
    /// use tilewright_layout::{Tuple, Value};
    /// assert_eq!(Tuple::leaf(Value::symbol("M")).to_string(), "M");
    /// ```
    pub fn leaf(value: Value) -> Tuple {
        Tuple { leaves: Few::from_iter([value]), profile: Profile::leaf() }
    }

    /// A tuple of these modes.
    ///
    /// ```
    /// use tilewright_layout::Tuple;
    /// assert_eq!(Tuple::of([Tuple::from(4), Tuple::from((2, 3))]).to_string(), "(4,(2,3))");
    /// ```
    pub fn of(modes: impl IntoIterator<Item = Tuple>) -> Tuple {
        let mut all = Tuple { leaves: Few::empty(Value::Int(0)), profile: Profile::empty() };
        for mode in modes {
            all.leaves.extend_from(&mode.leaves);
            all.profile.append(&mode.profile);
        }
        all.profile.wrap();
        all
    }

    /// A flat tuple of these integers.
    ///
    /// ```
    /// use tilewright_layout::Tuple;
    /// assert_eq!(Tuple::flat(&[4, 2, 3]).to_string(), "(4,2,3)");
    /// ```
    pub fn flat(values: &[i64]) -> Tuple {
        Tuple::of(values.iter().map(|&n| Tuple::from(n)))
    }

    /// The leaves, left to right.
    pub fn leaves(&self) -> &[Value] {
        &self.leaves
    }

    /// The leaves if all are integers.
    ///
    /// ```
    /// use tilewright_layout::Tuple;
    /// assert_eq!(Tuple::from((4, (2, 3))).ints(), Some(vec![4, 2, 3]));
    /// ```
    pub fn ints(&self) -> Option<Vec<i64>> {
        self.leaves.iter().map(|v| v.int()).collect()
    }

    /// The number itself, if it is not a tuple.
    ///
    /// ```
    /// use tilewright_layout::{Tuple, Value};
    /// assert_eq!(Tuple::from(4).as_leaf(), Some(Value::Int(4)));
    /// assert_eq!(Tuple::from((4,)).as_leaf(), None);
    /// ```
    pub fn as_leaf(&self) -> Option<Value> {
        self.profile.is_leaf().then(|| self.leaves[0])
    }

    /// Is it a number rather than a tuple?
    pub fn is_leaf(&self) -> bool {
        self.profile.is_leaf()
    }

    /// How many top-level modes; 1 for a number.
    pub fn rank(&self) -> usize {
        self.profile.rank()
    }

    /// Levels of nesting; 0 for a number.
    pub fn depth(&self) -> usize {
        self.profile.depth()
    }

    /// The top-level modes.
    ///
    /// ```
    /// use tilewright_layout::Tuple;
    /// let shape = Tuple::from((4, (2, 3)));
    /// assert_eq!(shape.modes().map(|mode| mode.to_string()).collect::<Vec<_>>(), ["4", "(2,3)"]);
    /// ```
    pub fn modes(&self) -> impl ExactSizeIterator<Item = Tuple> + '_ {
        let ends: Few<usize> = self.profile.modes().map(|range| range.end).collect();
        (0..ends.len()).map(move |mode| {
            let range = mode.checked_sub(1).map_or(0, |before| ends[before])..ends[mode];
            Tuple { profile: self.profile.mode(&range), leaves: self.leaves[range].iter().copied().collect() }
        })
    }

    /// The same nesting, whatever the numbers?
    ///
    /// ```
    /// use tilewright_layout::Tuple;
    /// assert!(Tuple::from((4, (2, 3))).congruent(&Tuple::from((1, (9, 9)))));
    /// assert!(!Tuple::from((4, (2, 3))).congruent(&Tuple::from((4, 6))));
    /// ```
    pub fn congruent(&self, other: &Tuple) -> bool {
        self.profile == other.profile
    }

    /// Does every coordinate of `self` split into one of `finer`: same size, mode by mode, down to the
    /// leaves?
    ///
    /// ```
    /// use tilewright_layout::Tuple;
    /// assert!(Tuple::from((4, 6)).compatible(&Tuple::from((4, (2, 3)))));
    /// assert!(Tuple::from(24).compatible(&Tuple::from((4, (2, 3)))));
    /// assert!(!Tuple::from((4, (2, 3))).compatible(&Tuple::from((4, 6))));
    /// ```
    pub fn compatible(&self, finer: &Tuple) -> bool {
        match self.as_leaf() {
            Some(Value::Int(n)) => finer.product() == Some(n),
            Some(leaf) => finer.as_leaf() == Some(leaf),
            None => {
                !finer.is_leaf()
                    && self.rank() == finer.rank()
                    && self.modes().zip(finer.modes()).all(|(a, b)| a.compatible(&b))
            }
        }
    }

    /// The product of all leaves, if they are integers and it fits 64 bits.
    ///
    /// ```
    /// use tilewright_layout::Tuple;
    /// assert_eq!(Tuple::from((4, (2, 3))).product(), Some(24));
    /// ```
    pub fn product(&self) -> Option<i64> {
        self.leaves.iter().try_fold(1i64, |all, leaf| all.checked_mul(leaf.int()?))
    }
}

impl From<Value> for Tuple {
    fn from(value: Value) -> Tuple {
        Tuple::leaf(value)
    }
}

impl From<All> for Tuple {
    fn from(_: All) -> Tuple {
        Tuple::leaf(Value::Any)
    }
}

impl From<&Tuple> for Tuple {
    fn from(tuple: &Tuple) -> Tuple {
        tuple.clone()
    }
}

macro_rules! from_int {
    ($($int:ty),*) => {$(
        impl From<$int> for Tuple {
            fn from(n: $int) -> Tuple {
                Tuple::leaf(Value::Int(i64::from(n)))
            }
        }
    )*};
}
from_int!(i64, i32, u32, u8);

impl From<usize> for Tuple {
    /// A size past 63 bits becomes the largest integer, which every layout refuses.
    fn from(n: usize) -> Tuple {
        Tuple::leaf(Value::Int(i64::try_from(n).unwrap_or(i64::MAX)))
    }
}

macro_rules! from_tuple {
    ($($name:ident),*) => {
        impl<$($name: Into<Tuple>),*> From<($($name,)*)> for Tuple {
            #[allow(non_snake_case)]
            fn from(($($name,)*): ($($name,)*)) -> Tuple {
                Tuple::of([$($name.into()),*])
            }
        }
    };
}
from_tuple!(A);
from_tuple!(A, B);
from_tuple!(A, B, C);
from_tuple!(A, B, C, D);
from_tuple!(A, B, C, D, E);
from_tuple!(A, B, C, D, E, F);
