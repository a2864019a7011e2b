//! Trees that the generator writes itself: constructors without spans.

use super::{Arg, Binary, Expr, ExprKind, Name, Pattern, Span, Stmt, StmtKind};

/// A name without a span.
pub fn named(text: &str) -> Name {
    Name { text: text.to_owned(), span: Span::default() }
}

fn made(kind: ExprKind) -> Expr {
    Expr { span: Span::default(), kind }
}

/// A name as a value; `_` is a hole.
impl From<&str> for Expr {
    fn from(text: &str) -> Expr {
        made(if text == "_" { ExprKind::Hole } else { ExprKind::Name(text.to_owned()) })
    }
}

impl From<bool> for Expr {
    fn from(value: bool) -> Expr {
        made(ExprKind::Bool(value))
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        made(ExprKind::Int(value))
    }
}

impl From<f64> for Expr {
    fn from(value: f64) -> Expr {
        made(ExprKind::Float(value))
    }
}

/// `(a, b)`
impl<const N: usize> From<[Expr; N]> for Expr {
    fn from(items: [Expr; N]) -> Expr {
        made(ExprKind::Tuple(items.into()))
    }
}

impl<const N: usize> From<[&str; N]> for Expr {
    fn from(items: [&str; N]) -> Expr {
        items.map(Expr::from).into()
    }
}

impl From<Vec<Expr>> for Expr {
    fn from(items: Vec<Expr>) -> Expr {
        made(ExprKind::Tuple(items))
    }
}

fn plain(args: impl IntoIterator<Item = Expr>) -> Vec<Arg> {
    args.into_iter().map(|value| Arg { name: None, value }).collect()
}

/// `"text"`
pub fn text(text: &str) -> Expr {
    made(ExprKind::Str(text.to_owned()))
}

/// `function::<types>(args)`
pub fn call(function: &str, types: &[&str], args: impl IntoIterator<Item = Expr>) -> Expr {
    let types = types.iter().map(|ty| named(ty)).collect();
    made(ExprKind::Call { function: named(function), types, args: plain(args) })
}

/// `left op right`
pub fn two(op: Binary, left: Expr, right: Expr) -> Expr {
    made(ExprKind::Binary(op, Box::new(left), Box::new(right)))
}

/// `if condition { then } else { other }`
pub fn choice(condition: Expr, then: Expr, other: Expr) -> Expr {
    let [condition, then, other] = [condition, then, other].map(Box::new);
    made(ExprKind::If { condition, then, other })
}

/// `|a, b| body`
pub fn closure(params: &[&str], body: Expr) -> Expr {
    let params = params.iter().map(|name| Pattern::Name(named(name))).collect();
    made(ExprKind::Closure { params, body: Box::new(body) })
}

impl Expr {
    /// A call with one more argument, by name.
    pub fn with(mut self, name: &str, value: impl Into<Expr>) -> Expr {
        if let ExprKind::Call { args, .. } = &mut self.kind {
            args.push(Arg { name: Some(named(name)), value: value.into() });
        }
        self
    }

    /// `self.method(args)`
    pub fn method(self, method: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
        made(ExprKind::Method { receiver: Box::new(self), method: named(method), args: plain(args) })
    }

    /// `self.field`
    pub fn field(self, field: &str) -> Expr {
        made(ExprKind::Field { base: Box::new(self), field: named(field) })
    }

    /// `self[index]`
    pub fn at(self, index: impl Into<Expr>) -> Expr {
        made(ExprKind::Index { base: Box::new(self), index: Box::new(index.into()) })
    }

    /// `self as elem`
    pub fn cast(self, elem: &str) -> Expr {
        made(ExprKind::Cast(Box::new(self), named(elem)))
    }

    /// `self..to`
    pub fn to(self, to: Expr) -> Expr {
        made(ExprKind::Range(Box::new(self), Box::new(to)))
    }

    /// `{ let name = value; self }`
    pub fn given(self, name: Pattern, value: Expr) -> Expr {
        made(ExprKind::Block { lets: vec![(name, value)], value: Box::new(self) })
    }

    /// `self;`
    pub fn stmt(self) -> Stmt {
        Stmt { span: Span::default(), kind: StmtKind::Expr(self) }
    }
}

/// `let name = value;`
pub fn bind(name: &str, value: Expr) -> Stmt {
    Stmt { span: Span::default(), kind: StmtKind::Let { pattern: Pattern::Name(named(name)), value } }
}

/// `name = value;`
pub fn assign(name: &str, value: Expr) -> Stmt {
    Stmt { span: Span::default(), kind: StmtKind::Assign { target: name.into(), op: None, value } }
}

/// `for name in range { … }`
pub fn repeat(name: &str, range: Expr, body: Vec<Stmt>) -> Stmt {
    let pattern = Pattern::Name(named(name));
    Stmt { span: Span::default(), kind: StmtKind::For { pattern, range, body } }
}
