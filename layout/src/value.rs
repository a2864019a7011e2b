//! The leaves of shapes, strides and coordinates.
//!
//! Most are integers. A few are not: an extent that is known only at launch (`M`, `ceil(M/128)`), a leading
//! dimension (`128*lda`), or a basis element (`1@0`), whose multiples are coordinates instead of offsets.
//! There is no general symbolic arithmetic here: a result that is not a single term is refused.

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, RwLock};

/// The name of a quantity known only at launch, such as `M` or `lda`.
///
/// ```
/// use tilewright_layout::Symbol;
/// let m = Symbol::new("M");
/// assert_eq!(m, Symbol::new("M"));
/// assert_eq!(m.name(), "M");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol([u8; 3]); // three bytes: with four, a `Value` would take 24 bytes instead of 16

/// Names are kept for the life of the process: a program has few, and a `Symbol` remains a small `Copy` value.
#[derive(Default)]
struct Names {
    all: Vec<&'static str>,
    numbers: HashMap<&'static str, u32>,
}

static NAMES: LazyLock<RwLock<Names>> = LazyLock::new(RwLock::default);

impl Symbol {
    /// The symbol of this name; the same name always gives the same symbol.
    ///
    /// # Panics
    /// After sixteen million different names.
    pub fn new(name: &str) -> Symbol {
        let known = |names: &Names| names.numbers.get(name).copied();
        if let Some(number) = known(&NAMES.read().unwrap_or_else(|e| e.into_inner())) {
            return Symbol::numbered(number);
        }
        let mut names = NAMES.write().unwrap_or_else(|e| e.into_inner());
        let number = known(&names).unwrap_or_else(|| {
            let number = names.all.len() as u32;
            let name = Box::leak(name.into());
            names.all.push(name);
            names.numbers.insert(name, number);
            number
        });
        Symbol::numbered(number)
    }

    fn numbered(number: u32) -> Symbol {
        let [0, bytes @ ..] = number.to_be_bytes() else {
            panic!("at most 16777216 different names");
        };
        Symbol(bytes)
    }

    /// The name of the symbol.
    ///
    /// ```
    /// use tilewright_layout::Symbol;
    /// assert_eq!(Symbol::new("lda").name(), "lda");
    /// ```
    pub fn name(self) -> &'static str {
        let [a, b, c] = self.0;
        let number = u32::from_be_bytes([0, a, b, c]);
        NAMES.read().unwrap_or_else(|e| e.into_inner()).all[number as usize]
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The axis of a basis element: `[0]` is mode 0, `[1, 0]` is mode 0 of mode 1. At most four levels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Path {
    len: u8,
    steps: [u8; 4],
}

impl Path {
    /// The path of these steps, outermost first; `None` when it is longer than four or a step passes 255.
    pub fn new(steps: &[usize]) -> Option<Path> {
        let mut path = Path { len: steps.len() as u8, steps: [0; 4] };
        if steps.len() > path.steps.len() {
            return None;
        }
        for (to, &step) in path.steps.iter_mut().zip(steps) {
            *to = u8::try_from(step).ok()?;
        }
        Some(path)
    }

    /// The steps, outermost first.
    pub fn steps(&self) -> &[u8] {
        &self.steps[..self.len as usize]
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps().iter().rev().try_for_each(|step| write!(f, "@{step}"))
    }
}

/// A leaf: an integer, a multiple of a symbol, a multiple of a basis element, or `_`.
///
/// ```
/// use tilewright_layout::Value;
/// assert_eq!(Value::symbol("lda").times(Value::Int(128)).unwrap().to_string(), "128*lda");
/// assert_eq!(Value::symbol("M").ceil_div(128).unwrap().to_string(), "ceil(M/128)");
/// assert_eq!(Value::symbol("M").plus(Value::symbol("N")), None); // not one term
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// `times * ceil(of / over)`.
    Sym {
        /// The factor in front, not zero.
        times: i64,
        /// The symbol.
        of: Symbol,
        /// The divisor, at least 1.
        over: u32,
    },
    /// `times @ path`: a step of `times` along one axis of a coordinate space.
    Basis {
        /// The factor in front, not zero.
        times: i64,
        /// The axis.
        path: Path,
    },
    /// `_` in a coordinate or tiler: the whole mode. Never in a shape or a stride.
    Any,
}

impl Default for Value {
    fn default() -> Self {
        Value::Int(0)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Value {
        Value::Int(n)
    }
}

impl Value {
    /// The symbol of this name, once.
    pub fn symbol(name: &str) -> Value {
        Value::Sym { times: 1, of: Symbol::new(name), over: 1 }
    }

    /// The basis element of a top-level mode: `1@mode`.
    ///
    /// ```
    /// use tilewright_layout::Value;
    /// assert_eq!(Value::basis(1).unwrap().to_string(), "1@1");
    /// ```
    pub fn basis(mode: usize) -> Option<Value> {
        Some(Value::Basis { times: 1, path: Path::new(&[mode])? })
    }

    /// The integer, if it is one.
    pub const fn int(self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(n),
            _ => None,
        }
    }

    /// Is it the integer zero?
    pub const fn is_zero(self) -> bool {
        matches!(self, Value::Int(0))
    }

    /// The factor in front: the integer itself, or the multiple of the symbol or basis element.
    pub const fn factor(self) -> i64 {
        match self {
            Value::Int(times) | Value::Sym { times, .. } | Value::Basis { times, .. } => times,
            Value::Any => 0,
        }
    }

    /// The same term with another factor.
    pub(crate) const fn with_factor(self, n: i64) -> Value {
        match self {
            Value::Any => Value::Any,
            _ if n == 0 => Value::Int(0),
            Value::Int(_) => Value::Int(n),
            Value::Sym { of, over, .. } => Value::Sym { times: n, of, over },
            Value::Basis { path, .. } => Value::Basis { times: n, path },
        }
    }

    /// Are both multiples of the same symbol or basis element, or both integers?
    pub(crate) fn same_kind(self, other: Value) -> bool {
        self.with_factor(1) == other.with_factor(1)
    }

    /// The sum, if it is one term and fits 64 bits.
    ///
    /// ```
    /// use tilewright_layout::Value;
    /// assert_eq!(Value::symbol("M").plus(Value::symbol("M")).unwrap().to_string(), "2*M");
    /// assert_eq!(Value::symbol("M").plus(Value::Int(1)), None);
    /// ```
    pub fn plus(self, other: Value) -> Option<Value> {
        if self == Value::Any || other == Value::Any {
            return None;
        }
        if self.is_zero() {
            return Some(other);
        }
        if other.is_zero() {
            return Some(self);
        }
        let sum = self.factor().checked_add(other.factor())?;
        self.same_kind(other).then(|| self.with_factor(sum))
    }

    /// The product, if it is one term and fits 64 bits: at least one side must be an integer.
    ///
    /// ```
    /// use tilewright_layout::Value;
    /// assert_eq!(Value::symbol("lda").times(Value::Int(8)).unwrap().to_string(), "8*lda");
    /// assert_eq!(Value::symbol("M").times(Value::symbol("N")), None);
    /// ```
    pub fn times(self, other: Value) -> Option<Value> {
        if self == Value::Any || other == Value::Any {
            return None;
        }
        let product = self.factor().checked_mul(other.factor())?;
        match (self, other) {
            (Value::Int(_), other) => Some(other.with_factor(product)),
            (me, Value::Int(_)) => Some(me.with_factor(product)),
            _ => None,
        }
    }

    /// `ceil(self / n)` for `n >= 1`, if it is one term.
    ///
    /// ```
    /// use tilewright_layout::Value;
    /// assert_eq!(Value::Int(10).ceil_div(4), Some(Value::Int(3)));
    /// assert_eq!(Value::symbol("M").ceil_div(4).unwrap().ceil_div(2).unwrap().to_string(), "ceil(M/8)");
    /// assert_eq!(Value::symbol("M").times(Value::Int(2)).unwrap().ceil_div(6).unwrap().to_string(), "ceil(M/3)");
    /// ```
    pub fn ceil_div(self, n: i64) -> Option<Value> {
        match self {
            Value::Any => None,
            _ if n < 1 => None,
            Value::Int(a) => Some(Value::Int(a.div_euclid(n) + i64::from(a.rem_euclid(n) != 0))),
            _ if self.factor() % n == 0 => Some(self.with_factor(self.factor() / n)),
            // ceil(ceil(M/a)/b) = ceil(M/(a*b)), and ceil(c*x/(c*b)) = ceil(x/b)
            Value::Sym { times, of, over } if times > 0 && n % times == 0 => {
                let over = i64::from(over).checked_mul(n / times)?;
                Some(Value::Sym { times: 1, of, over: u32::try_from(over).ok()? })
            }
            _ => None,
        }
    }

    /// The value for given symbols; `None` for a basis element, an unknown symbol or overflow.
    ///
    /// ```
    /// use tilewright_layout::Value;
    /// let tiles = Value::symbol("M").ceil_div(128).unwrap();
    /// assert_eq!(tiles.evaluate(&|_| Some(1000)), Some(8));
    /// ```
    pub fn evaluate(self, lookup: &dyn Fn(Symbol) -> Option<i64>) -> Option<i64> {
        match self {
            Value::Int(n) => Some(n),
            Value::Sym { times, of, over } => {
                Value::Int(lookup(of)?).ceil_div(i64::from(over))?.int()?.checked_mul(times)
            }
            Value::Basis { .. } | Value::Any => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Int(n) => crate::text::write_int(f, n),
            Value::Sym { times, of, over } => {
                match times {
                    1 => {}
                    -1 => f.write_str("-")?,
                    n => write!(f, "{n}*")?,
                }
                match over {
                    1 => f.write_str(of.name()),
                    n => write!(f, "ceil({}/{n})", of.name()),
                }
            }
            Value::Basis { times, path } => write!(f, "{times}{path:?}"),
            Value::Any => f.write_str("_"),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
