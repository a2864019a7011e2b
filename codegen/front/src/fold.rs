//! Folds a function: the text that is left when constants, element types and optional arguments are given. Conditions on them are decided,
//! named closures are inlined, and absent values disappear. It does not know what functions of the language do.

use crate::source::ast::{
    Arg, Binary, ConstParam, Expr, ExprKind, Kernel, Name, Param, ParamKind, Pattern, Span, Stmt, StmtKind,
};
use crate::values::elem::Elem;

/// What is given of a function.
#[derive(Default)]
pub(crate) struct Given {
    /// Values of constants, and names of types, which the text then has instead.
    pub(crate) values: Vec<(&'static str, Expr)>,
    /// The constants that the function still has. Their names have the spans of their values.
    pub(crate) constants: Vec<ConstParam>,
    /// Other names of arguments and variables.
    pub(crate) renamed: Vec<(&'static str, &'static str)>,
}

/// A closure: its parameters, its body, and the number of names in the scope where it is defined.
type Closure = (Vec<Pattern>, Expr, usize);

/// What a name stands for.
#[derive(Clone)]
enum Known {
    /// Itself.
    Name,
    /// An expression. An optional value is a list of at most one.
    Value(Expr),
    Closure(Closure),
}

/// The function that is left. Constants that are not given have their defaults.
pub(crate) fn fold(function: Kernel, given: Given) -> Kernel {
    let mut folder = Folder { scope: Vec::new(), renamed: given.renamed };
    let (closures, others): (Vec<_>, Vec<_>) = function.consts.into_iter().partition(ConstParam::is_function);
    for (name, value) in given.values {
        folder.bind(name, Known::Value(value));
    }
    for ConstParam { name, default } in &given.constants {
        let span = default.as_ref().map_or(Span::default(), |value| value.span);
        folder.bind(&name.text, Known::Value(Expr { kind: ExprKind::Name(name.text.clone()), span }));
    }
    for ConstParam { name, default } in others.into_iter().chain(closures) {
        if folder.known(&name.text).is_none() {
            let known = match default {
                Some(Expr { kind: ExprKind::Closure { params, body }, .. }) => {
                    Known::Closure((params, *body, folder.scope.len()))
                }
                Some(value) => Known::Value(value),
                None => Known::Name,
            };
            folder.bind(&name.text, known);
        }
    }
    let params = function.params.into_iter().filter_map(|param| folder.param(param)).collect();
    let body = folder.stmts(function.body);
    Kernel { consts: given.constants, types: Vec::new(), params, body, ..function }
}

fn bare(kind: ExprKind) -> Expr {
    Expr { span: Span::default(), kind }
}

/// An optional value.
fn optional(value: Option<ExprKind>) -> Known {
    Known::Value(bare(ExprKind::Tuple(value.into_iter().map(bare).collect())))
}

struct Folder {
    /// Names, innermost last.
    scope: Vec<(String, Known)>,
    renamed: Vec<(&'static str, &'static str)>,
}

impl Folder {
    fn known(&self, name: &str) -> Option<&Known> {
        self.scope.iter().rfind(|(known, _)| known == name).map(|(_, known)| known)
    }

    fn bind(&mut self, name: &str, known: Known) {
        self.scope.push((name.to_owned(), known));
    }

    /// Folds something in a scope of its own.
    fn inside<T>(&mut self, fold: impl FnOnce(&mut Self) -> T) -> T {
        let depth = self.scope.len();
        let folded = fold(self);
        self.scope.truncate(depth);
        folded
    }

    fn rename(&self, name: &mut Name) {
        if let Some((_, to)) = self.renamed.iter().find(|(from, _)| *from == name.text) {
            name.text = (*to).to_owned();
        }
    }

    /// The name of an element type.
    fn elem(&self, name: &mut Name) {
        if let Some(Known::Value(Expr { kind: ExprKind::Name(elem), .. })) = self.known(&name.text) {
            name.text.clone_from(elem);
        }
    }

    /// An argument, unless it is optional and absent.
    fn param(&mut self, mut param: Param) -> Option<Param> {
        let name = param.name.text.clone();
        self.rename(&mut param.name);
        if let Some(list) = param.list.take().map(|list| self.expr(list)) {
            let is_there = list.kind != ExprKind::Int(0);
            self.bind(&name, optional(is_there.then(|| ExprKind::Name(param.name.text.clone()))));
            if !is_there {
                return None;
            }
        }
        self.elem(&mut param.elem);
        if let ParamKind::Tensor { shape, stride, .. } = &mut param.kind {
            self.replace(shape);
            stride.iter_mut().for_each(|stride| self.replace(stride));
        }
        Some(Param { optional: false, ..param })
    }

    fn stmts(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        stmts.into_iter().flat_map(|stmt| self.stmt(stmt)).collect()
    }

    /// Statements with a scope of their own.
    fn block(&mut self, stmts: &mut Vec<Stmt>) {
        let all = std::mem::take(stmts);
        *stmts = self.inside(|folder| folder.stmts(all));
    }

    fn stmt(&mut self, mut stmt: Stmt) -> Vec<Stmt> {
        match &mut stmt.kind {
            StmtKind::Let { pattern, value } => {
                if !self.binds(pattern, value) {
                    return Vec::new();
                }
            }
            StmtKind::Assign { target: one, value: other, .. } => {
                self.replace(one);
                self.replace(other);
            }
            StmtKind::Expr(one) => self.replace(one),
            StmtKind::For { range, body, pattern } => {
                self.replace(range);
                self.inside(|folder| {
                    folder.own(pattern);
                    folder.block(body);
                });
            }
            StmtKind::If { condition, then, other } => {
                self.replace(condition);
                let decided = match condition.kind {
                    ExprKind::Bool(true) => Some(then),
                    ExprKind::Bool(false) => Some(other),
                    _ => {
                        self.block(then);
                        self.block(other);
                        None
                    }
                };
                if let Some(block) = decided {
                    self.block(block);
                    return std::mem::take(block);
                }
            }
            StmtKind::While { .. } | StmtKind::Block { .. } | StmtKind::Break => {}
        }
        vec![stmt]
    }

    /// The names of a pattern stand for themselves.
    fn own(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Name(name) => self.bind(&name.text, Known::Name),
            Pattern::Hole(_) => {}
            Pattern::Tuple(_, all) => all.iter().for_each(|pattern| self.own(pattern)),
        }
    }

    /// Folds a `let`, which is not left if its names stand for short values.
    fn binds(&mut self, pattern: &mut Pattern, value: &mut Expr) -> bool {
        if let (Pattern::Name(name), ExprKind::Closure { params, body }) = (&*pattern, &value.kind) {
            // A closure that is folded may call itself.
            let closure = (params.clone(), (**body).clone(), self.scope.len() + 1);
            self.bind(&name.text, Known::Closure(closure));
            return false;
        }
        self.replace(value);
        if let Pattern::Name(name) = pattern
            && is_short(value)
        {
            self.bind(&name.text, Known::Value(value.clone()));
            return false;
        }
        match (&mut *pattern, &mut value.kind) {
            (Pattern::Tuple(_, names), ExprKind::Tuple(items))
                if names.len() == items.len() && items.iter().all(is_short) =>
            {
                for (name, item) in names.iter().zip(items) {
                    if let Pattern::Name(name) = name {
                        self.bind(&name.text, Known::Value(item.clone()));
                    }
                }
                return false;
            }
            // An optional value.
            (Pattern::Name(name), ExprKind::Tuple(items)) if items.len() == 1 => {
                let text = name.text.clone();
                self.rename(name);
                self.bind(&text, optional(Some(ExprKind::Name(name.text.clone()))));
                *value = items.remove(0);
            }
            // Errors about the name are about its value.
            (Pattern::Name(name), _) => {
                let kind = ExprKind::Name(name.text.clone());
                self.bind(&name.text, Known::Value(Expr { kind, span: value.span }));
            }
            _ => self.own(pattern),
        }
        true
    }

    fn replace(&mut self, of: &mut Expr) {
        let whole = std::mem::replace(of, bare(ExprKind::Hole));
        *of = self.expr(whole);
    }

    fn expr(&mut self, mut of: Expr) -> Expr {
        if let Some((params, body, _)) = self.closure(&of) {
            return self.literal(params, &[], body);
        }
        match &mut of.kind {
            ExprKind::Name(name) => {
                if let Some(Known::Value(value)) = self.known(name) {
                    return value.clone();
                }
            }
            ExprKind::Call { function, types, args } => {
                types.iter_mut().for_each(|name| self.elem(name));
                if let Some(Known::Closure(closure)) = self.known(&function.text).cloned() {
                    let passed = |Arg { value, .. }| match self.closure(&value) {
                        Some(closure) => Known::Closure(closure),
                        None => Known::Value(self.expr(value)),
                    };
                    let args = args.drain(..).map(passed).collect();
                    return self.inlined(closure, args);
                }
                self.args(args);
            }
            ExprKind::If { condition, then, other } => {
                self.replace(condition);
                let branch = match condition.kind {
                    ExprKind::Bool(true) => then,
                    ExprKind::Bool(false) => other,
                    _ => {
                        self.replace(then);
                        self.replace(other);
                        return of;
                    }
                };
                let branch = std::mem::replace(&mut **branch, bare(ExprKind::Hole));
                return self.expr(branch);
            }
            ExprKind::Block { lets, value } => {
                self.inside(|folder| {
                    lets.retain_mut(|(pattern, of)| folder.binds(pattern, of));
                    folder.replace(value);
                });
                if lets.is_empty() {
                    return std::mem::replace(&mut **value, bare(ExprKind::Hole));
                }
            }
            ExprKind::Cast(_, to) => {
                self.elem(to);
                of.inside_mut().into_iter().for_each(|part| self.replace(part));
            }
            _ => of.inside_mut().into_iter().for_each(|part| self.replace(part)),
        }
        let inside = of.inside().into_iter().map(|part| part.span).find(|span| *span != Span::default());
        of.span = inside.filter(|_| of.span == Span::default()).unwrap_or(of.span);
        of.kind = evaluated(of.kind);
        of
    }

    /// The arguments of a call. An entry of the first one that is absent has no parameter in a closure.
    fn args(&mut self, args: &mut Vec<Arg>) {
        let mut lists = Vec::new();
        for (at, arg) in args.iter_mut().enumerate() {
            let value = std::mem::replace(&mut arg.value, bare(ExprKind::Hole));
            arg.value = match self.closure(&value) {
                Some((params, body, _)) => self.literal(params, &lists, body),
                None => self.expr(value),
            };
            if let (0, ExprKind::Tuple(items)) = (at, &mut arg.value.kind) {
                lists = items.iter().map(list).collect();
                if lists.iter().any(Option::is_some) {
                    *items = items.drain(..).flat_map(entries).collect();
                }
                if let ([item], true) = (&items[..], lists.len() > 1) {
                    arg.value = item.clone();
                }
            }
        }
        args.retain(|arg| list(&arg.value) != Some(0));
    }

    /// The closure that an expression is or names.
    fn closure(&self, of: &Expr) -> Option<Closure> {
        match &of.kind {
            ExprKind::Closure { params, body } => Some((params.clone(), (**body).clone(), self.scope.len())),
            ExprKind::Name(name) => match self.known(name)? {
                Known::Closure(closure) => Some(closure.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// A closure. Some parameters are lists of at most one value.
    fn literal(&mut self, params: Vec<Pattern>, lists: &[Option<usize>], body: Expr) -> Expr {
        self.inside(|folder| {
            let mut lists = if lists.len() == params.len() { lists } else { &[] }.iter();
            let mut left = Vec::new();
            for param in params {
                let len = lists.next().copied().flatten();
                match (&param, len) {
                    (Pattern::Name(name), Some(len)) => {
                        let item = ExprKind::Name(name.text.clone());
                        folder.bind(&name.text, optional((len > 0).then_some(item)));
                    }
                    _ => folder.own(&param),
                }
                left.extend((len != Some(0)).then_some(param));
            }
            let body = Box::new(folder.expr(body));
            bare(ExprKind::Closure { params: left, body })
        })
    }

    /// The value of a closure that is called by its name.
    fn inlined(&mut self, (params, body, depth): Closure, args: Vec<Known>) -> Expr {
        let outer = self.scope.split_off(depth);
        for (param, arg) in params.into_iter().zip(args) {
            if let Pattern::Name(name) = param {
                self.bind(&name.text, arg);
            }
        }
        let value = self.expr(body);
        self.scope.truncate(depth);
        self.scope.extend(outer);
        value
    }
}

/// The length of a list of at most one value.
fn list(of: &Expr) -> Option<usize> {
    match &of.kind {
        ExprKind::Tuple(items) if items.len() < 2 => Some(items.len()),
        _ => None,
    }
}

/// The entries of such a list; any other value is an entry.
fn entries(of: Expr) -> Vec<Expr> {
    match of.kind {
        ExprKind::Tuple(items) if items.len() < 2 => items,
        kind => vec![Expr { kind, ..of }],
    }
}

/// Is a name for it no shorter?
fn is_short(of: &Expr) -> bool {
    match &of.kind {
        ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Str(_) | ExprKind::Name(_) => true,
        ExprKind::Field { base, .. } => matches!(base.kind, ExprKind::Name(_)),
        ExprKind::Tuple(items) => items.len() < 2 && items.iter().all(is_short),
        _ => false,
    }
}

/// The result of an operation on constants. An integer as a number of a type is a literal of the type.
fn evaluated(kind: ExprKind) -> ExprKind {
    match &kind {
        ExprKind::Binary(op, left, right) => match (op, &left.kind, &right.kind) {
            (op, ExprKind::Int(x), ExprKind::Int(y)) => {
                op.on_integers(*x, *y, ExprKind::Int, ExprKind::Bool).unwrap_or(kind)
            }
            (Binary::Eq, x, y) if are_literals(x, y) => ExprKind::Bool(x == y),
            (Binary::Ne, x, y) if are_literals(x, y) => ExprKind::Bool(x != y),
            (Binary::And, ExprKind::Bool(x), ExprKind::Bool(y)) => ExprKind::Bool(*x && *y),
            (Binary::Or, ExprKind::Bool(x), ExprKind::Bool(y)) => ExprKind::Bool(*x || *y),
            _ => kind,
        },
        ExprKind::Cast(inner, to) => match (&inner.kind, Elem::named(&to.text)) {
            (ExprKind::Int(n), Some(elem)) if elem.is_float() => ExprKind::Float(*n as f64),
            (ExprKind::Int(n), Some(_)) => ExprKind::Int(*n),
            _ => kind,
        },
        ExprKind::Method { receiver, method, .. } if method.text == "is_some" => match list(receiver) {
            Some(len) => ExprKind::Bool(len == 1),
            None => kind,
        },
        ExprKind::Index { base, index } => match (&base.kind, &index.kind) {
            (ExprKind::Tuple(items), ExprKind::Int(0)) if items.len() == 1 => items[0].kind.clone(),
            _ => kind,
        },
        _ => kind,
    }
}

/// Are both texts, or element types?
fn are_literals(x: &ExprKind, y: &ExprKind) -> bool {
    let is_elem = |name: &str| Elem::named(name).is_some();
    match (x, y) {
        (ExprKind::Name(x), ExprKind::Name(y)) => is_elem(x) && is_elem(y),
        (ExprKind::Str(_), ExprKind::Str(_)) => true,
        _ => false,
    }
}
