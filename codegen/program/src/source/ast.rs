//! The source of a kernel without tokens: the small tree that both macros and run-time specialisation evaluate.
//!
//! Spans are opaque numbers, which the maker of the tree interprets. Types, layouts and sizes are expressions
//! here and are evaluated later. It does not know syn.

pub mod make;
mod visit;

use crate::source::stack::LONGEST_CHAIN;
use crate::source::wire::{Bytes, Wire, wire};

/// A source location: an index into a table of the front end that built the tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Span(pub u32);

/// A name with its span.
#[derive(Clone, PartialEq, Debug)]
pub struct Name {
    /// The text.
    pub text: String,
    /// Its span.
    pub span: Span,
}

/// A kernel: one function of the user.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// The function's name.
    pub name: Name,
    /// `unsafe fn`: its author, and the caller of its launch, guarantee that indices loaded from data are
    /// in bounds.
    pub is_unsafe: bool,
    /// `const BM: usize = 128`: sizes that a use may set.
    pub consts: Vec<ConstParam>,
    /// `T` with the element types that it may stand for.
    pub types: Vec<TypeParam>,
    /// The arguments.
    pub params: Vec<Param>,
    /// The functions that it uses.
    pub devices: Vec<Device>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// Levels that the attribute sets for lints: `deny(bank_conflicts)`.
    pub levels: Vec<(Name, Level)>,
    /// Keys of the attribute: `arch = 90`, `threads = 128`.
    pub keys: Vec<Arg>,
    /// Does the attribute enable programmatic dependent launch: `#[kernel(overlaps)]`?
    pub overlaps: bool,
    /// Values of constants among which a launch chooses: `choose((BM, BN) in [(128, 256), (64, 128)])`.
    pub choices: Vec<Choice>,
}

/// Values of some constants among which a launch chooses.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The constants.
    pub names: Vec<Name>,
    /// Their values together, one row for each alternative.
    pub rows: Vec<Vec<i64>>,
}

/// A function that kernels share: `#[device] fn soft(x: f32) -> f32 { … }`. Its spans refer to its own
/// text, which is elsewhere.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    /// Its name where it is used.
    pub name: Name,
    /// Its type parameters, which a call decides.
    pub types: Vec<Name>,
    /// Its parameters.
    pub params: Vec<DeviceParam>,
    /// The type of its value.
    pub result: DeviceType,
    /// The functions that it uses.
    pub devices: Vec<Device>,
    /// The statements before its value; of numbers alone there are none.
    pub body: Vec<Stmt>,
    /// Its value.
    pub value: Expr,
}

impl Device {
    /// Is it a function of numbers, which has a value for each element?
    pub fn is_of_numbers(&self) -> bool {
        let is_number = |ty: &DeviceType| matches!(ty, DeviceType::Number(_));
        is_number(&self.result) && self.params.iter().all(|param| is_number(&param.ty))
    }

    /// Is it a function of numbers with several values for each element?
    pub fn is_of_elements(&self) -> bool {
        self.result.is_of_numbers()
            && self.params.iter().all(|param| param.ty.is_of_numbers())
            && self.body.iter().all(|stmt| matches!(stmt.kind, StmtKind::Let { .. }))
    }
}

/// A parameter of a function that kernels share.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceParam {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: DeviceType,
}

/// A type in the head of a function that kernels share.
#[derive(Clone, PartialEq, Debug)]
pub enum DeviceType {
    /// A number of an element type, or of a type parameter.
    Number(Name),
    /// A tile: `View`, or `&mut View` where the function changes it.
    Tile {
        /// `&mut`.
        mutable: bool,
    },
    /// An integer: `usize`.
    Integer,
    /// A layout: `Arrangement`.
    Layout,
    /// A closure: `fn(f32) -> f32`.
    Closure,
    /// A tuple; the empty one is the result of a function without a value.
    Tuple(Vec<DeviceType>),
}

impl DeviceType {
    /// Is it a number, or a tuple of numbers?
    pub fn is_of_numbers(&self) -> bool {
        match self {
            DeviceType::Number(_) => true,
            DeviceType::Tuple(all) => !all.is_empty() && all.iter().all(DeviceType::is_of_numbers),
            _ => false,
        }
    }

    /// The names of the types of its numbers, in order.
    pub fn numbers(&self) -> Vec<&Name> {
        match self {
            DeviceType::Number(name) => vec![name],
            DeviceType::Tuple(all) => all.iter().flat_map(DeviceType::numbers).collect(),
            _ => Vec::new(),
        }
    }

    /// Does a function change a tile of an argument of this type?
    pub fn is_changed(&self) -> bool {
        match self {
            DeviceType::Tile { mutable } => *mutable,
            DeviceType::Tuple(all) => all.iter().any(DeviceType::is_changed),
            _ => false,
        }
    }

    /// The type whose tiles a function changes; `None` if it has none, or changes one already.
    pub fn changing(&self) -> Option<DeviceType> {
        match self {
            DeviceType::Tile { mutable: false } => Some(DeviceType::Tile { mutable: true }),
            DeviceType::Tuple(all) if !self.is_changed() => {
                let changing: Vec<_> = all.iter().map(DeviceType::changing).collect();
                let tiles = changing.iter().any(Option::is_some);
                let all = changing.into_iter().zip(all).map(|(new, old)| new.unwrap_or_else(|| old.clone()));
                tiles.then(|| DeviceType::Tuple(all.collect()))
            }
            _ => None,
        }
    }
}

/// The level of a lint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Only in the report.
    Allow,
    /// A warning at the user's token.
    Warn,
    /// An error.
    Deny,
}

impl Level {
    /// The level of a word: `allow`, `warn` or `deny`.
    pub fn named(word: &str) -> Option<Level> {
        [Level::Allow, Level::Warn, Level::Deny].into_iter().find(|level| level.name() == word)
    }

    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Level::Allow => "allow",
            Level::Warn => "warn",
            Level::Deny => "deny",
        }
    }
}

/// A constant of the kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct ConstParam {
    /// Its name.
    pub name: Name,
    /// Its value unless a use sets another.
    pub default: Option<Expr>,
}

impl ConstParam {
    /// Is it a closure? Others are sizes.
    pub fn is_function(&self) -> bool {
        self.default.as_ref().is_some_and(Expr::is_closure)
    }
}

/// An element type of the kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeParam {
    /// Its name.
    pub name: Name,
    /// The types that it may stand for; the first is the default.
    pub allowed: Vec<Name>,
}

/// An argument of the kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Its name.
    pub name: Name,
    /// `f32`, or the name of a type parameter.
    pub elem: Name,
    /// Its kind.
    pub kind: ParamKind,
    /// The number of tensors of a list, `[&Tensor<f32, N>; 4]`.
    pub list: Option<Expr>,
    /// Whether it is a list of at most one tensor, `Option<&Tensor<f32, N>>`, whose number is a constant that the macro adds.
    pub optional: bool,
}

/// Tensor or scalar.
#[derive(Clone, PartialEq, Debug)]
pub enum ParamKind {
    /// `&Tensor<f32, (M, K)>` or `&mut Tensor<f32, layout!((M, N) : (1, ldc))>`.
    Tensor {
        /// `&mut`.
        mutable: bool,
        /// Extents: names known at launch, integers, constants.
        shape: Expr,
        /// Strides; column-major with separate leading dimensions when absent.
        stride: Option<Expr>,
    },
    /// `alpha: f32`.
    Scalar,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// Its span.
    pub span: Span,
    /// Its kind, with its parts.
    pub kind: StmtKind,
}

/// Kinds of statements.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// `let pattern = value;`
    Let {
        /// The names that are bound.
        pattern: Pattern,
        /// The value.
        value: Expr,
    },
    /// `target = value;`, or `target += value;` with an operator.
    Assign {
        /// The target.
        target: Expr,
        /// `+` of `+=`.
        op: Option<Binary>,
        /// The right side.
        value: Expr,
    },
    /// `for pattern in range { … }`
    For {
        /// The loop variable.
        pattern: Pattern,
        /// `0..n`, or a call such as `pipelined(0..n, stages = 3)`.
        range: Expr,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// `if condition { … } else { … }`
    If {
        /// The condition.
        condition: Expr,
        /// Where it is true.
        then: Vec<Stmt>,
        /// Where it is false.
        other: Vec<Stmt>,
    },
    /// `while condition { … }`; `loop { … }` has the condition `true`.
    While {
        /// The condition at the beginning of each iteration.
        condition: Expr,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// `break;`
    Break,
    /// `role(name) { … }` and other calls that take a block: the call, and its statements.
    Block {
        /// The call in front of the block.
        head: Expr,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// An expression for its effect.
    Expr(Expr),
}

/// The left side of a `let` or the variable of a loop.
#[derive(Clone, PartialEq, Debug)]
pub enum Pattern {
    /// A name.
    Name(Name),
    /// `_`
    Hole(Span),
    /// `(a, b)`
    Tuple(Span, Vec<Pattern>),
}

/// An expression.
#[derive(PartialEq, Debug)]
pub struct Expr {
    /// Its span.
    pub span: Span,
    /// Its kind.
    pub kind: ExprKind,
}

/// Kinds of expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer literal.
    Int(i64),
    /// An integer literal that fits `u64` alone.
    Long(u64),
    /// A floating-point literal.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A string literal.
    Str(String),
    /// A name: a constant, a variable, a symbol.
    Name(String),
    /// A path of several segments, which no constant of the kernel is.
    Path(String),
    /// `_`
    Hole,
    /// `(a, b)`, also `[a, b]`.
    Tuple(Vec<Expr>),
    /// `function::<types>(arguments)`
    Call {
        /// The function's name.
        function: Name,
        /// Type arguments.
        types: Vec<Name>,
        /// Arguments, some by name: `stages = 4`.
        args: Vec<Arg>,
    },
    /// `receiver.method(arguments)`
    Method {
        /// The receiver.
        receiver: Box<Expr>,
        /// The method.
        method: Name,
        /// Arguments.
        args: Vec<Arg>,
    },
    /// `base.field`, also `base.0`.
    Field {
        /// The base.
        base: Box<Expr>,
        /// The name or number of the field.
        field: Name,
    },
    /// `base[index]`
    Index {
        /// The base.
        base: Box<Expr>,
        /// The index.
        index: Box<Expr>,
    },
    /// `-a`, `!a`
    Unary(Unary, Box<Expr>),
    /// `a + b`
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `from..to`
    Range(Box<Expr>, Box<Expr>),
    /// `a as f32`
    Cast(Box<Expr>, Name),
    /// `layout!(shape : stride)`
    Layout {
        /// The shape.
        shape: Box<Expr>,
        /// The stride; compact column-major without one.
        stride: Option<Box<Expr>>,
    },
    /// `|x, y| body`
    Closure {
        /// The parameters.
        params: Vec<Pattern>,
        /// The value.
        body: Box<Expr>,
    },
    /// `{ let x = …; value }` as a value: names for parts of it.
    Block {
        /// The bindings, in order.
        lets: Vec<(Pattern, Expr)>,
        /// The value.
        value: Box<Expr>,
    },
    /// `if condition { a } else { b }` as a value.
    If {
        /// The condition.
        condition: Box<Expr>,
        /// Where it is true.
        then: Box<Expr>,
        /// Where it is false.
        other: Box<Expr>,
    },
}

/// An argument of a call.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// `stages` of `stages = 4`.
    pub name: Option<Name>,
    /// The value.
    pub value: Expr,
}

impl Arg {
    /// `name = value`, without a span in a text.
    pub fn of_number(name: &str, value: i64) -> Arg {
        let span = Span::default();
        let name = Name { text: name.to_owned(), span };
        Arg { name: Some(name), value: Expr { kind: ExprKind::Int(value), span } }
    }

    /// Has it this name?
    pub fn is(&self, name: &str) -> bool {
        self.name.as_ref().is_some_and(|own| own.text == name)
    }
}

/// Operators with one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unary {
    /// `-`
    Neg,
    /// `!`
    Not,
}

/// Operators with two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binary {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `&&`, `&`
    And,
    /// `||`, `|`
    Or,
    /// `^`
    Xor,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
}

impl Wire for Span {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<Span> {
        from.span().map(Span)
    }
}

wire! {
    struct Name { text, span }
    struct Kernel { name, is_unsafe, consts, types, params, devices, body, levels, keys, overlaps, choices }
    struct Choice { names, rows }
    struct Device { name, types, params, result, devices, body, value }
    struct DeviceParam { name, ty }
    deep enum DeviceType { Number(a), Tile { mutable }, Integer, Layout, Closure, Tuple(a) }
    enum Level { Allow, Warn, Deny }
    struct ConstParam { name, default }
    struct TypeParam { name, allowed }
    struct Param { name, elem, kind, list, optional }
    enum ParamKind { Tensor { mutable, shape, stride }, Scalar }
    struct Stmt { span, kind }
    deep enum StmtKind {
        Let { pattern, value }, Assign { target, op, value }, For { pattern, range, body },
        If { condition, then, other }, Block { head, body }, Expr(a), While { condition, body }, Break,
    }
    deep enum Pattern { Name(a), Hole(a), Tuple(a, b) }
    enum ExprKind {
        Int(a), Float(a), Bool(a), Str(a), Name(a), Path(a), Hole, Tuple(a),
        Call { function, types, args }, Method { receiver, method, args }, Field { base, field },
        Index { base, index }, Unary(a, b), Binary(a, b, c), Range(a, b), Cast(a, b),
        Layout { shape, stride }, Closure { params, body }, If { condition, then, other }, Block { lets, value }, Long(a),
    }
    struct Arg { name, value }
    enum Unary { Neg, Not }
    enum Binary { Add, Sub, Mul, Div, Rem, Lt, Le, Gt, Ge, Eq, Ne, And, Or, Xor, Shl, Shr }
}

impl Binary {
    /// Whether a comparison is true; `None` for other operators.
    pub fn compare<T: PartialOrd>(self, x: T, y: T) -> Option<bool> {
        Some(match self {
            Binary::Lt => x < y,
            Binary::Le => x <= y,
            Binary::Gt => x > y,
            Binary::Ge => x >= y,
            Binary::Eq => x == y,
            Binary::Ne => x != y,
            _ => return None,
        })
    }

    /// The result for integers that are known while compiling, with the rules of other integers: quotients are rounded down,
    /// remainders are never negative. `None` where there is no result in 64 bits.
    pub fn on_integers<T>(
        self,
        x: i64,
        y: i64,
        number: impl Fn(i64) -> T,
        flag: impl Fn(bool) -> T,
    ) -> Option<T> {
        Some(number(match self {
            Binary::Add => x.checked_add(y)?,
            Binary::Sub => x.checked_sub(y)?,
            Binary::Mul => x.checked_mul(y)?,
            Binary::Div | Binary::Rem if y < 1 => return None,
            Binary::Div => x.checked_div_euclid(y)?,
            Binary::Rem => x.checked_rem_euclid(y)?,
            Binary::And => x & y,
            Binary::Or => x | y,
            Binary::Xor => x ^ y,
            Binary::Shl => x.checked_mul(1i64.checked_shl(u32::try_from(y).ok()?)?)?,
            Binary::Shr => x.checked_shr(u32::try_from(y).ok()?)?,
            _ => return self.compare(x, y).map(flag),
        }))
    }

    /// The operator as it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Div => "/",
            Binary::Rem => "%",
            Binary::Lt => "<",
            Binary::Le => "<=",
            Binary::Gt => ">",
            Binary::Ge => ">=",
            Binary::Eq => "==",
            Binary::Ne => "!=",
            Binary::And => "&",
            Binary::Or => "|",
            Binary::Xor => "^",
            Binary::Shl => "<<",
            Binary::Shr => ">>",
        }
    }
}

/// A chain of operators, `a + b * c - d`, is a left-leaning tree whose nesting depth is its length. It is
/// split into links here, so that no function recurses on its length.
impl Expr {
    /// Is it `|x| …`?
    pub fn is_closure(&self) -> bool {
        matches!(self.kind, ExprKind::Closure { .. })
    }

    /// The first operand of a chain, and its links, the last first: the span of the result, the operator, the
    /// right side. No links if it is no chain.
    pub fn chain(&self) -> (&Expr, Vec<(Span, Binary, &Expr)>) {
        let (mut first, mut links) = (self, Vec::new());
        while let ExprKind::Binary(op, left, right) = &first.kind {
            links.push((first.span, *op, &**right));
            first = left;
        }
        (first, links)
    }

    fn linked(self, span: Span, op: Binary, right: Expr) -> Expr {
        Expr { span, kind: ExprKind::Binary(op, Box::new(self), Box::new(right)) }
    }
}

impl Clone for Expr {
    fn clone(&self) -> Expr {
        let (first, links) = self.chain();
        let start = Expr { span: first.span, kind: first.kind.clone() };
        links.into_iter().rev().fold(start, |left, (span, op, right)| left.linked(span, op, right.clone()))
    }
}

/// The variant of [`ExprKind::Binary`].
const BINARY: u8 = 13;

impl Wire for Expr {
    fn put(&self, to: &mut Vec<u8>) {
        let (first, links) = self.chain();
        for (span, op, _) in &links {
            span.put(to);
            to.push(BINARY);
            op.put(to);
        }
        first.span.put(to);
        first.kind.put(to);
        links.iter().rev().for_each(|(_, _, right)| right.put(to));
    }

    fn get(from: &mut Bytes<'_>) -> Option<Expr> {
        from.deeper(|from| {
            let mut links = Vec::new();
            let mut span = Span::get(from)?;
            while from.skip(BINARY) {
                links.push((span, Binary::get(from)?));
                span = Span::get(from)?;
            }
            if links.len() > LONGEST_CHAIN as usize {
                return None;
            }
            let mut left = Expr { span, kind: ExprKind::get(from)? };
            for (span, op) in links.into_iter().rev() {
                left = left.linked(span, op, Expr::get(from)?);
            }
            Some(left)
        })
    }
}
