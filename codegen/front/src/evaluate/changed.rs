//! The names of a kernel that stand for changed elements. `let b = a` gives a tile in registers a second name. If one of
//! the names changes the tile and the other is still used, `let` copies it, as in Rust. A slice that is changed by its name
//! is a part of its tile.

use std::collections::{BTreeMap, BTreeSet};

use super::Evaluator;
use super::value::Value;
use crate::source::ast::{Device, DeviceType, Expr, ExprKind, Pattern, Span, Stmt, StmtKind};
use crate::source::problem::Problem;
use crate::tile;
use crate::tile::view::View;

/// Names in the body of a kernel. One name that is bound twice counts as one.
#[derive(Default)]
pub(super) struct Changes {
    changed: BTreeSet<String>,
    mentions: BTreeMap<String, u32>,
    /// The names that change while the names of a `let` or of a loop are in scope, by the span of its value or range.
    later: BTreeMap<Span, BTreeSet<String>>,
}

impl Changes {
    /// Of a body with a value. Calls change arguments that the functions take as `&mut View`.
    pub(super) fn of(body: &[Stmt], value: Option<&Expr>, devices: &[Device]) -> Changes {
        let mut names = Changes::default();
        let after = value.map(|value| names.within(value, devices)).unwrap_or_default();
        names.changed = names.block(body, after, devices);
        names
    }

    /// The names that statements change, and those that change after them.
    fn block(&mut self, body: &[Stmt], mut after: BTreeSet<String>, devices: &[Device]) -> BTreeSet<String> {
        for stmt in body.iter().rev() {
            match &stmt.kind {
                StmtKind::Let { value, .. } => self.bound(value, &after),
                StmtKind::Assign { target, .. } => after.extend(targets(target)),
                StmtKind::For { range, body, .. } => {
                    let inside = self.block(body, BTreeSet::new(), devices);
                    self.bound(range, &inside);
                    after.extend(inside);
                }
                StmtKind::If { then, other, .. } => {
                    after.extend(self.block(then, BTreeSet::new(), devices));
                    after.extend(self.block(other, BTreeSet::new(), devices));
                }
                StmtKind::While { body, .. } | StmtKind::Block { body, .. } => {
                    after.extend(self.block(body, BTreeSet::new(), devices));
                }
                StmtKind::Break | StmtKind::Expr(_) => {}
            }
            for expr in stmt.exprs() {
                after.extend(self.within(expr, devices));
            }
        }
        after
    }

    /// The names that an expression changes. Those that it mentions are counted.
    fn within(&mut self, expr: &Expr, devices: &[Device]) -> BTreeSet<String> {
        let (mut changed, mut exprs) = (BTreeSet::new(), vec![expr]);
        while let Some(expr) = exprs.pop() {
            if let ExprKind::Name(name) = &expr.kind {
                *self.mentions.entry(name.clone()).or_default() += 1;
            }
            changed.extend(written(expr, devices).into_iter().flat_map(targets));
            exprs.extend(expr.inside());
        }
        changed
    }

    /// Names are bound to this value, and these names change later.
    fn bound(&mut self, value: &Expr, later: &BTreeSet<String>) {
        self.later.entry(value.span).or_default().extend(later.iter().cloned());
        if let ExprKind::Tuple(items) = &value.kind {
            items.iter().for_each(|item| self.bound(item, later));
        }
    }

    /// The names that change after names have been bound to the value with this span.
    fn after(&self, value: Span) -> &BTreeSet<String> {
        self.later.get(&value).unwrap_or(&self.changed)
    }

    /// Do the elements of this name change?
    pub(super) fn changes(&self, name: &str) -> bool {
        self.changed.contains(name)
    }
}

/// The names whose elements change with this target.
fn targets(target: &Expr) -> Vec<String> {
    match &target.kind {
        ExprKind::Tuple(all) => all.iter().flat_map(targets).collect(),
        _ => root(target).map(str::to_owned).into_iter().collect(),
    }
}

/// The name of the tile, or of the tuple, that a target belongs to.
fn root(target: &Expr) -> Option<&str> {
    match &target.kind {
        ExprKind::Name(name) => Some(name),
        ExprKind::Field { base, .. } | ExprKind::Index { base, .. } => root(base),
        _ => None,
    }
}

/// The places among an argument that a parameter of this type changes.
fn changed_by<'e>(arg: &'e Expr, ty: &DeviceType) -> Vec<&'e Expr> {
    match (ty, &arg.kind) {
        (DeviceType::Tuple(types), ExprKind::Tuple(items)) => {
            items.iter().zip(types).flat_map(|(item, ty)| changed_by(item, ty)).collect()
        }
        (ty, _) if ty.is_changed() => vec![arg],
        _ => Vec::new(),
    }
}

/// The places that a call writes.
fn written<'e>(call: &'e Expr, devices: &[Device]) -> Vec<&'e Expr> {
    let ExprKind::Call { function, args, .. } = &call.kind else { return Vec::new() };
    if let Some(device) = devices.iter().find(|device| device.name.text == function.text) {
        let args = args.iter().zip(&device.params);
        return args.flat_map(|(arg, param)| changed_by(&arg.value, &param.ty)).collect();
    }
    let mut all: Vec<&Expr> = args.iter().filter(|arg| arg.is("carry")).map(|arg| &arg.value).collect();
    let plain: Vec<&Expr> = args.iter().filter(|arg| arg.name.is_none()).map(|arg| &arg.value).collect();
    all.extend(match &*function.text {
        "fill" => plain.first(),
        "copy" | "scatter" | "map" => plain.get(1),
        "gemm" => plain.get(2),
        _ => None,
    });
    all
}

impl Evaluator {
    /// The value of a `let`: tiles in registers that have a name already are copied if one of the two changes.
    pub(super) fn own_elements(&mut self, pattern: &Pattern, from: &Expr, value: Value) -> Value {
        match (&from.kind, value) {
            (ExprKind::Tuple(items), Value::Tuple(values)) => {
                let parts = match pattern {
                    Pattern::Tuple(_, parts) if parts.len() == items.len() => Some(parts),
                    _ => None,
                };
                let all = items.iter().zip(values).enumerate().map(|(at, (item, value))| {
                    self.own_elements(parts.map_or(pattern, |parts| &parts[at]), item, value)
                });
                Value::Tuple(all.collect())
            }
            (ExprKind::Index { .. }, value) => self.separate(pattern, value, true, from.span),
            (
                ExprKind::Name(_) | ExprKind::Field { .. } | ExprKind::If { .. } | ExprKind::Block { .. },
                value,
            ) => self.separate(pattern, value, false, from.span),
            // Functions of the language have their results in new registers, or view the elements of an argument in another way.
            (ExprKind::Call { function, .. }, value) if self.is_defined(&function.text) => {
                self.separate(pattern, value, true, from.span)
            }
            (_, value) => value,
        }
    }

    /// A closure or a shared function of this name.
    fn is_defined(&self, name: &str) -> bool {
        self.entry_of(name).is_some() || self.home.devices.iter().any(|device| device.name.text == name)
    }

    /// A value for the names of a pattern. Slices that are changed by these names are parts of their tiles.
    pub(super) fn separate(&mut self, pattern: &Pattern, value: Value, slices: bool, span: Span) -> Value {
        match value {
            Value::Tuple(all) => {
                let all = all.into_iter().map(|value| self.separate(pattern, value, slices, span));
                Value::Tuple(all.collect())
            }
            Value::View(view) if self.is_shared(&view, &names(pattern), slices, span) => {
                match self.second(&view) {
                    Ok(copy) => Value::View(copy.unwrap_or(view)),
                    Err(problem) => self.complain(span, problem),
                }
            }
            value => value,
        }
    }

    /// Do these elements change by one name, and are they used by another? The other mention of the known name is that in the `let`.
    fn is_shared(&self, view: &View, names: &[&str], slices: bool, span: Span) -> bool {
        let owns = |(_, value): &&(String, Value)| value.has_elements_of(view);
        let known: Vec<&(String, Value)> = self.scope.iter().filter(owns).collect();
        let changed = self.changes.after(span);
        let changes = names.iter().any(|name| changed.contains(*name));
        let is_whole =
            |item: &Value| matches!(item, Value::View(own) if own.clone().with_name(&view.name) == *view);
        let is_slice = slices
            && view.layout.size() != Ok(1)
            && !known.iter().any(|(_, value)| value.items().into_iter().any(is_whole));
        let is_used = |name: &str| self.changes.mentions.get(name).is_some_and(|count| *count > 1);
        let elsewhere = || {
            known.iter().any(|(name, _)| is_used(name)) || self.callers.iter().flatten().any(|one| owns(&one))
        };
        !(is_slice && changes)
            && (known.iter().any(|(name, _)| changed.contains(name)) || changes && elsewhere())
    }

    /// A copy of elements in registers, unless these are packed operands of an instruction.
    fn second(&mut self, of: &View) -> Result<Option<View>, Problem> {
        if self.builder.space(of) != (tile::Space::Registers { words: false }) {
            return Ok(None);
        }
        let elem = self.builder.elem(of);
        let copy = self.room_for(&of.name, elem, std::slice::from_ref(of))?;
        self.builder.map(std::slice::from_ref(of), &copy, tile::Expr::In(0))?;
        Ok(Some(copy))
    }
}

/// The names that a pattern binds.
pub(super) fn names(pattern: &Pattern) -> Vec<&str> {
    match pattern {
        Pattern::Name(name) => vec![&name.text],
        Pattern::Hole(_) => Vec::new(),
        Pattern::Tuple(_, all) => all.iter().flat_map(names).collect(),
    }
}
