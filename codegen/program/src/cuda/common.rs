//! Integers that several roles compute in the same way: one function computes them. The loops of a persistent kernel
//! begin with such integers, the coordinates of a tile.

use super::Printer;
use super::names::Thing;
use super::statement::c_int;
use crate::thread::index::{Int, Ix};
use crate::thread::visit::{Use, preorder};
use crate::thread::{Id, Op, Role, Stmt};

/// Fewer integers are repeated.
const LEAST: usize = 3;

/// A loop whose body begins with constant integers.
struct Start<'k> {
    of: Id,
    integers: Vec<(Id, Ix)>,
    body: &'k [Stmt],
}

/// The call of a function of integers, where a loop's body begins.
pub(super) struct Call {
    /// The loop, whose variable is the argument.
    of: Id,
    function: String,
    /// The name of the result.
    result: String,
    /// How many integers the function computes.
    len: usize,
    /// The integers that the loop uses, and the field of the result that has each.
    used: Vec<(Id, String)>,
}

impl Printer<'_> {
    /// The function of the integers with which loops of these roles begin, if they have some in common.
    pub(super) fn common_integers(&mut self, roles: &[Role]) {
        let loops: Vec<Start> = roles.iter().flat_map(|role| self.starts(&role.body)).collect();
        let Some((first, others)) = loops.split_first() else {
            return;
        };
        let shared = |other: &Start| self.in_common(first, other);
        let others: Vec<_> = others.iter().filter(|other| shared(other) >= LEAST).collect();
        let Some(len) = others.iter().map(|other| shared(other)).min() else {
            return;
        };
        let calls: Vec<&Start> = std::iter::once(first).chain(others).collect();
        let is_used = |at: usize| calls.iter().any(|start| self.is_used_after(start, at, len));
        let mut results: Vec<usize> = (0..len).filter(|&at| is_used(at)).collect();
        results.sort_by_key(|&at| self.kernel.vars[first.integers[at].0 as usize].wide);
        let (of, body) = (first.of, &first.body[..len]);

        let row = &self.kernel.vars[of as usize];
        let name = self.names.unique(&format!("at_{}", row.name));
        let result = self.names.unique("at");
        self.paragraph();
        self.line("// the same in all roles");
        self.names.open();
        let parameter = self.names.declare(Thing::Var(of), &row.name);
        // It captures copies: NVRTC's code is as good as with the integers in each role, which it is not with references.
        self.line(&format!("const auto {name} = [=]({} {parameter}) {{", c_int(row.wide)));
        self.depth += 1;
        body.iter().for_each(|stmt| self.statement(stmt));
        let kind = self.names.passing("Integers");
        let vars: Vec<Id> = results.iter().map(|&at| first.integers[at].0).collect();
        let fields: Vec<String> = vars.iter().map(|&var| self.names.vars[var as usize].clone()).collect();
        let returned = format!("return {kind}{{{}}};", fields.join(", "));
        let declarations = self.declarations(vars.into_iter().zip(fields.clone())).join(" ");
        self.line(&format!("struct {kind} {{ {declarations} }};"));
        self.line(&returned);
        self.depth -= 1;
        self.line("};");
        self.names.close();
        self.paragraph();
        for start in calls {
            let used = results.iter().zip(&fields).filter(|(at, _)| self.is_used_after(start, **at, len));
            let used = used.map(|(&at, field)| (start.integers[at].0, field.clone())).collect();
            let call = Call { of: start.of, function: name.clone(), result: result.clone(), len, used };
            self.common.insert(start.integers[0].0, call);
        }
    }

    /// Calls the function with whose integers a block begins; their number.
    pub(super) fn calls_common(&mut self, body: &[Stmt]) -> usize {
        let Some(Op::Let(begins, _)) = body.first().map(|stmt| &stmt.op) else {
            return 0;
        };
        let Some(Call { of, function, result, len, used }) = self.common.remove(begins) else {
            return 0;
        };
        self.line(&format!("const auto {result} = {function}({});", self.names.vars[of as usize]));
        let declare = |(var, field): (Id, String)| {
            let name = self.names.declare(Thing::Var(var), &self.kernel.vars[var as usize].name);
            (var, format!("{name} = {result}.{field}"))
        };
        let values: Vec<(Id, String)> = used.into_iter().map(declare).collect();
        for line in self.declarations(values) {
            self.line(&format!("const {line}"));
        }
        len
    }

    /// Declarations with these texts, one for each type.
    fn declarations(&self, vars: impl IntoIterator<Item = (Id, String)>) -> Vec<String> {
        let mut of_types = [Vec::new(), Vec::new()];
        for (var, text) in vars {
            of_types[usize::from(self.kernel.vars[var as usize].wide)].push(text);
        }
        let line = |(all, wide): (Vec<String>, bool)| {
            (!all.is_empty()).then(|| format!("{} {};", c_int(wide), all.join(", ")))
        };
        of_types.into_iter().zip([false, true]).filter_map(line).collect()
    }

    fn starts<'s>(&self, body: &'s [Stmt]) -> Vec<Start<'s>> {
        let constant = |stmt: &Stmt| match stmt.op {
            Op::Let(var, at) if !self.kernel.vars[var as usize].mutable => Some((var, at)),
            _ => None,
        };
        let start = |stmt: &'s Stmt| {
            let Op::For { var, body, .. } = &stmt.op else { return None };
            let integers: Vec<_> = body.iter().map_while(constant).collect();
            (integers.len() >= LEAST).then_some(Start { of: *var, integers, body })
        };
        preorder(body).filter_map(start).collect()
    }

    /// The number of integers with which both loops begin.
    fn in_common(&self, a: &Start, b: &Start) -> usize {
        let mut renamed = vec![(a.of, b.of)];
        let pairs = a.integers.iter().zip(&b.integers);
        let is_same = |&(&(x, value), &(y, other)): &(&(Id, Ix), &(Id, Ix))| {
            let same = self.is_same(value, other, &renamed);
            renamed.push((x, y));
            same
        };
        pairs.take_while(is_same).count()
    }

    /// Are they the same if the first one's variables are renamed?
    fn is_same(&self, a: Ix, b: Ix, renamed: &[(Id, Id)]) -> bool {
        let (x, y) = (&self.exprs.get(a).int, &self.exprs.get(b).int);
        if let (Int::Var(x), Int::Var(y)) = (x, y) {
            return renamed.contains(&(*x, *y)) || (x == y && renamed.iter().all(|(from, _)| from != x));
        }
        let (parts, others) = (x.parts(), y.parts());
        let mut both = parts.iter().zip(&others);
        x == y && parts.is_empty()
            || !parts.is_empty()
                && std::mem::discriminant(x) == std::mem::discriminant(y)
                && both.all(|(&a, &b)| self.is_same(a, b, renamed))
    }

    /// Is this integer used after the first ones?
    fn is_used_after(&self, start: &Start, at: usize, first: usize) -> bool {
        let var = Int::Var(start.integers[at].0);
        preorder(&start.body[first..]).flat_map(|stmt| stmt.op.uses()).any(|used| match used {
            Use::Integer(at) | Use::Operand(at) => self.exprs.any(at, &|int| *int == var),
            Use::Registers(..) | Use::Memory { .. } => false,
        })
    }
}
