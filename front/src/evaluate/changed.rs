//! The names of a kernel that stand for changed elements. `let b = a` gives a tile in registers a second name. If one of
//! the names changes the tile and the other is still used, `let` copies it, as in Rust. A slice that is changed by its name
//! is a part of its tile.

use std::collections::{BTreeMap, BTreeSet};

use super::Evaluator;
use super::value::Value;
use crate::source::ast::{Arg, Device, DeviceType, Expr, ExprKind, Pattern, Stmt, StmtKind};
use crate::source::problem::Problem;
use crate::tile;
use crate::tile::view::View;

/// Names in the body of a kernel. One name that is bound twice counts as one.
#[derive(Default)]
pub(super) struct Changes {
    changed: BTreeSet<String>,
    mentions: BTreeMap<String, u32>,
}

impl Changes {
    /// Of a body with a value. Calls change arguments that the functions take as `&mut View`.
    pub(super) fn of(body: &[Stmt], value: Option<&Expr>, devices: &[Device]) -> Changes {
        let mut names = Changes::default();
        let mut stmts: Vec<&Stmt> = body.iter().collect();
        let mut exprs: Vec<&Expr> = value.into_iter().collect();
        while let Some(stmt) = stmts.pop() {
            if let StmtKind::Assign { target, .. } = &stmt.kind {
                names.change(target);
            }
            stmts.extend(stmt.stmts());
            exprs.extend(stmt.exprs());
        }
        while let Some(expr) = exprs.pop() {
            if let ExprKind::Name(name) = &expr.kind {
                *names.mentions.entry(name.clone()).or_default() += 1;
            }
            written(expr, devices).into_iter().for_each(|target| names.change(target));
            exprs.extend(expr.inside());
        }
        names
    }

    /// The elements of this target change.
    fn change(&mut self, target: &Expr) {
        match &target.kind {
            ExprKind::Tuple(all) => all.iter().for_each(|one| self.change(one)),
            _ => self.changed.extend(root(target).map(str::to_owned)),
        }
    }

    /// Do the elements of this name change?
    pub(super) fn changes(&self, name: &str) -> bool {
        self.changed.contains(name)
    }

    /// Do the elements of any of these names change?
    fn any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.changes(name))
    }

    /// Are the elements of `source` to be copied for other names? Its other mention is that in the `let`.
    fn part(&self, source: &str, names: &[&str]) -> bool {
        self.any(&[source]) || self.mentions.get(source).is_some_and(|count| *count > 1) && self.any(names)
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

/// The places that a call writes.
fn written<'e>(call: &'e Expr, devices: &[Device]) -> Vec<&'e Expr> {
    let ExprKind::Call { function, args, .. } = &call.kind else { return Vec::new() };
    if let Some(device) = devices.iter().find(|device| device.name.text == function.text) {
        let is_changed = |ty: &DeviceType| matches!(ty, DeviceType::Tile { mutable: true });
        let args = args.iter().zip(&device.params).filter(|(_, param)| is_changed(&param.ty));
        return args.map(|(arg, _)| &arg.value).collect();
    }
    let named = |arg: &&Arg| arg.name.as_ref().is_some_and(|name| name.text == "carry");
    let mut all: Vec<&Expr> = args.iter().filter(named).map(|arg| &arg.value).collect();
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
        let (ExprKind::Name(_) | ExprKind::Field { .. } | ExprKind::Index { .. }) = &from.kind else {
            return value;
        };
        let Some(source) = root(from) else { return value };
        let names = names(pattern);
        let is_slice = match (&from.kind, &value) {
            (ExprKind::Index { .. }, Value::View(view)) => view.layout.size() != Ok(1),
            _ => false,
        };
        if !self.changes.part(source, &names) || is_slice && self.changes.any(&names) {
            return value;
        }
        let one = |run: &mut Evaluator, value: Value| match value {
            Value::View(view) => match run.second(&view) {
                Ok(copy) => Value::View(copy.unwrap_or(view)),
                Err(problem) => run.complain(from.span, problem),
            },
            value => value,
        };
        match value {
            Value::Tuple(all) => Value::Tuple(all.into_iter().map(|value| one(self, value)).collect()),
            value => one(self, value),
        }
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
