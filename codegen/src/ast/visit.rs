//! The visitor of the author's tree: what expressions and statements contain, and how deep they nest.

use super::{Device, Expr, ExprKind, Kernel, ParamKind, Span, Stmt, StmtKind};

impl Expr {
    /// Its direct subexpressions.
    pub(crate) fn inside(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Tuple(items) => items.iter().collect(),
            ExprKind::Call { args, .. } => args.iter().map(|arg| &arg.value).collect(),
            ExprKind::Method { receiver, args, .. } => {
                [&**receiver].into_iter().chain(args.iter().map(|arg| &arg.value)).collect()
            }
            ExprKind::Field { base: inner, .. }
            | ExprKind::Unary(_, inner)
            | ExprKind::Cast(inner, _)
            | ExprKind::Closure { body: inner, .. } => vec![inner],
            ExprKind::Index { base: a, index: b } | ExprKind::Binary(_, a, b) | ExprKind::Range(a, b) => {
                vec![a, b]
            }
            ExprKind::Layout { shape, stride } => {
                [Some(&**shape), stride.as_deref()].into_iter().flatten().collect()
            }
            ExprKind::If { condition, then, other } => vec![condition, then, other],
            ExprKind::Block { lets, value } => lets.iter().map(|(_, of)| of).chain([&**value]).collect(),
            _ => Vec::new(),
        }
    }
}

impl Expr {
    /// How often does it mention this name, at most `most` times?
    pub(crate) fn uses(&self, name: &str, most: usize) -> usize {
        let (mut count, mut left) = (0, vec![self]);
        while let (Some(expr), true) = (left.pop(), count < most) {
            count += usize::from(matches!(&expr.kind, ExprKind::Name(known) if known == name));
            left.extend(expr.inside());
        }
        count
    }

    /// Does it mention this name, be it that of a value or of a function?
    pub(crate) fn mentions(&self, name: &str) -> bool {
        let mut left = vec![self];
        while let Some(expr) = left.pop() {
            let own = match &expr.kind {
                ExprKind::Name(known) => known == name,
                ExprKind::Call { function, .. } => function.text == name,
                _ => false,
            };
            if own {
                return true;
            }
            left.extend(expr.inside());
        }
        false
    }
}

impl Expr {
    /// The place of a call of this function.
    pub(crate) fn calls(&self, name: &str) -> Option<Span> {
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

impl Kernel {
    /// The expressions outside of its body: defaults of constants, extents and strides, functions.
    pub(crate) fn sizes(&self) -> Vec<&Expr> {
        let defaults = self.consts.iter().filter_map(|constant| constant.default.as_ref());
        let shapes = self.params.iter().flat_map(|param| match &param.kind {
            ParamKind::Tensor { shape, stride, .. } => [Some(shape), stride.as_ref()],
            ParamKind::Scalar => [None, None],
        });
        let functions = self.devices.iter().flat_map(Device::bodies);
        defaults.chain(shapes.flatten()).chain(functions).collect()
    }
}

impl Device {
    /// Its value, and those of the functions that it uses.
    pub(crate) fn bodies(&self) -> Vec<&Expr> {
        [&self.body].into_iter().chain(self.devices.iter().flat_map(Device::bodies)).collect()
    }
}

impl Stmt {
    /// Its direct subexpressions.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match &self.kind {
            StmtKind::Let { value: one, .. }
            | StmtKind::For { range: one, .. }
            | StmtKind::If { condition: one, .. }
            | StmtKind::Block { head: one, .. }
            | StmtKind::Expr(one) => vec![one],
            StmtKind::Assign { target, value, .. } => vec![target, value],
        }
    }

    /// Its direct substatements.
    pub(crate) fn stmts(&self) -> Vec<&Stmt> {
        match &self.kind {
            StmtKind::For { body, .. } | StmtKind::Block { body, .. } => body.iter().collect(),
            StmtKind::If { then, other, .. } => then.iter().chain(other).collect(),
            _ => Vec::new(),
        }
    }
}

/// Do statements and expressions nest deeper than this? Computed without recursion.
pub(crate) fn is_deeper(stmts: &[Stmt], exprs: &[&Expr], than: u32) -> bool {
    let mut exprs: Vec<(&Expr, u32)> = exprs.iter().map(|expr| (*expr, 1)).collect();
    let mut stmts: Vec<(&Stmt, u32)> = stmts.iter().map(|stmt| (stmt, 1)).collect();
    while let Some((stmt, depth)) = stmts.pop() {
        exprs.extend(stmt.exprs().into_iter().map(|expr| (expr, depth + 1)));
        stmts.extend(stmt.stmts().into_iter().map(|inner| (inner, depth + 1)));
        if depth > than {
            return true;
        }
    }
    while let Some((expr, depth)) = exprs.pop() {
        if depth > than {
            return true;
        }
        exprs.extend(expr.inside().into_iter().map(|inner| (inner, depth + 1)));
    }
    false
}
