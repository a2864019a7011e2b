//! The visitor of the author's tree: the parts of expressions and statements.

use std::collections::BTreeMap;

use super::{Expr, ExprKind, Kernel, Span, Stmt, StmtKind};

/// The direct subexpressions of an expression, borrowed in one way.
macro_rules! parts {
    ($kind:expr, $iter:ident, $as_deref:ident $(, $mut:tt)?) => {
        match $kind {
            ExprKind::Tuple(items) => items.$iter().collect(),
            ExprKind::Call { args, .. } => args.$iter().map(|arg| &$($mut)? arg.value).collect(),
            ExprKind::Method { receiver, args, .. } => {
                let args = args.$iter().map(|arg| &$($mut)? arg.value);
                [&$($mut)? **receiver].into_iter().chain(args).collect()
            }
            ExprKind::Field { base: inner, .. }
            | ExprKind::Unary(_, inner)
            | ExprKind::Cast(inner, _)
            | ExprKind::Closure { body: inner, .. } => vec![inner],
            ExprKind::Index { base: a, index: b } | ExprKind::Binary(_, a, b) | ExprKind::Range(a, b) => {
                vec![a, b]
            }
            ExprKind::Layout { shape, stride } => {
                [Some(&$($mut)? **shape), stride.$as_deref()].into_iter().flatten().collect()
            }
            ExprKind::If { condition, then, other } => vec![condition, then, other],
            ExprKind::Block { lets, value } => {
                lets.$iter().map(|(_, of)| of).chain([&$($mut)? **value]).collect()
            }
            _ => Vec::new(),
        }
    };
}

impl Expr {
    /// Its direct subexpressions.
    pub fn inside(&self) -> Vec<&Expr> {
        parts!(&self.kind, iter, as_deref)
    }

    /// Its direct subexpressions, to change them.
    pub fn inside_mut(&mut self) -> Vec<&mut Expr> {
        parts!(&mut self.kind, iter_mut, as_deref_mut, mut)
    }
}

impl Kernel {
    /// Gives each statement a span of its own, from 1 on, which its expressions share. For a function without an author's text.
    pub fn number_statements(&mut self) {
        let mut left: Vec<&mut Stmt> = self.body.iter_mut().collect();
        let mut last = 0;
        while let Some(stmt) = left.pop() {
            last += 1;
            stmt.span = Span(last);
            let mut inside: Vec<&mut Expr> = Vec::new();
            match &mut stmt.kind {
                StmtKind::Let { value, .. } | StmtKind::Expr(value) => inside.push(value),
                StmtKind::Assign { target, value, .. } => inside.extend([target, value]),
                StmtKind::For { range: head, body, .. }
                | StmtKind::While { condition: head, body }
                | StmtKind::Block { head, body } => {
                    inside.push(head);
                    left.extend(body);
                }
                StmtKind::If { condition, then, other } => {
                    inside.push(condition);
                    left.extend(then.iter_mut().chain(other));
                }
                StmtKind::Break => {}
            }
            while let Some(expr) = inside.pop() {
                expr.span = Span(last);
                inside.extend(expr.inside_mut());
            }
        }
    }
}

impl Expr {
    /// The names that it mentions, functions' names included, and how often each is used as a value.
    pub fn names(&self) -> BTreeMap<&str, usize> {
        let (mut all, mut left) = (BTreeMap::new(), vec![self]);
        while let Some(expr) = left.pop() {
            match &expr.kind {
                ExprKind::Name(name) => *all.entry(&**name).or_default() += 1,
                ExprKind::Call { function, .. } => drop(all.entry(&function.text).or_default()),
                _ => {}
            }
            left.extend(expr.inside());
        }
        all
    }
}

impl Expr {
    /// The span of a call of this function.
    pub fn calls(&self, name: &str) -> Option<Span> {
        let mut left = vec![self];
        while let Some(expr) = left.pop() {
            match &expr.kind {
                ExprKind::Call { function, .. } if function.text == name => return Some(function.span),
                _ => left.extend(expr.inside()),
            }
        }
        None
    }
}

impl Stmt {
    /// The span of a call of this function, in it or in its substatements.
    pub fn calls(&self, name: &str) -> Option<Span> {
        let own = self.exprs().into_iter().find_map(|expr| expr.calls(name));
        own.or_else(|| self.stmts().into_iter().find_map(|stmt| stmt.calls(name)))
    }

    /// Its direct subexpressions.
    pub fn exprs(&self) -> Vec<&Expr> {
        match &self.kind {
            StmtKind::Let { value: one, .. }
            | StmtKind::For { range: one, .. }
            | StmtKind::If { condition: one, .. }
            | StmtKind::While { condition: one, .. }
            | StmtKind::Block { head: one, .. }
            | StmtKind::Expr(one) => vec![one],
            StmtKind::Assign { target, value, .. } => vec![target, value],
            StmtKind::Break => Vec::new(),
        }
    }

    /// Its direct substatements.
    pub fn stmts(&self) -> Vec<&Stmt> {
        match &self.kind {
            StmtKind::For { body, .. } | StmtKind::While { body, .. } | StmtKind::Block { body, .. } => {
                body.iter().collect()
            }
            StmtKind::If { then, other, .. } => then.iter().chain(other).collect(),
            _ => Vec::new(),
        }
    }
}
