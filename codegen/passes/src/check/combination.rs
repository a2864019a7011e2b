//! Closures of reductions and scans: does the result depend on the order in which threads combine elements? A finding is
//! a counterexample on small numbers, computed in double precision. A closure whose value is not known there, such as
//! one of coordinates, is not judged.

use crate::source::ast::{Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::tile::visit::preorder;
use crate::tile::{Expr, Op, Program, Stmt};
use crate::values::elem::Elem;
use crate::values::number::Number;
use crate::values::typing::Types;

/// Elements of a tuple.
type Tuple = Vec<f64>;

/// One finding for each statement.
pub(super) fn find(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    const LINT: &str = "order_matters";
    if super::level(LINT, levels) == Level::Allow {
        return Vec::new();
    }
    let finding = |stmt: &Stmt| {
        let (message, help) = judged(program, stmt)?;
        super::lint(LINT, levels, Diagnostic::error(stmt.span, message).help(help))
    };
    let mut diagnostics: Vec<Diagnostic> = preorder(&program.body).filter_map(finding).collect();
    // One span in an unrolled loop or a closure makes several statements.
    diagnostics.dedup_by(|one, other| one.span == other.span);
    diagnostics
}

/// Why the order in which a statement combines elements matters, with the remedy.
fn judged(program: &Program, stmt: &Stmt) -> Option<(String, String)> {
    let (from, with, identity, commutes) = match &stmt.op {
        Op::Fold { from, with, identity, .. } => (from, with, identity, true),
        Op::Scan { from, how, .. } => (from, &how.with, &how.identity, false),
        _ => return None,
    };
    let elems: Vec<Elem> = from.iter().map(|view| program.tensor(view.tensor).elem).collect();
    let ins = [&elems[..], &elems[..]].concat();
    let closure = Closure { types: Types { ins: &ins, scalars: &program.scalars }, elems: &elems, with };
    let name = if commutes { "reduce" } else { "scan" };
    if let Some([a, b, c, left, right]) = closure.groups() {
        let before = match commutes {
            true => "what is done to each element is done before, as in reduce(x * x, 0.0, |a, b| a + b)",
            false => {
                "for y = d * y + x compose linear functions, scan((d, x), (1.0, 0.0), |(a, x), (b, y)| (a * b, b * x + y)).1 with a tile d, such as full::<f32>(256, 0.9); a loop carries any other state"
            }
        };
        return Some((
            format!(
                "`{name}` combines elements in groups, and this closure is not associative: of {a}, {b} and {c} it makes {left} from the left, and {right} from the right"
            ),
            before.into(),
        ));
    }
    if let Some([a, b, one, other]) = closure.swapped().filter(|_| commutes) {
        return Some((
            format!(
                "`{name}` combines elements in any order, and this closure depends on it: of {a} and {b} it makes {one}, but {other} of {b} and {a}"
            ),
            "write `scan`, which keeps the order; its last element combines all".into(),
        ));
    }
    let [none, x, made] = closure.changed(identity)?;
    Some((
        format!("{none} is not an identity of this closure, which makes {made} of it and {x}"),
        "write the identity: 0.0 for sums, 1.0 for products, f32::NEG_INFINITY for maxima; a start value is combined with the result"
            .into(),
    ))
}

/// A closure of two tuples.
struct Closure<'p> {
    types: Types<'p>,
    elems: &'p [Elem],
    with: &'p [Expr],
}

impl Closure<'_> {
    /// Three tuples whose result depends on which two are combined first; and both results. Tuples may have to be
    /// like the author's, so both small tuples and tuples without equal entries must show it.
    fn groups(&self) -> Option<[String; 5]> {
        let len = self.elems.len();
        self.grouped(&self.elements(distinct(len))).and(self.grouped(&self.elements(small(len))))
    }

    /// Tuples of elements: of conditions 0 and 1.
    fn elements(&self, tuples: impl IntoIterator<Item = Tuple>) -> Vec<Tuple> {
        let one = |(x, elem): (f64, &Elem)| if *elem == Elem::Bool { x % 2.0 } else { x };
        tuples.into_iter().map(|tuple| tuple.into_iter().zip(self.elems).map(one).collect()).collect()
    }

    fn grouped(&self, all: &[Tuple]) -> Option<[String; 5]> {
        for a in all {
            for b in all {
                let Some(ab) = self.of(a, b) else { continue };
                for c in all {
                    let (Some(left), Some(bc)) = (self.of(&ab, c), self.of(b, c)) else { continue };
                    let Some(right) = self.of(a, &bc) else { continue };
                    if differ(&left, &right) {
                        return Some([a, b, c, &left, &right].map(|tuple| text(tuple)));
                    }
                }
            }
        }
        None
    }

    /// Two tuples whose result depends on their order; and both results.
    fn swapped(&self) -> Option<[String; 4]> {
        let all = self.elements(distinct(self.elems.len()));
        let [a, b, ..] = &all[..] else { return None };
        let (one, other) = (self.of(a, b)?, self.of(b, a)?);
        differ(&one, &other).then(|| [a, b, &one, &other].map(|tuple| text(tuple)))
    }

    /// The identity, and a tuple that it changes; and the result.
    fn changed(&self, identity: &[Number]) -> Option<[String; 3]> {
        let none: Tuple = identity.iter().zip(self.elems).map(|(number, elem)| number.value(*elem)).collect();
        self.elements(distinct(self.elems.len())).iter().find_map(|x| {
            let sides = [self.of(&none, x), self.of(x, &none)];
            let made = sides.into_iter().flatten().find(|made| differ(made, x))?;
            Some([&none, x, &made].map(|tuple| text(tuple)))
        })
    }

    /// Its value, where every entry is a finite number.
    fn of(&self, a: &[f64], b: &[f64]) -> Option<Tuple> {
        let ins: Vec<f64> = a.iter().chain(b).copied().collect();
        let leaf = |part: &Expr| match part {
            Expr::In(at) => ins.get(usize::from(*at)).copied(),
            // Some number: the closure must be associative for all.
            Expr::Scalar(at) => match self.types.scalars.get(*at as usize)?.elem.is_float() {
                true => Some(0.75),
                false => Some(3.0),
            },
            _ => None,
        };
        let of = |expr| self.types.evaluated(expr, &leaf).filter(|x| x.is_finite());
        self.with.iter().map(of).collect()
    }
}

/// Tuples of small numbers; an entry of several may be a flag, so these are 0 and 1.
fn small(len: usize) -> Vec<Tuple> {
    let numbers: &[f64] = if len == 1 { &[0.0, 1.0, 2.0, 3.0] } else { &[0.0, 1.0] };
    let mut all: Vec<Tuple> = vec![Vec::new()];
    // After three entries, the others repeat them.
    for entry in 0..len {
        all = match entry {
            0..3 => all.iter().flat_map(|of| numbers.iter().map(|&x| [&of[..], &[x]].concat())).collect(),
            _ => all.into_iter().map(|of| [&of[..], &[of[entry % 3]]].concat()).collect(),
        };
    }
    all
}

/// Tuples without equal entries, the greatest first, as where two largest are kept.
fn distinct(len: usize) -> [Tuple; 3] {
    [2, 3, 5].map(|last| (0..len).rev().map(|entry| (10 * entry + last) as f64).collect())
}

/// Do results differ by more than rounding?
fn differ(a: &[f64], b: &[f64]) -> bool {
    let apart = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-9 * a.abs().max(b.abs()).max(1.0);
    a.iter().zip(b).any(apart)
}

fn text(tuple: &[f64]) -> String {
    let one = |x: &f64| ((x * 1e4).round() / 1e4).to_string();
    match tuple {
        [x] => one(x),
        all => format!("({})", all.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}
