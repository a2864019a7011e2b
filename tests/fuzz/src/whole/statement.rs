//! Statements of the text.

use tilewright_codegen::ast::{Binary, Expr, ExprKind, Pattern, Stmt, StmtKind, Unary};

use super::element;
use super::function::leaves;
use super::number::decides;
use super::value::{Cell, Elements, OutOfBounds, Store, Type, Value, View};
use super::{Block, MOST_STEPS, Result, expression, undefined};

impl<'k> Block<'k> {
    pub(super) fn body(&mut self, body: &'k [Stmt]) -> Result<()> {
        let depths = self.depths();
        let stores = self.stores.len();
        for stmt in body {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return undefined("it takes too long");
            }
            self.statement(stmt)?;
            if !self.left.is_empty() {
                self.running.retain(|thread| !self.left.contains(thread));
                let Some(&first) = self.running.first() else { break };
                self.thread = first;
            }
        }
        self.leave(depths);
        self.stores.truncate(stores);
        Ok(())
    }

    fn depths(&self) -> Vec<usize> {
        self.scopes.iter().map(Vec::len).collect()
    }

    /// Forgets names.
    fn leave(&mut self, depths: Vec<usize>) {
        self.scopes.iter_mut().zip(depths).for_each(|(scope, depth)| scope.truncate(depth));
    }

    pub(super) fn statement(&mut self, stmt: &'k Stmt) -> Result<()> {
        match &stmt.kind {
            StmtKind::Let { pattern, value } => {
                let named = matches!(value.kind, ExprKind::Name(_) | ExprKind::Field { .. });
                self.exchanges(value)?;
                self.for_threads(|block| {
                    let value = block.value(value)?;
                    let value = if named { block.seconds(value) } else { block.kept(value)? };
                    block.bind(pattern, value)
                })?;
                Ok(())
            }
            StmtKind::Expr(value) => {
                self.exchanges(value)?;
                self.for_threads(|block| block.value(value)).map(|_| ())
            }
            StmtKind::Assign { target, op, value } => {
                self.exchanges(value)?;
                self.for_threads(|block| block.assign(target, *op, value)).map(|_| ())
            }
            StmtKind::For { pattern: pattern @ (Pattern::Name(_) | Pattern::Hole(_)), range, body } => {
                self.counted_loop(pattern, range, body)
            }
            StmtKind::For { pattern, range, body } => match self.value(range)? {
                Value::Tuple(values) => self.each(pattern, values, body),
                _ => undefined("no tuple"),
            },
            StmtKind::While { condition, body } => {
                let outer = std::mem::take(&mut self.left);
                while !self.supposed {
                    self.exchanges(condition)?;
                    let truths = self.for_threads(|block| block.decided(condition))?;
                    let ended = self.threads_with(&truths, false);
                    self.left.extend(ended);
                    let runs = self.running.iter().copied().filter(|thread| !self.left.contains(thread));
                    let runs: Vec<usize> = runs.collect();
                    self.steps += 1;
                    if self.steps > MOST_STEPS {
                        return undefined("it takes too long");
                    }
                    if runs.is_empty() {
                        break;
                    }
                    self.only(runs, |block| block.body(body))?;
                }
                self.left = outer;
                (0..if decides() { 0 } else { 2 }).for_each(|_| self.suppose(|block| block.body(body)));
                Ok(())
            }
            StmtKind::Break => {
                if !self.supposed {
                    self.left.extend(&self.running);
                }
                Ok(())
            }
            StmtKind::If { condition, then, other } => {
                // One that is known while compiling leaves one path in the program.
                if let Some(value_of) = self.constant(condition) {
                    return self.body(if value_of != 0 { then } else { other });
                }
                self.exchanges(condition)?;
                let truths = self.for_threads(|block| block.decided(condition))?;
                let (yes, no) = (self.threads_with(&truths, true), self.threads_with(&truths, false));
                let runs = |block: &mut Self| {
                    block.only(yes.clone(), |block| block.body(then))?;
                    block.only(no.clone(), |block| block.body(other))
                };
                if decides() {
                    return runs(self);
                }
                self.either(runs, |block| {
                    block.only(yes.clone(), |block| block.body(other))?;
                    block.only(no.clone(), |block| block.body(then))
                })
            }
            _ => undefined("a statement that is not supported"),
        }
    }

    /// A loop over a range, or over a tuple with one name.
    fn counted_loop(&mut self, pattern: &Pattern, range: &'k Expr, body: &'k [Stmt]) -> Result<()> {
        let name = if let Pattern::Name(name) = pattern { &*name.text } else { "_" };
        // One that is known to be empty while compiling is not in the program.
        if let ExprKind::Range(from, to) = &range.kind
            && let (Some(from), Some(to)) = (self.constant(from), self.constant(to))
            && from >= to
        {
            return Ok(());
        }
        self.exchanges(range)?;
        let outer = std::mem::replace(&mut self.integers, true);
        let ranges = self.for_threads(|block| block.value(range));
        self.integers = outer;
        let mut ends = Vec::new();
        for range in ranges? {
            match range {
                Value::Range(from, to) => ends.push((from, to)),
                Value::Tuple(values) => {
                    return self.each(pattern, values, body);
                }
                _ => return undefined("no range"),
            }
        }
        let from = ends.iter().map(|end| end.0).min().unwrap_or(0);
        let to = ends.iter().map(|end| end.1).max().unwrap_or(0);
        let outer = std::mem::take(&mut self.left);
        for n in from..if self.supposed { from } else { to } {
            self.steps += 1;
            let runs: Vec<bool> = ends.iter().map(|end| (end.0..end.1).contains(&n)).collect();
            let mut runs = self.threads_with(&runs, true);
            runs.retain(|thread| !self.left.contains(thread));
            self.only(runs, |block| block.iteration(name, n, body))?;
            if self.left.len() == self.running.len() {
                break;
            }
        }
        self.left = outer;
        // Two more: values that differ between iterations are unknown after the loop.
        let last = to.max(from);
        let before: Vec<bool> = self.stores.iter().map(is_outside).collect();
        let supposed = if from >= to { 2 } else { i128::from(!decides()) };
        for n in last..last + supposed {
            self.suppose(|block| block.iteration(name, n, body));
        }
        // If the loop runs over a size of 0, all elements are out of bounds, also along modes whose edges differ between
        // iterations, which are not known after the loop.
        for (store, before) in self.stores.iter_mut().zip(before) {
            if from >= to && !before && is_outside(store) {
                let cells = store.cells_mut().into_iter().flatten().flatten();
                cells.for_each(|cell| cell.out_of_bounds = OutOfBounds::Perhaps);
            }
        }
        Ok(())
    }

    /// A loop over a tuple, which is unrolled.
    fn each(&mut self, pattern: &Pattern, values: Vec<Value<'k>>, body: &'k [Stmt]) -> Result<()> {
        if self.has_threads {
            return undefined("a loop over tiles of threads");
        }
        for value in values {
            let depths = self.depths();
            self.bind(pattern, value)?;
            self.body(body)?;
            self.leave(depths);
        }
        Ok(())
    }

    /// Whether a condition is true.
    fn decided(&mut self, condition: &'k Expr) -> Result<bool> {
        let outer = std::mem::replace(&mut self.integers, true);
        let condition = self.value(condition);
        self.integers = outer;
        match condition {
            _ if self.supposed => Ok(true),
            Ok(Value::Bool(value_of)) => Ok(value_of),
            Ok(other) => match self.elements(&other)? {
                of if of.ty == Type::Condition && of.cells.len() == 1 && !of.cells[0].num.is_unknown() => {
                    Ok(of.cells[0].num.value != 0.0)
                }
                _ => undefined("a condition is not known"),
            },
            Err(why) => Err(why),
        }
    }

    /// An integer that is known while compiling, or a condition, as 1 or 0.
    fn constant(&self, of: &'k Expr) -> Option<i128> {
        let truth = |of: &Expr| match &of.kind {
            ExprKind::Bool(_) | ExprKind::Unary(Unary::Not, _) => true,
            ExprKind::Binary(op, ..) => !matches!(
                op,
                Binary::Add
                    | Binary::Sub
                    | Binary::Mul
                    | Binary::Div
                    | Binary::Rem
                    | Binary::Shl
                    | Binary::Shr
            ),
            _ => false,
        };
        match &of.kind {
            ExprKind::Int(n) => Some((*n).into()),
            ExprKind::Bool(value_of) => Some((*value_of).into()),
            ExprKind::Name(name) => {
                match self.scopes[self.thread].iter().rev().find(|(known, _)| known == name) {
                    Some((_, Value::Int(n))) => Some(*n),
                    _ => None,
                }
            }
            ExprKind::Unary(Unary::Neg, x) => Some(-self.constant(x)?),
            ExprKind::Unary(Unary::Not, x) => Some(1 - self.constant(x)?),
            ExprKind::Call { function, args, .. } => {
                let [x, y] = &args[..] else { return None };
                let (x, y) = (self.constant(&x.value)?, self.constant(&y.value)?);
                match function.text.as_str() {
                    "min" => Some(x.min(y)),
                    "max" => Some(x.max(y)),
                    _ => None,
                }
            }
            ExprKind::Binary(op, x, y) => match (op, self.constant(x), self.constant(y)) {
                (Binary::Mul, Some(0), _) | (Binary::Mul, _, Some(0)) => Some(0),
                (Binary::And, Some(0), _) | (Binary::And, _, Some(0)) if truth(x) && truth(y) => Some(0),
                (Binary::Or, Some(1), _) | (Binary::Or, _, Some(1)) if truth(x) && truth(y) => Some(1),
                (op, Some(x), Some(y)) => match expression::integers(*op, x, y, true).ok()? {
                    Value::Int(n) => Some(n),
                    Value::Bool(value_of) => Some(value_of.into()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    fn iteration(&mut self, var: &str, n: i128, body: &'k [Stmt]) -> Result<()> {
        let depths = self.depths();
        for thread in self.running.clone() {
            self.scopes[thread].push((var.to_owned(), Value::Integer(n)));
        }
        self.body(body)?;
        self.leave(depths);
        Ok(())
    }

    /// Evaluates statements that do not run, for the coordinates and bounds that they imply.
    fn suppose(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) {
        let _ = self.either(|_| Ok(()), run);
    }

    /// Runs the first of two paths. After it, only properties of elements on which both paths agree are known.
    fn either(
        &mut self,
        runs: impl FnOnce(&mut Self) -> Result<()>,
        not: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let before: Vec<_> = self.stores.iter().map(|store| store.cells().cloned()).collect();
        runs(self)?;
        let first = self.exchanged(before);
        let outer = (self.supposed, self.integers, self.in_closure);
        let depths = self.depths();
        let left = std::mem::take(&mut self.left);
        self.supposed = true;
        // A condition that cannot be computed has no consequence.
        let _ = not(self);
        (self.supposed, self.integers, self.in_closure) = (outer.0, outer.1, outer.2);
        self.left = left;
        self.leave(depths);
        let second = self.exchanged(first);
        for (store, second) in self.stores.iter_mut().zip(second) {
            let Some((cells, second)) = store.cells_mut().zip(second) else { continue };
            for (cell, second) in cells.iter_mut().zip(second) {
                match (cell, second) {
                    (Some(cell), Some(second)) => {
                        cell.joined(&second);
                        if decides() && second.out_of_bounds == OutOfBounds::Yes {
                            cell.out_of_bounds = OutOfBounds::Yes;
                        }
                    }
                    (cell @ None, second) => *cell = second,
                    (Some(_), None) => {}
                }
            }
        }
        Ok(())
    }

    /// Replaces the elements of memory that is not global, and returns them.
    fn exchanged(&mut self, by: Vec<Option<Vec<Option<Cell>>>>) -> Vec<Option<Vec<Option<Cell>>>> {
        let pairs = self.stores.iter_mut().zip(by);
        pairs
            .map(|(store, by)| store.cells_mut().zip(by).map(|(cells, by)| std::mem::replace(cells, by)))
            .collect()
    }

    /// Registers that get a second name are copied: the first name's may change.
    fn seconds(&mut self, value: Value<'k>) -> Value<'k> {
        match value {
            Value::View(view) => Value::View(self.second(view)),
            Value::Tuple(all) => Value::Tuple(all.into_iter().map(|of| self.seconds(of)).collect()),
            other => other,
        }
    }

    /// Elements that get a name are computed then.
    fn kept(&mut self, value: Value<'k>) -> Result<Value<'k>> {
        Ok(match value {
            Value::Elements(of) => self.settled(of)?,
            Value::Tuple(all) => {
                Value::Tuple(all.into_iter().map(|of| self.kept(of)).collect::<Result<_>>()?)
            }
            other => other,
        })
    }

    fn assign(&mut self, target: &'k Expr, op: Option<Binary>, value: &'k Expr) -> Result<()> {
        let one_tile = self.is_of_one_tile(value);
        let value = self.value(value)?;
        if let Value::Tuple(_) = &value {
            let values = leaves(&value).iter().map(|of| self.elements(of)).collect::<Result<Vec<_>>>()?;
            let targets = leaves(&self.value(target)?);
            if targets.len() != values.len() {
                return undefined("a tuple of another length");
            }
            for (target, value) in targets.into_iter().zip(&values) {
                let target = self.as_view(target)?;
                self.set(&target, None, value)?;
            }
            return Ok(());
        }
        let value = self.elements(&value)?;
        let target = self.view(target)?;
        self.set(&target, op.map(|op| (op, one_tile)), &value)
    }

    /// Is it a tile of an argument, or arithmetic on it with a literal?
    fn is_of_one_tile(&self, of: &Expr) -> bool {
        match &of.kind {
            ExprKind::Name(name) => {
                let known = self.scopes[self.thread].iter().rev().find(|(known, _)| known == name);
                let global = |view: &View| matches!(self.stores[view.store], Store::Global(_));
                known.is_some_and(|(_, value)| matches!(value, Value::View(view) if global(view)))
            }
            ExprKind::Cast(x, _) | ExprKind::Unary(Unary::Neg, x) => self.is_of_one_tile(x),
            ExprKind::Binary(Binary::Mul | Binary::Div, x, y) => {
                self.is_of_one_tile(x) && matches!(y.kind, ExprKind::Int(_) | ExprKind::Float(_))
            }
            _ => false,
        }
    }

    /// Sets a tile, or with an operator changes it by elements, of one tile or not.
    fn set(&mut self, to: &View, op: Option<(Binary, bool)>, value: &Elements) -> Result<()> {
        let value = match op {
            Some((op, one_tile)) => {
                let before = self.read(to, 0.0)?;
                let mut made = element::binary(op, &before, value)?;
                before.accumulated(value, &mut made)?;
                if one_tile && matches!(op, Binary::Add | Binary::Sub | Binary::Or | Binary::Xor) {
                    before.kept_bounds(value, &mut made)?;
                }
                made
            }
            None => value.clone(),
        };
        let value = value.as_type(to.elem)?;
        self.write(to, &value)
    }
}

/// Are all elements out of bounds?
fn is_outside(store: &Store) -> bool {
    let outside =
        |cell: &Option<Cell>| cell.as_ref().is_some_and(|cell| cell.out_of_bounds == OutOfBounds::Yes);
    store.cells().is_some_and(|cells| cells.iter().all(outside))
}
