//! Index expressions: the fewest parentheses that are readable, and 64 bits only where the range needs them. Where 64 bits may
//! not be enough, they wrap.

use super::piece::{Level, Piece, binary, constant, outside};
use super::{Builtin, Printer};
use crate::thread::index::{Int, Ix};

impl Printer<'_> {
    /// An index expression without parentheses.
    pub(super) fn int(&mut self, at: Ix) -> String {
        self.int_piece(at).text
    }

    /// Is it the index of a warp or of a group of warps, in a kernel that computes the warp index anyway?
    fn is_by_warps(&self, a: Ix, b: Ix) -> bool {
        let whole = |n: i64| n >= 32 && n % 32 == 0;
        self.kernel.arch_specific
            && self.exprs.get(a).int == Int::Thread
            && self.exprs.constant(b).is_some_and(whole)
    }

    /// Does every value of the expression fit 32 bits?
    pub(super) fn is_narrow(&self, at: Ix) -> bool {
        self.exprs.get(at).is_narrow()
    }

    /// The width of an expression.
    fn width(&self, at: Ix) -> Width {
        let known = self.exprs.get(at);
        match known.is_narrow() {
            true => Width::Narrow,
            false if known.lo == i64::MIN || known.hi == i64::MAX => Width::Wraps,
            false => Width::Wide,
        }
    }

    pub(super) fn int_piece(&mut self, at: Ix) -> Piece {
        let (narrow, width) = (self.is_narrow(at), self.width(at));
        let leaf = |text: String| Piece::new(text, Level::Primary);
        match self.exprs.get(at).int.clone() {
            Int::Const(n) => constant(n),
            Int::Var(id) => {
                let wide = self.kernel.vars[id as usize].wide;
                Piece { wide, ..leaf(self.names.vars[id as usize].clone()) }
            }
            Int::Param(id) => {
                let wide =
                    matches!(self.kernel.params[id as usize], crate::thread::Param::Int { wide: true, .. });
                Piece { wide, ..leaf(self.names.params[id as usize].clone()) }
            }
            Int::Thread => leaf(self.builtin(Builtin::Thread)),
            Int::Block(axis) => leaf(self.builtin(Builtin::Block(axis))),
            Int::Grid(axis) => leaf(self.builtin(Builtin::Grid(axis))),
            Int::ClusterRank => leaf(self.builtin(Builtin::ClusterRank)),
            Int::Add(a, b) => match self.lifted_quotient(a, b) {
                Some(quotient) => quotient,
                None => self.sum(at, a, b, width),
            },
            Int::Sub(a, b) => self.arithmetic(at, a, "-", b, Level::Sum),
            Int::Mul(a, b) => self.arithmetic(at, a, "*", b, Level::Product),
            Int::Div(a, b) if self.is_by_warps(a, b) => {
                // A broadcast of lane 0, so that the compiler knows it is warp-uniform.
                let (warp, of) = (self.builtin(Builtin::Warp), self.exprs.constant(b).unwrap_or(32) / 32);
                match of {
                    1 => leaf(warp),
                    _ => Piece::new(format!("{warp} / {of}"), Level::Product),
                }
            }
            Int::Div(a, b) => match self.rounded_up(a, b) {
                Some(of) if narrow => self.function(at, "CEIL_DIV", [of, b]),
                _ => self.arithmetic(at, a, "/", b, Level::Product),
            },
            Int::Rem(a, b) => match self.lifted(a, b) {
                Some((of, _)) => self.function(at, "floor_mod", [of, b]),
                None => self.arithmetic(at, a, "%", b, Level::Product),
            },
            Int::And(a, b) => self.arithmetic(at, a, "&", b, Level::BitAnd),
            Int::Xor(a, b) => self.arithmetic(at, a, "^", b, Level::BitXor),
            Int::Shl(a, b) => self.arithmetic(at, a, "<<", b, Level::Shift),
            Int::Min(a, b) => self.function(at, "min", [a, b]),
            Int::Max(a, b) => self.function(at, "max", [a, b]),
            Int::Lt(a, b) => self.truth(at, a, "<", b, Level::Compare),
            Int::Within(a, b) => self.within(a, "<", b),
            Int::Eq(a, b) => self.truth(at, a, "==", b, Level::Equal),
            Int::All(a, b) => self.truth(at, a, "&&", b, Level::And),
            Int::Not(of) => match self.exprs.get(of).int.clone() {
                Int::Lt(a, b) => self.truth(of, a, ">=", b, Level::Compare),
                Int::Within(a, b) => self.within(a, ">=", b),
                Int::Eq(a, b) => self.truth(of, a, "!=", b, Level::Equal),
                all => match self.exprs.neither(&all) {
                    Some((a, b)) => self.truth(of, a, "||", b, Level::Or),
                    None => {
                        let text = self.int_piece(of).at(Level::Unary);
                        Piece::new(format!("!{text}"), Level::Unary)
                    }
                },
            },
            Int::Select(cond, a, b) => {
                let (cond, a, b) = (self.int_piece(cond), self.part(at, a), self.part(at, b));
                let wide = a.wide || b.wide;
                let text = format!("{} ? {} : {}", cond.at(Level::Or), a.at(Level::Or), b.at(Level::Ternary));
                let piece = Piece { text, level: Level::Ternary, wide };
                if narrow { piece.narrowed() } else { piece }
            }
            Int::Wrap(start, end, last) => self.function(at, "wrapped", [start, end, last]),
        }
    }

    /// `x`, if `a / b` is the quotient of `x` and `b` rounded up: `a` is `x + (b - 1)`.
    fn rounded_up(&mut self, a: Ix, b: Ix) -> Option<Ix> {
        let Int::Add(sum, last) = self.exprs.get(a).int else { return None };
        let more = self.exprs.constant(last)?;
        let of = match (self.exprs.constant(b), &self.exprs.get(sum).int) {
            (Some(n), _) if more == n - 1 => sum,
            (None, Int::Add(of, more_b)) if more == -1 && *more_b == b => *of,
            _ => return None,
        };
        (self.is_narrow(a) && self.is_narrow(of) && self.is_narrow(b)).then_some(of)
    }

    /// If a number of 32 bits was made positive by a multiple of the constant `b`, which takes 64 bits: the number, and the
    /// quotient of that multiple. See [`Exprs::div`](crate::thread::index::Exprs::div).
    fn lifted(&mut self, a: Ix, b: Ix) -> Option<(Ix, i64)> {
        let Int::Add(of, lift) = self.exprs.get(a).int else { return None };
        let (lift, n) = (self.exprs.constant(lift)?, self.exprs.constant(b)?);
        if self.is_narrow(a) || !self.is_narrow(of) || self.exprs.get(of).lo >= 0 || lift < n {
            return None;
        }
        let rest = self.exprs.int(lift.rem_euclid(n));
        let of = self.exprs.add(of, rest);
        self.is_narrow(of).then_some((of, lift.div_euclid(n)))
    }

    /// `floor_div(x, n)` for `(x + lift) / n - lift / n`.
    fn lifted_quotient(&mut self, a: Ix, b: Ix) -> Option<Piece> {
        let Int::Div(sum, n) = self.exprs.get(a).int else { return None };
        let less = self.exprs.constant(b).filter(|less| *less < 0)?;
        if let Some((of, lift)) = self.lifted(sum, n)
            && lift == -less
        {
            return Some(self.function(a, "floor_div", [of, n]));
        }
        let Int::Add(of, lift) = self.exprs.get(sum).int else { return None };
        let (lift, by) = (self.exprs.constant(lift)?, self.exprs.constant(n)?);
        let rounds_up = self.is_narrow(of) && !self.is_narrow(sum) && lift == (by - 1) - less * by;
        rounds_up.then(|| self.function(a, "ceil_div_signed", [of, n]))
    }

    /// `a + b`; `a - 4` for a negative constant or factor, and no parentheses around a sum on the right if the order
    /// cannot matter.
    fn sum(&mut self, at: Ix, a: Ix, b: Ix, width: Width) -> Piece {
        if let Some(positive) = self.negated(b) {
            let (left, right) = (self.int_piece(a), self.int_piece(positive));
            return fitted(left, "-", right, Level::Sum, width);
        }
        if let Some(positive) = self.negated(a) {
            let (left, right) = (self.int_piece(b), self.int_piece(positive));
            return fitted(left, "-", right, Level::Sum, width);
        }
        let (left, right) = (self.int_piece(a), self.part(at, b));
        // Where no term is negative, a sum of some terms is no larger than the sum of all.
        let mut terms = vec![a];
        self.exprs.terms(b, &mut terms);
        let parts = terms.iter().all(|&term| self.exprs.get(term).lo >= 0);
        let flat = parts || (width != Width::Narrow && left.wide);
        let right = match self.exprs.get(b).int {
            Int::Add(..) if flat && right.level == Level::Sum && !outside(&right.text, " - ") => {
                Piece { level: Level::Product, ..right }
            }
            _ => right,
        };
        fitted(left, "+", right, Level::Sum, width)
    }

    /// `4` for `-4`, `x * 4` for `x * -4`.
    fn negated(&mut self, at: Ix) -> Option<Ix> {
        let negative = |n: &i64| *n < 0 && *n > i64::MIN;
        match self.exprs.get(at).int {
            Int::Const(n) => negative(&n).then(|| self.exprs.int(-n)),
            Int::Mul(x, by) => {
                let by = self.exprs.constant(by).filter(negative)?;
                let by = self.exprs.int(-by);
                Some(self.exprs.mul(x, by))
            }
            _ => None,
        }
    }

    /// An operand of an expression: its name there if it is a constant that has one, otherwise as everywhere.
    fn part(&mut self, of: Ix, part: Ix) -> Piece {
        self.named(of, part).unwrap_or_else(|| self.int_piece(part))
    }

    fn arithmetic(&mut self, of: Ix, a: Ix, sign: &str, b: Ix, level: Level) -> Piece {
        let (left, mut right) = (self.part(of, a), self.part(of, b));
        // `x * 8 * ld`, for a factor that is a multiple of a named constant.
        if sign == "*"
            && self.exprs.constant(b).is_some()
            && right.level == Level::Product
            && !right.text.contains('/')
        {
            right.level = Level::Unary;
        }
        fitted(left, sign, right, level, self.width(of))
    }

    fn truth(&mut self, of: Ix, a: Ix, sign: &str, b: Ix, level: Level) -> Piece {
        let (left, right) = (self.part(of, a), self.part(of, b));
        Piece { wide: false, ..binary(&left, sign, &right, level) }
    }

    /// A comparison without signs with a number that is not negative.
    fn within(&mut self, a: Ix, sign: &str, b: Ix) -> Piece {
        let is_constant = self.exprs.constant(b).is_some();
        let (at, end) = (self.int_piece(a), self.int_piece(b));
        let wide = at.wide || end.wide;
        let cast = |of: &Piece| match wide {
            true => of.clone().unsigned(),
            false => Piece::new(format!("(unsigned){}", of.at(Level::Unary)), Level::Unary),
        };
        let end = if is_constant { end } else { cast(&end) };
        Piece { wide: false, ..binary(&cast(&at), sign, &end, Level::Compare) }
    }

    fn function<const N: usize>(&mut self, at: Ix, function: &str, of: [Ix; N]) -> Piece {
        let narrow = self.is_narrow(at);
        let mut of = of.map(|of| self.part(at, of));
        let wide = of.iter().any(|of| of.wide);
        if wide {
            of = of.map(Piece::widened);
        }
        let text = format!("{function}({})", of.map(|of| of.text).join(", "));
        let piece = Piece { wide, ..Piece::new(text, Level::Primary) };
        if narrow { piece.narrowed() } else { piece }
    }
}

/// The width of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// The result fits 32 bits.
    Narrow,
    /// The result fits 64 bits.
    Wide,
    /// The range has ended at a limit of 64 bits, where the result wraps.
    Wraps,
}

/// An operation in the width that its result needs.
fn fitted(left: Piece, sign: &str, right: Piece, level: Level, width: Width) -> Piece {
    let mixed = left.wide || right.wide;
    match width {
        Width::Narrow => binary(&left, sign, &right, level).narrowed(),
        Width::Wide => {
            let left = if mixed { left } else { left.widened() };
            binary(&left, sign, &right, level)
        }
        Width::Wraps => {
            let result = Piece { wide: false, ..binary(&left.unsigned(), sign, &right, level) };
            result.widened()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::index::{ConstantName, Exprs};
    use crate::thread::{Kernel, Launch, Param, Scope};
    use tilewright_layout::Symbol;

    /// The text of an expression of the thread, the block and two parameters, one of 32 and one of 64 bits.
    #[track_caller]
    fn check(expected: &str, make: impl FnOnce(&mut Exprs, [Ix; 4]) -> Ix) {
        let mut exprs = Exprs::default();
        let leaves = [
            exprs.leaf(Int::Thread, 0, 255, 1, Scope::Thread),
            exprs.leaf(Int::Block(0), 0, 65535, 1, Scope::Block),
            exprs.leaf(Int::Param(0), 1, 1 << 30, 1, Scope::Grid),
            exprs.leaf(Int::Param(1), 1, 1 << 40, 1, Scope::Grid),
        ];
        let at = make(&mut exprs, leaves);
        let param = |name: &str, wide| Param::Int { name: name.into(), symbol: Symbol::new(name), wide };
        let launch = Launch {
            cost: None,
            grid: Default::default(),
            divided: 0,
            cluster: [1; 3],
            threads: 256,
            shared_bytes: 0,
            blocks_per_sm: 0,
            packs: Vec::new(),
            read_sizes: Vec::new(),
            overlaps: false,
            beside: false,
            persistent: false,
        };
        let kernel = Kernel {
            name: "k".into(),
            arch: 80,
            arch_specific: false,
            launch,
            needs: vec![],
            params: vec![param("M", false), param("ld", true)],
            shared: vec![],
            regs: vec![],
            bars: vec![],
            exprs,
            vars: vec![],
            sites: vec![],
            body: vec![],
        };
        assert_eq!(Printer::new(&kernel).int(at), expected);
    }

    fn times(e: &mut Exprs, x: Ix, n: i64) -> Ix {
        let n = e.int(n);
        e.mul(x, n)
    }

    #[test]
    fn parentheses() {
        check("tid % 32 + (tid / 32) * 129", |e, [tid, ..]| {
            let (lane, warp) = (e.rem(tid, 32), e.div(tid, 32));
            let row = times(e, warp, 129);
            e.add(lane, row)
        });
        check("tid / 32 % 4", |e, [tid, ..]| {
            let warp = e.div(tid, 32);
            e.rem(warp, 4)
        });
        check("(tid % 32) / 4", |e, [tid, ..]| {
            let lane = e.rem(tid, 32);
            e.div(lane, 4)
        });
        check("CEIL_DIV(bx * 32 + tid, 128)", |e, [tid, bx, ..]| {
            let start = times(e, bx, 32);
            let (at, more) = (e.add(start, tid), e.int(127));
            let sum = e.add(at, more);
            e.div(sum, 128)
        });
        check("tid + (bx ^ 5) * 8", |e, [tid, bx, ..]| {
            let five = e.int(5);
            let swapped = e.xor(bx, five);
            let swapped = times(e, swapped, 8);
            e.add(tid, swapped)
        });
        check("(tid + 1) & 1", |e, [tid, ..]| {
            let one = e.int(1);
            let next = e.add(tid, one);
            e.and(next, 1)
        });
        check("bx - tid", |e, [tid, bx, ..]| {
            let back = times(e, tid, -1);
            e.add(back, bx)
        });
        check("bx - tid * 4 - 7", |e, [tid, bx, ..]| {
            let back = times(e, tid, -4);
            let sum = e.add(bx, back);
            let seven = e.int(-7);
            e.add(sum, seven)
        });
    }

    #[test]
    fn quotients_of_negative_numbers() {
        let any =
            |e: &mut Exprs| e.leaf(Int::Grid(2), i64::from(i32::MIN), i64::from(i32::MAX), 1, Scope::Grid);
        let sum = |e: &mut Exprs, n: i64| {
            let (of, more) = (any(e), e.int(n));
            e.add(of, more)
        };
        check("floor_div(blocks_z, 4)", |e, _| {
            let of = any(e);
            e.div(of, 4)
        });
        check("floor_mod(blocks_z, 4)", |e, _| {
            let of = any(e);
            e.rem(of, 4)
        });
        check("ceil_div_signed(blocks_z, 4)", |e, _| {
            let of = sum(e, 3);
            e.div(of, 4)
        });
        // The sum can exceed 32 bits.
        check("(int)((blocks_z + 2147483650LL) / 4) - 536870912", |e, _| {
            let of = sum(e, 2);
            e.div(of, 4)
        });
    }

    #[test]
    fn constants_have_names() {
        let rows = ConstantName::new("BM", 128);
        check("bx * BM + tid", |e, [tid, bx, ..]| {
            let start = times(e, bx, 128);
            e.name_constant(start, &rows);
            e.add(start, tid)
        });
        check("CEIL_DIV(M, BM)", |e, [_, _, m, _]| {
            let last = e.int(127);
            let sum = e.add(m, last);
            let count = e.div(sum, 128);
            e.name_constant(count, &rows);
            count
        });
        check("bx == BM - 1", |e, [_, bx, ..]| {
            let last = e.int(127);
            let is_last = e.eq(bx, last);
            e.name_constant(is_last, &ConstantName { plus: -1, ..rows.clone() });
            is_last
        });
        // Two constants of this value.
        check("bx * 128", |e, [_, bx, ..]| {
            let start = times(e, bx, 128);
            e.name_constant(start, &rows);
            e.name_constant(start, &ConstantName::new("BN", 128));
            start
        });
        // The stride of an array has its name in offsets in that array alone.
        check("bx * 128", |e, [_, bx, ..]| {
            let start = times(e, bx, 128);
            e.name_constant(start, &ConstantName { array: Some(0), ..rows.clone() });
            start
        });
        check("bx * 4 * BM", |e, [_, bx, ..]| {
            let start = times(e, bx, 512);
            e.name_stride(start, &rows);
            start
        });
        check("bx * (BM / 8)", |e, [_, bx, ..]| {
            let (start, units) = (times(e, bx, 128), times(e, bx, 16));
            e.name_constant(start, &rows);
            e.name_product(units, start, 1, 8);
            units
        });
    }

    #[test]
    fn conditions() {
        check("tid < M && bx >= M", |e, [tid, bx, m, _]| {
            let (inside, other) = (e.lt(tid, m), e.lt(bx, m));
            let outside = e.not(other);
            e.all(inside, outside)
        });
        let before = |e: &mut Exprs, x| {
            let four = e.int(-4);
            e.add(x, four)
        };
        check("tid - 4 < M && tid - 4 >= 0", |e, [tid, _, m, _]| {
            let at = before(e, tid);
            e.within(at, m)
        });
        // A negative number is a large one without a sign, the least one too, which has no magnitude.
        let any = |e: &mut Exprs, x| {
            let sign = e.int(i64::from(i32::MIN));
            e.xor(x, sign)
        };
        check("(unsigned)(tid ^ (-2147483647 - 1)) < (unsigned)M", |e, [tid, _, m, _]| {
            let at = any(e, tid);
            e.within(at, m)
        });
        check("(unsigned)(tid ^ (-2147483647 - 1)) >= 64", |e, [tid, ..]| {
            let (at, end) = (any(e, tid), e.int(64));
            let inside = e.within(at, end);
            e.not(inside)
        });
        check(
            "(unsigned long long)(tid ^ (-2147483647 - 1)) < (unsigned long long)ld",
            |e, [tid, _, _, ld]| {
                let at = any(e, tid);
                e.within(at, ld)
            },
        );
        check("tid < M", |e, [tid, _, m, _]| e.within(tid, m));
        check("tid == bx ? 16 : 0", |e, [tid, bx, ..]| {
            let (same, some, none) = (e.eq(tid, bx), e.int(16), e.int(0));
            e.select(same, some, none)
        });
        check("min(M, bx) + 1", |e, [_, bx, m, _]| {
            let (least, one) = (e.min(m, bx), e.int(1));
            e.add(least, one)
        });
    }

    #[test]
    fn widths() {
        check("(long long)bx * M", |e, [_, bx, m, _]| e.mul(bx, m));
        check("(long long)(bx * 256 + tid) * M + tid", |e, [tid, bx, m, _]| {
            let row = times(e, bx, 256);
            let row = e.add(row, tid);
            let start = e.mul(row, m);
            e.add(start, tid)
        });
        check("bx * ld", |e, [_, bx, _, ld]| e.mul(bx, ld));
        check("(int)min(ld, (long long)M)", |e, [_, _, m, ld]| e.min(ld, m));
        check("(int)(ld % 8)", |e, [_, _, _, ld]| e.rem(ld, 8));
        // A product that may not fit 64 bits.
        check("(long long)((unsigned long long)ld * ld)", |e, [_, _, _, ld]| e.mul(ld, ld));
        check("M * 5000000000LL", |e, [_, _, m, _]| times(e, m, 5_000_000_000));
        // A fact of the variant bounds the sum.
        check("bx * M + tid", |e, [tid, bx, m, _]| {
            let start = e.mul(bx, m);
            let at = e.add(start, tid);
            e.assume(at, 0, i64::from(i32::MAX));
            at
        });
    }
}
