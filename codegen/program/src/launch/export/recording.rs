//! Computations on numbers of a launch, recorded as statements of C: see [`crate::launch::number`].

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Write;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Not, Rem, Sub};

use super::text::literal;
use crate::launch::choice::NONE;
use crate::launch::message::{Checks, Piece, Reason};
use crate::launch::number::{Natural, Number, Real, Signed, Truth};

/// The values that a function computes, each once, after the values that it is computed from.
#[derive(Default)]
pub(super) struct Recording {
    values: RefCell<Vec<Computed>>,
}

struct Computed {
    ty: &'static str,
    text: String,
    from: Vec<usize>,
}

/// A value that is known, or one of a recording.
#[derive(Clone, Copy)]
pub(super) enum Recorded<'r, T> {
    Known(T),
    Computed(&'r Recording, usize),
}

/// A type of C.
pub(super) trait Type: Copy + PartialEq {
    const NAME: &'static str;

    fn literal(self) -> String;
}

impl Type for u64 {
    const NAME: &'static str = "tw_count";

    fn literal(self) -> String {
        if self > i32::MAX as u64 { format!("UINT64_C({self})") } else { format!("{self}u") }
    }
}

impl Type for f64 {
    const NAME: &'static str = "double";

    fn literal(self) -> String {
        format!("{self:?}")
    }
}

impl Type for bool {
    const NAME: &'static str = "int";

    fn literal(self) -> String {
        u8::from(self).to_string()
    }
}

impl Recording {
    /// A value with this text, which names the values that it is computed from.
    fn value(&self, ty: &'static str, text: String, from: Vec<usize>) -> usize {
        let mut values = self.values.borrow_mut();
        let known = values.iter().position(|known| known.ty == ty && known.text == text);
        known.unwrap_or_else(|| {
            values.push(Computed { ty, text, from });
            values.len() - 1
        })
    }

    /// A number of C.
    pub(super) fn number(&self, text: impl Into<String>) -> Recorded<'_, u64> {
        Recorded::Computed(self, self.value(u64::NAME, text.into(), Vec::new()))
    }

    /// A condition of C.
    pub(super) fn truth(&self, text: impl Into<String>) -> Recorded<'_, bool> {
        Recorded::Computed(self, self.value(bool::NAME, text.into(), Vec::new()))
    }

    /// The statements that compute some values, and then use them.
    pub(super) fn body(&self, uses: &[Use]) -> String {
        let values = self.values.borrow();
        let mut live: Vec<bool> = values.iter().map(|value| value.ty == STATEMENT).collect();
        uses.iter().filter_map(|of| of.from).for_each(|index| live[index] = true);
        for (index, value) in values.iter().enumerate().rev() {
            if live[index] {
                value.from.iter().for_each(|from| live[*from] = true);
            }
        }
        let mut body = String::new();
        for (index, Computed { ty, text, .. }) in values.iter().enumerate().filter(|(index, _)| live[*index])
        {
            let _ = match *ty {
                STATEMENT => writeln!(body, "    {text};"),
                ty => writeln!(body, "    const {ty} v{index} = {text};"),
            };
        }
        uses.iter().for_each(|Use { text, .. }| {
            let _ = writeln!(body, "    {text};");
        });
        body
    }
}

/// The type of a statement, which has no value.
const STATEMENT: &str = "";

/// A statement at the end of a function, which uses a value.
pub(super) struct Use {
    text: String,
    from: Option<usize>,
}

impl Use {
    /// The text of a statement, where `A` is the value.
    pub(super) fn of<T: Type>(text: &str, value: Recorded<'_, T>) -> Use {
        Use { text: text.replace('A', &value.name()), from: value.part().map(|(_, index)| index) }
    }
}

/// Every check is recorded, in order: a function returns at the first that fails.
impl<'r> Checks for &'r Recording {
    type Number = Recorded<'r, u64>;
    type Failed<R> = Infallible;

    fn check<R: Reason<Recorded<'r, u64>>>(
        &self,
        is_true: Recorded<'r, bool>,
        reason: impl FnOnce() -> R,
    ) -> Result<(), Infallible> {
        if is_true.is(true) {
            return Ok(());
        }
        let (mut format, mut values) = (String::new(), String::new());
        let mut from: Vec<usize> = is_true.part().into_iter().map(|(_, index)| index).collect();
        for piece in reason().message().0 {
            let (value, ty, how) = match piece {
                Piece::Text(text) => {
                    format += &text.replace('%', "%%");
                    continue;
                }
                Piece::First(all) => {
                    format += "%s";
                    from.extend(all.iter().filter_map(|(is, _)| is.part().map(|(_, index)| index)));
                    let choice = |(is, text): (Recorded<'r, bool>, String)| match is {
                        Recorded::Known(true) => literal(&text),
                        is => format!("{} ? {} : ", is.name(), literal(&text)),
                    };
                    let is_complete = all.iter().any(|(is, _)| is.is(true));
                    let all = all.into_iter().filter(|(is, _)| !is.is(false)).map(choice).collect::<String>();
                    let _ = write!(values, ", {all}{}", if is_complete { "" } else { "\"\"" });
                    continue;
                }
                Piece::Count(value) => (value, "uint64_t", "PRIu64"),
                Piece::Signed(value) => (value, "int64_t", "PRId64"),
                Piece::Address(value) => (value, "uint64_t", "PRIx64"),
            };
            format += if how == "PRIx64" { "%#" } else { "%" };
            // Ends the literal, and begins the next.
            format += &format!("{MARK}{how}{MARK}");
            let _ = write!(values, ", ({ty}){}", value.name());
            from.extend(value.part().map(|(_, index)| index));
        }
        let mut literals = String::new();
        for (index, part) in format.split(MARK).enumerate() {
            literals += &if index % 2 == 0 { literal(part) } else { format!(" {part} ") };
        }
        let text = format!("if (!{}) return TW_REFUSE(error, {literals}{values})", is_true.name());
        self.values.borrow_mut().push(Computed { ty: STATEMENT, text, from });
        Ok(())
    }
}

/// Between a literal of C and the name of another one. No message has it.
const MARK: char = '\u{1}';

impl<'r, T: Type> Recorded<'r, T> {
    fn name(self) -> String {
        match self {
            Recorded::Known(value) => value.literal(),
            Recorded::Computed(_, index) => format!("v{index}"),
        }
    }

    fn part(self) -> Option<(&'r Recording, usize)> {
        match self {
            Recorded::Known(_) => None,
            Recorded::Computed(recording, index) => Some((recording, index)),
        }
    }

    fn is(self, value: T) -> bool {
        matches!(self, Recorded::Known(known) if known == value)
    }
}

/// A value that is computed from these parts, as this text of C.
fn computed<'r, T: Type>(parts: &[Option<(&'r Recording, usize)>], text: String) -> Recorded<'r, T> {
    let recording = parts.iter().flatten().next().map(|(recording, _)| *recording);
    let Some(recording) = recording else { unreachable!("what is known is not computed in C") };
    let from = parts.iter().flatten().map(|(_, index)| *index).collect();
    Recorded::Computed(recording, recording.value(T::NAME, text, from))
}

/// A call, if it is needed, and else [`NONE`]. `A` in its text is the value that it takes.
pub(super) fn called_if<'r>(
    recording: &'r Recording,
    is_needed: Recorded<'r, bool>,
    text: &str,
    value: Recorded<'r, u64>,
) -> Recorded<'r, u64> {
    let call = text.replace('A', &value.name());
    let text = match is_needed {
        Recorded::Known(false) => return NONE.into(),
        Recorded::Known(true) => call,
        is_needed => format!("{} ? {call} : TW_NONE", is_needed.name()),
    };
    let from = [is_needed.part(), value.part()].into_iter().flatten().map(|(_, index)| index).collect();
    Recorded::Computed(recording, recording.value(u64::NAME, text, from))
}

/// What is computed from one value.
fn from_one<'r, A: Type, T: Type>(a: Recorded<'r, A>, known: impl Fn(A) -> T, text: &str) -> Recorded<'r, T> {
    match a {
        Recorded::Known(a) => Recorded::Known(known(a)),
        a => computed(&[a.part()], text.replace('A', &a.name())),
    }
}

/// What is computed from two values.
fn from_two<'r, A: Type, T: Type>(
    a: Recorded<'r, A>,
    b: Recorded<'r, A>,
    known: impl Fn(A, A) -> T,
    text: &str,
) -> Recorded<'r, T> {
    match (a, b) {
        (Recorded::Known(a), Recorded::Known(b)) => Recorded::Known(known(a, b)),
        _ => {
            let text = text.replace('A', &a.name()).replace('B', &b.name());
            computed(&[a.part(), b.part()], text)
        }
    }
}

macro_rules! operators {
    ($($ty:ty: $operator:ident $function:ident $known:expr, $text:literal $(, with $identity:literal)?;)*) => {$(
        impl<'r> $operator for Recorded<'r, $ty> {
            type Output = Recorded<'r, $ty>;

            fn $function(self, other: Recorded<'r, $ty>) -> Recorded<'r, $ty> {
                $(
                    match (self.is($identity), other.is($identity)) {
                        (true, _) => return other,
                        (_, true) => return self,
                        _ => {}
                    }
                )?
                from_two(self, other, $known, $text)
            }
        }
    )*};
}

operators! {
    u64: Add add |a, b| (Natural(a) + Natural(b)).0, "tw_plus(A, B)", with 0;
    u64: Sub sub |a, b| (Natural(a) - Natural(b)).0, "tw_minus(A, B)";
    u64: Mul mul |a, b| (Natural(a) * Natural(b)).0, "tw_times(A, B)", with 1;
    u64: Div div |a, b| a / b, "A / B";
    u64: Rem rem |a, b| a % b, "A % B";
    f64: Add add |a, b| a + b, "A + B";
    f64: Mul mul |a, b| a * b, "A * B";
    f64: Div div |a, b| a / b, "A / B";
}

impl<'r> BitAnd for Recorded<'r, bool> {
    type Output = Recorded<'r, bool>;

    fn bitand(self, other: Recorded<'r, bool>) -> Recorded<'r, bool> {
        match (self, other) {
            (Recorded::Known(true), other) | (other, Recorded::Known(true)) => other,
            (Recorded::Known(false), _) | (_, Recorded::Known(false)) => false.into(),
            _ => from_two(self, other, |a, b| a & b, "A & B"),
        }
    }
}

impl<'r> BitOr for Recorded<'r, bool> {
    type Output = Recorded<'r, bool>;

    fn bitor(self, other: Recorded<'r, bool>) -> Recorded<'r, bool> {
        !(!self & !other)
    }
}

impl Not for Recorded<'_, bool> {
    type Output = Self;

    fn not(self) -> Self {
        from_one(self, |a: bool| !a, "!A")
    }
}

impl<T> From<T> for Recorded<'_, T> {
    fn from(value: T) -> Self {
        Recorded::Known(value)
    }
}

impl Truth for Recorded<'_, bool> {
    fn is_certain(self) -> bool {
        self.is(true)
    }
}

impl<'r> Number for Recorded<'r, u64> {
    type Real = Recorded<'r, f64>;
    type Truth = Recorded<'r, bool>;

    fn less(self, than: Self) -> Recorded<'r, bool> {
        if than.is(0) { false.into() } else { from_two(self, than, |a, b| a < b, "A < B") }
    }

    fn equals(self, other: Self) -> Recorded<'r, bool> {
        from_two(self, other, |a, b| a == b, "A == B")
    }

    fn select(condition: Recorded<'r, bool>, then: Self, otherwise: Self) -> Self {
        match condition {
            Recorded::Known(true) => then,
            Recorded::Known(false) => otherwise,
            condition => {
                let text = format!("{} ? {} : {}", condition.name(), then.name(), otherwise.name());
                computed(&[condition.part(), then.part(), otherwise.part()], text)
            }
        }
    }

    fn below(self, than: Self) -> Recorded<'r, bool> {
        from_two(self, than, |a, b| Natural(a).below(Natural(b)), "(int64_t)A < (int64_t)B")
    }

    fn signed(operation: Signed, a: Self, b: Self) -> (Self, Recorded<'r, bool>) {
        let known = |a, b| Natural::signed(operation, Natural(a), Natural(b));
        let (value, overflows) = match operation {
            Signed::Add => ("A + B", "tw_sum_overflows(A, B)"),
            Signed::Multiply => ("A * B", "tw_product_overflows(A, B)"),
            Signed::Divide => ("tw_quotient(A, B)", ""),
            Signed::Remain => ("A - tw_quotient(A, B) * B", ""),
        };
        let value = from_two(a, b, |a, b| known(a, b).0.0, value);
        let overflows = match overflows {
            "" => false.into(),
            overflows => from_two(a, b, |a, b| known(a, b).1, overflows),
        };
        (value, overflows)
    }

    fn bits_of_both(self, other: Self) -> Self {
        from_two(self, other, |a, b| a | b, "A | B")
    }

    fn lowest_bit(self) -> Self {
        from_one(self, |a| Natural(a).lowest_bit().0, "A & (~A + 1u)")
    }

    fn real(self) -> Recorded<'r, f64> {
        from_one(self, |a| a as f64, "(double)A")
    }
}

impl<'r> Real for Recorded<'r, f64> {
    type Number = Recorded<'r, u64>;

    fn least(self, other: Self) -> Self {
        from_two(self, other, f64::min, "B < A ? B : A")
    }

    fn greatest(self, other: Self) -> Self {
        from_two(self, other, f64::max, "A < B ? B : A")
    }

    fn whole(self) -> Recorded<'r, u64> {
        from_one(self, |a| a as u64, "(tw_count)A")
    }
}
