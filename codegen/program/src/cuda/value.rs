//! Values of elements: arithmetic in the element's own type, narrow floating-point types through `float`.

use super::Printer;
use super::literal::{literal, widened};
use super::piece::{Level, Piece, binary};
use crate::thread::{Bin, Cmp, Fast, Interval, Lane, Param, Un, Val, Vote};
use crate::values::elem::{Elem, Kind};
use crate::values::number;

/// A value as text, and its type.
struct Typed {
    piece: Piece,
    elem: Elem,
}

/// Functions of one floating-point value: in `float`, in `double`.
const FUNCTIONS: [(Un, &str, &str); 25] = [
    (Un::Abs, "fabsf", "fabs"),
    (Un::Exp, "expf", "exp"),
    (Un::Exp2, "power_of_two", "exp2"),
    (Un::Log, "logf", "log"),
    (Un::Log2, "log2f", "log2"),
    (Un::Sqrt, "sqrtf", "sqrt"),
    (Un::Rsqrt, "rsqrtf", "rsqrt"),
    (Un::Tanh, "tanhf", "tanh"),
    (Un::Sin, "sinf", "sin"),
    (Un::Cos, "cosf", "cos"),
    (Un::Erf, "erff", "erf"),
    (Un::Gelu, "gelu", "gelu_double"),
    (Un::Floor, "floorf", "floor"),
    (Un::Ceil, "ceilf", "ceil"),
    (Un::Trunc, "truncf", "trunc"),
    // Qualified: a tile scheduler's loop variable is named `round`.
    (Un::Round, "roundf", "::round"),
    (Un::RoundEven, "rintf", "rint"),
    (Un::Fast(Fast::Exp), "fast_exp", ""),
    (Un::Fast(Fast::Log), "__logf", ""),
    (Un::Fast(Fast::Log2), "__log2f", ""),
    (Un::Fast(Fast::Sqrt), "fast_sqrt", ""),
    (Un::Fast(Fast::Rsqrt), "fast_rsqrt", ""),
    (Un::Fast(Fast::Tanh), "fast_tanh", ""),
    (Un::Fast(Fast::Sin), "__sinf", ""),
    (Un::Fast(Fast::Cos), "__cosf", ""),
];

/// Functions of two values: for integers, in `float`, in `double`.
const PAIRS: [(Bin, &str, &str, &str); 7] = [
    (Bin::Min, "min", "fminf", "fmin"),
    (Bin::Max, "max", "fmaxf", "fmax"),
    (Bin::Rem, "", "fmodf", "fmod"),
    (Bin::Pow, "", "powf", "pow"),
    (Bin::CopySign, "", "copysignf", "copysign"),
    (Bin::FastDiv, "", "fast_div", ""),
    // By width and sign.
    (Bin::MulHigh, "mulhi", "", ""),
];

/// The bits of one type of 4 bytes as another.
const BITS: [(Elem, Elem, &str); 4] = [
    (Elem::F32, Elem::I32, "__float_as_int"),
    (Elem::F32, Elem::U32, "__float_as_uint"),
    (Elem::I32, Elem::F32, "__int_as_float"),
    (Elem::U32, Elem::F32, "__uint_as_float"),
];

/// Operators.
const SIGNS: [(Bin, &str, Level); 10] = [
    (Bin::Add, "+", Level::Sum),
    (Bin::Sub, "-", Level::Sum),
    (Bin::Mul, "*", Level::Product),
    (Bin::Div, "/", Level::Product),
    (Bin::Rem, "%", Level::Product),
    (Bin::And, "&", Level::BitAnd),
    (Bin::Or, "|", Level::BitOr),
    (Bin::Xor, "^", Level::BitXor),
    (Bin::Shl, "<<", Level::Shift),
    (Bin::Shr, ">>", Level::Shift),
];

/// Operations on integers that C does not define for all operands, or that assemblers optimize incorrectly. Each is
/// replaced by functions that are correct for all operands: signed, then unsigned.
const DEFINED: [(Bin, &str, &str); 8] = [
    (Bin::Add, "wrapping_add", ""),
    (Bin::Sub, "wrapping_sub", ""),
    (Bin::Mul, "wrapping_mul", ""),
    (Bin::Div, "wrapping_div", "unsigned_div"),
    (Bin::Rem, "wrapping_rem", "unsigned_rem"),
    (Bin::Shl, "shift_left", "shift_left"),
    (Bin::Shr, "shift_right", "shift_right"),
    (Bin::Xor, "signed_xor", ""),
];

/// The type in which a type's arithmetic is done.
fn working(elem: Elem) -> Elem {
    match elem {
        Elem::F64 => elem,
        elem if elem.is_float() => Elem::F32,
        elem if elem.is_word() => elem,
        _ => Elem::I32,
    }
}

/// Is it stored as bits in a struct, with conversions from and to other types?
fn is_bits(elem: Elem) -> bool {
    elem.is_float() && elem.bits() < 32
}

fn call(function: &str, args: &[&Piece]) -> Piece {
    let args: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    Piece::new(format!("{function}({})", args.join(", ")), Level::Primary)
}

/// A shuffle of a kind: with the lane, or with the change of its number.
fn shuffled(kind: &str, x: Typed, lane: &str) -> Typed {
    let by = if kind.is_empty() { String::new() } else { format!("_{kind}") };
    let function =
        if is_bits(x.elem) { format!("shuffle{by}(") } else { format!("__shfl{by}_sync(0xffffffff, ") };
    let piece = Piece::new(format!("{function}{}, {lane})", x.piece.text), Level::Primary);
    let narrow = !x.elem.is_word() && !x.elem.is_float();
    Typed { piece: if narrow { cast(x.elem, &piece) } else { piece }, elem: x.elem }
}

/// A vote of all lanes of a warp.
fn vote(how: &Vote, Typed { piece, elem }: Typed) -> Typed {
    let (function, piece) = match how {
        Vote::Ballot => ("__ballot_sync(0xffffffff, ", piece),
        Vote::All(Bin::Min) => ("__reduce_min_sync(0xffffffff, ", piece),
        Vote::All(Bin::Max) => ("__reduce_max_sync(0xffffffff, ", piece),
        Vote::All(_) => ("__reduce_add_sync(0xffffffff, ", piece),
        Vote::Match if elem.bits() == 8 => ("match_byte(", piece),
        Vote::Match if elem.is_word() => ("__match_any_sync(0xffffffff, ", piece),
        Vote::Match => ("__match_any_sync(0xffffffff, ", cast(Elem::I32, &piece)),
    };
    let elem = if matches!(how, Vote::All(_)) { elem } else { Elem::U32 };
    Typed { piece: Piece::new(format!("{function}{})", piece.text), Level::Primary), elem }
}

/// The bits of a value as a value of another type.
fn reinterpreted(from: Typed, to: Elem) -> Piece {
    // A tf32 is stored as a `float`.
    let [source, wanted] = [from.elem, to].map(|elem| if elem == Elem::Tf32 { Elem::F32 } else { elem });
    let row = BITS.iter().find(|row| (row.0, row.1) == (source, wanted));
    match row {
        Some((.., function)) => call(function, &[&from.piece]),
        None if source == wanted => from.piece,
        None if source == Elem::F64 => cast(to, &call("__double_as_longlong", &[&from.piece])),
        None if wanted == Elem::F64 => call("__longlong_as_double", &[&cast(Elem::I64, &from.piece)]),
        None => cast(to, &from.piece),
    }
}

/// A literal, perhaps with a sign in front of it.
fn signed(text: String) -> Piece {
    let level = if text.starts_with('-') { Level::Unary } else { Level::Primary };
    Piece::new(text, level)
}

fn cast(elem: Elem, piece: &Piece) -> Piece {
    Piece::new(format!("({}){}", elem.cuda(), piece.at(Level::Unary)), Level::Unary)
}

impl Printer<'_> {
    /// A value without parentheses.
    pub(super) fn value(&mut self, value: &Val) -> String {
        self.typed(value).piece.text
    }

    fn typed(&mut self, value: &Val) -> Typed {
        match value {
            Val::Reg(reg, at) => {
                let text = self.element(*reg, *at);
                Typed { piece: Piece::new(text, Level::Primary), elem: self.kernel.regs[*reg as usize].elem }
            }
            Val::Lit(n, elem) => Typed { piece: signed(literal(*n, *elem)), elem: *elem },
            Val::Int(at, elem) => {
                let piece = self.int_piece(*at);
                let from = if piece.wide { Elem::I64 } else { Elem::I32 };
                Typed { piece: convert_int(&piece, from, *elem), elem: *elem }
            }
            Val::Param(id) => {
                let elem = match &self.kernel.params[*id as usize] {
                    Param::Scalar { elem, .. }
                    | Param::Pointer { elem, .. }
                    | Param::Workspace { elem, .. } => *elem,
                    Param::Int { .. } | Param::TensorMap { .. } => Elem::I32,
                };
                let name = self.names.params[*id as usize].clone();
                Typed { piece: Piece::new(name, Level::Primary), elem }
            }
            Val::Un(function, x) => self.one(*function, x),
            Val::Bin(function, x, y) => self.two(*function, x, y),
            Val::Fma(args) => self.fused(args),
            Val::Ptx { text, elem, volatile, args, .. } => {
                let args: Vec<Typed> = args.iter().map(|arg| self.typed(arg)).collect();
                let elems = args.iter().map(|arg| arg.elem).collect();
                let name = self.ptx_function((text.clone(), *elem, elems, *volatile));
                let pieces: Vec<&Piece> = args.iter().map(|arg| &arg.piece).collect();
                Typed { piece: call(&name, &pieces), elem: *elem }
            }
            Val::Product(row, args) => self.typed(&Val::sum_of(row, (**args).clone())),
            Val::Cast(to, x) => {
                if let Some(piece) = self.of_pair(x) {
                    return Typed { piece: convert(&piece, Elem::F32, *to), elem: *to };
                }
                let from = self.typed(x);
                Typed { piece: convert(&from.piece, from.elem, *to), elem: *to }
            }
            Val::Bits(to, x) => {
                let from = self.typed(x);
                Typed { piece: reinterpreted(from, *to), elem: *to }
            }
            Val::Cmp(how, x, y) => {
                let (x, y) = (self.operand(x), self.operand(y));
                let (sign, level) = match how {
                    Cmp::Lt => ("<", Level::Compare),
                    Cmp::Le => ("<=", Level::Compare),
                    Cmp::Eq => ("==", Level::Equal),
                    Cmp::Ne => ("!=", Level::Equal),
                };
                Typed { piece: binary(&x.piece, sign, &y.piece, level), elem: Elem::I32 }
            }
            Val::Pick(args) => {
                let [cond, x, y] = &**args;
                let mut truth = self.operand(cond).piece;
                // An integer of the kernel is a guard, which is 1 or 0.
                if !cond.is_truth() && !matches!(cond, Val::Int(..)) {
                    truth = binary(&truth, "!=", &Piece::new("0", Level::Primary), Level::Equal);
                }
                let (x, y) = (self.typed(x), self.typed(y));
                let (inside, outside) = (x.piece.at(Level::Or), y.piece.at(Level::Ternary));
                let text = format!("{} ? {inside} : {outside}", truth.at(Level::Or));
                Typed { piece: Piece::new(text, Level::Ternary), elem: x.elem }
            }
            Val::Shuffle(x, Lane::Xor(distance)) => {
                let (x, distance) = (self.typed(x), self.int(*distance));
                shuffled("xor", x, &distance)
            }
            Val::Shuffle(x, Lane::InGroup(lanes, lane)) => {
                let (x, lane) = (self.typed(x), self.typed(lane).piece.text);
                let width = if *lanes < 32 { format!(", {lanes}") } else { String::new() };
                shuffled("", x, &format!("{lane}{width}"))
            }
            Val::Vote(how, x) => vote(how, self.typed(x)),
        }
    }

    /// A value in its working type; `elem` remains its own type.
    fn operand(&mut self, value: &Val) -> Typed {
        if let Val::Lit(n, elem) = value
            && is_bits(*elem)
        {
            return Typed { piece: signed(widened(*n, *elem)), elem: *elem };
        }
        if let Some(piece) = self.of_pair(value) {
            return Typed { piece, elem: Elem::Bf16 };
        }
        let typed = self.typed(value);
        if is_bits(typed.elem) { Typed { piece: call("to_float", &[&typed.piece]), ..typed } } else { typed }
    }

    /// An element of an array of vectors as a `float`, from the word of its pair: the upper one takes one instruction instead of two.
    fn of_pair(&mut self, value: &Val) -> Option<Piece> {
        let Val::Reg(reg, at) = value else { return None };
        let array = &self.kernel.regs[*reg as usize];
        let vectors = self.widest.get(reg).is_some_and(|widest| widest.is_multiple_of(2));
        if array.elem != Elem::Bf16 || array.words || !array.len.is_multiple_of(2) || !vectors {
            return None;
        }
        let (name, at) = (self.names.regs[*reg as usize].clone(), self.int(*at));
        Some(Piece::new(format!("paired_to_float({name}, {at})"), Level::Primary))
    }

    fn one(&mut self, function: Un, value: &Val) -> Typed {
        let x = self.operand(value);
        let (elem, double) = (x.elem, x.elem == Elem::F64);
        let (least, _) = number::range(elem);
        let overflows = elem.is_word() && elem.is_signed() && self.kernel.interval_of(value).has(least);
        let prefix = |sign: &str| {
            let operand = x.piece.at(Level::Unary);
            let gap = if operand.starts_with(sign) { " " } else { "" };
            Piece::new(format!("{sign}{gap}{operand}"), Level::Unary)
        };
        let result = match function {
            Un::Not if value.is_truth() => {
                return Typed { piece: prefix("!"), elem };
            }
            Un::Not => prefix("~"),
            Un::Neg if overflows => call(&sized("wrapping_neg", elem), &[&x.piece]),
            Un::Neg => prefix("-"),
            Un::Recip => {
                let one = Piece::new(if double { "1.0" } else { "1.0f" }, Level::Primary);
                binary(&one, "/", &x.piece, Level::Product)
            }
            Un::CountOnes | Un::LeadingZeros => return counted(function, &x.piece, elem),
            // A product by one, which compilers of CUDA C do not remove.
            Un::Apart => match elem {
                Elem::F64 => call("__dmul_rn", &[&x.piece, &Piece::new("1.0", Level::Primary)]),
                _ if elem.is_float() => call("__fmul_rn", &[&x.piece, &Piece::new("1.0f", Level::Primary)]),
                _ => return x,
            },
            Un::Abs if elem.kind() == Kind::Unsigned => return x,
            Un::Abs if overflows => call(&sized("wrapping_abs", elem), &[&x.piece]),
            Un::Abs if !elem.is_float() => call("abs", &[&x.piece]),
            _ => {
                let row = FUNCTIONS.iter().find(|row| row.0 == function);
                let (float, long) = row.map_or(("", ""), |row| (row.1, row.2));
                call(if double { long } else { float }, &[&x.piece])
            }
        };
        Typed { piece: rounded(result, elem), elem }
    }

    fn two(&mut self, function: Bin, x: &Val, y: &Val) -> Typed {
        if let (Bin::Sub, Val::Lit(n, Elem::I32 | Elem::I64)) = (function, x)
            && n.is_zero()
        {
            return self.one(Un::Neg, y);
        }
        if function == Bin::And
            && let Some(piece) = self.ranges(x, y)
        {
            return Typed { piece, elem: Elem::I32 };
        }
        let ranges = [x, y].map(|of| self.kernel.interval_of(of));
        let (x, y) = (self.operand(x), self.operand(y));
        let elem = x.elem;
        let pair = PAIRS.iter().find(|row| row.0 == function && (elem.is_float() || !row.1.is_empty()));
        let result = match (pair, SIGNS.iter().find(|row| row.0 == function)) {
            (Some((_, int, float, double)), _) => {
                let function = if elem == Elem::F64 {
                    double
                } else if elem.is_float() {
                    float
                } else if function == Bin::MulHigh {
                    match (elem.is_signed(), elem.bytes()) {
                        (true, 8) => "__mul64hi",
                        (false, 8) => "__umul64hi",
                        (true, _) => "__mulhi",
                        (false, _) => "__umulhi",
                    }
                } else {
                    int
                };
                call(function, &[&x.piece, &y.piece])
            }
            (None, Some(_)) => operation(function, elem, [&x.piece, &y.piece], ranges),
            (None, None) => unreachable!("every function of two values stands in a table"),
        };
        Typed { piece: rounded(result, elem), elem }
    }

    /// A conjunction: each two conditions `0 <= x` and `x < n` in it as one comparison of unsigned integers.
    fn ranges(&mut self, x: &Val, y: &Val) -> Option<Piece> {
        let (mut left, mut conditions) = (vec![y, x], Vec::new());
        while let Some(next) = left.pop() {
            match next {
                Val::Bin(Bin::And, x, y) if next.is_truth() => left.extend([&**y, &**x]),
                _ => conditions.push(next),
            }
        }
        let mut pieces: Vec<Option<Piece>> = vec![None; conditions.len()];
        let mut merged = vec![false; conditions.len()];
        for (at, least) in conditions.iter().enumerate() {
            let mut unused = (0..conditions.len()).filter(|other| !merged[*other]);
            let Some((other, (x, n, unsigned))) =
                unused.find_map(|other| Some((other, self.range(least, conditions[other])?)))
            else {
                continue;
            };
            let [x, n] = [x, n].map(|of| cast(unsigned, &self.operand(of).piece));
            pieces[at.min(other)] = Some(binary(&x, "<", &n, Level::Compare));
            (merged[at], merged[other]) = (true, true);
        }
        if !merged.contains(&true) {
            return None;
        }
        let texts =
            pieces.into_iter().zip(conditions).zip(merged).filter_map(|((piece, one), merged)| {
                if merged { piece } else { Some(self.operand(one).piece) }
            });
        texts.reduce(|x, y| binary(&x, "&", &y, Level::BitAnd))
    }

    /// What two conditions compare, as unsigned integers: x and n of `0 <= x` and `x < n`.
    fn range<'v>(&self, least: &'v Val, most: &'v Val) -> Option<(&'v Val, &'v Val, Elem)> {
        let (Val::Cmp(Cmp::Le, zero, x), Val::Cmp(Cmp::Lt, same, n)) = (least, most) else { return None };
        let unsigned = match self.kernel.type_of(x) {
            Elem::I32 => Elem::U32,
            Elem::I64 => Elem::U64,
            _ => return None,
        };
        let is_zero = self.kernel.interval_of(zero) == Interval::only(0);
        (is_zero && x == same && self.kernel.interval_of(n).lo >= 0).then_some((x, n, unsigned))
    }

    fn fused(&mut self, args: &[Val; 3]) -> Typed {
        // The accumulator is rendered once: in a chain of sums, twice would double the text with each link.
        let Typed { piece: c, elem } = self.typed(&args[2]);
        let [a, b] = [&args[0], &args[1]];
        if is_bits(elem) {
            // The hardware instruction: rounding in float first would round twice.
            let (a, b) = (self.typed(a).piece, self.typed(b).piece);
            return Typed { piece: call("fused", &[&a, &b, &c]), elem };
        }
        let [product, sum] = self.kernel.intervals_of_sum(args);
        let (a, b, c) = (&self.operand(a).piece, &self.operand(b).piece, &c);
        if elem == Elem::Tf32 {
            return Typed { piece: call("fused_tf32", &[a, b, c]), elem };
        }
        let result = match elem {
            Elem::F64 => call("fma", &[a, b, c]),
            elem if elem.is_float() => call("fmaf", &[a, b, c]),
            _ => operation(Bin::Add, elem, [&operation(Bin::Mul, elem, [a, b], product), c], sum),
        };
        Typed { piece: rounded(result, elem), elem }
    }
}

/// An operation by its operator, or by a function for integers where C does not define the operator.
fn operation(function: Bin, elem: Elem, [x, y]: [&Piece; 2], [of_x, of_y]: [Interval; 2]) -> Piece {
    let Some((_, sign, level)) = SIGNS.iter().find(|row| row.0 == function) else { return x.clone() };
    let plain = binary(x, sign, y, *level);
    let Some((_, signed, unsigned)) = DEFINED.iter().find(|row| row.0 == function) else { return plain };
    if elem.is_float() {
        return plain;
    }
    let result = function.interval(of_x, of_y, elem.working_bits());
    let all = Interval::of(working(elem));
    match working(elem).is_signed() {
        false if unsigned.is_empty() || result.is_some() => plain,
        false => call(&sized(unsigned, elem), &[x, y]),
        true if function == Bin::Xor && ![of_x, of_y].iter().any(|of| of.has(all.lo)) => plain,
        // The left operand of a left shift may not be negative.
        true if function == Bin::Shl && of_x.lo < 0 => call(&sized(signed, elem), &[x, y]),
        true if result.is_some_and(|result| result.is_within(all)) => plain,
        true => call(&sized(signed, elem), &[x, y]),
    }
}

/// The name of a function for integers of 32 bits, or of its counterpart for 64.
fn sized(function: &str, elem: Elem) -> String {
    if elem.bits() > 32 { format!("{function}_64") } else { function.to_owned() }
}

/// Bit counts of an integer; of narrow types in their own width.
fn counted(function: Un, x: &Piece, elem: Elem) -> Typed {
    let unused = 32u32.saturating_sub(elem.bits());
    let number = |n: u32| Piece::new(n.to_string(), Level::Primary);
    let own = match unused {
        0 => x.clone(),
        _ => binary(x, "&", &number(u32::MAX >> unused), Level::BitAnd),
    };
    let long = if elem.bits() > 32 { "ll" } else { "" };
    let count = match function {
        Un::CountOnes => call(&format!("__popc{long}"), &[&own]),
        _ if unused > 0 => binary(&call("__clz", &[&own]), "-", &number(unused), Level::Sum),
        _ => call(&format!("__clz{long}"), &[&own]),
    };
    Typed { piece: if elem == Elem::I32 { count } else { cast(elem, &count) }, elem }
}

/// A result in the working type, converted to the element's own.
fn rounded(piece: Piece, elem: Elem) -> Piece {
    match elem {
        _ if working(elem) == elem => piece,
        elem if elem.is_float() => call(&format!("to_{elem}"), &[&piece]),
        _ => cast(elem, &piece),
    }
}

/// An integer in a narrow floating-point type, rounded once: `float` is exact for integers below f16's infinity and
/// 8-bit types' greatest number; others need `double`, and 64-bit integers more than that.
fn narrowed_int(piece: &Piece, from: Elem, to: Elem) -> Piece {
    match to {
        _ if to == Elem::F16 || to.is_fp8() => rounded(cast(Elem::F32, piece), to),
        _ if from.bits() > 32 => call(&format!("double_to_{to}"), &[&call("long_to_odd", &[piece])]),
        _ => call(&format!("double_to_{to}"), &[&cast(Elem::F64, piece)]),
    }
}

/// An index as a value. `from` is `I32`, or `I64` for one of 64 bits.
fn convert_int(piece: &Piece, from: Elem, to: Elem) -> Piece {
    match to {
        to if to == from => piece.clone(),
        to if is_narrow(to) => narrowed_int(piece, from, to),
        _ => cast(to, piece),
    }
}

/// Is it a floating-point type that is computed with in a wider one?
fn is_narrow(elem: Elem) -> bool {
    elem.is_float() && working(elem) != elem
}

fn convert(piece: &Piece, from: Elem, to: Elem) -> Piece {
    use Elem::*;
    if from == to {
        return piece.clone();
    }
    match (from, to) {
        // Every one of them is a float.
        (Tf32, _) => convert(piece, F32, to),
        (from, _) if is_bits(from) => convert(&call("to_float", &[piece]), F32, to),
        (F32, to) if is_narrow(to) => rounded(piece.clone(), to),
        (F64, to) if is_narrow(to) => call(&format!("double_to_{to}"), &[piece]),
        // Exact, and much faster than by way of `double`.
        (from, to) if is_narrow(to) && from.bits() < 32 => rounded(cast(F32, piece), to),
        (_, to) if is_narrow(to) => narrowed_int(piece, from, to),
        (F32, I32) => call("__float2int_rz", &[piece]),
        (F32, U32) => call("__float2uint_rz", &[piece]),
        (F64, I32) => call("double_to_int", &[piece]),
        (F64, U32) => call("double_to_unsigned", &[piece]),
        (F32, I64) => call("float_to_long", &[piece]),
        (F32, U64) => call("float_to_unsigned_long", &[piece]),
        (F64, I64) => call("double_to_long", &[piece]),
        (F64, U64) => call("double_to_unsigned_long", &[piece]),
        (F32 | F64, to) if to.is_integer() => {
            let int = convert(piece, from, I32);
            let (least, greatest) = number::range(to);
            let clamped = Piece::new(format!("min(max({}, {least}), {greatest})", int.text), Level::Primary);
            cast(to, &clamped)
        }
        _ => cast(to, piece),
    }
}
