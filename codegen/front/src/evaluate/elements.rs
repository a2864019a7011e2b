//! Closures: functions of elements, and `map`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::args::{Args, made_from};
use super::value::{Closure, Value};
use super::{Evaluator, advice, integer};
use crate::source::ast::{Arg, Expr, Name, Pattern, Span};
use crate::source::problem::{Problem, count};
use crate::thread::{Bin, Un};
use crate::tile;
use crate::tile::view::View;
use crate::values::elem::Elem;
use crate::values::typing::{Scalar, Type};

/// Inputs of a function of elements.
pub(super) const MOST_INPUTS: usize = 64;

/// The operands of `map`.
pub(super) struct Mapped<'a> {
    pub(super) ins: Vec<View>,
    /// The parameters of the closure: elements of the operands, in the tuples in which they were given.
    elements: Vec<Value>,
    /// Result tensors, one for each value of the closure; fresh fragments without.
    pub(super) to: Option<Vec<View>>,
    pub(super) closure: &'a Closure,
    /// The index of the closure among the arguments.
    pub(super) at: usize,
    /// The number of coordinates, if the closure takes the coordinates of elements too.
    at_elements: Option<usize>,
}

/// The elements that a function of elements reads besides its parameters: single elements, the same for all,
/// or elements loaded by a gather.
#[derive(Default)]
pub(super) struct Captured {
    /// The inputs before these, one for each parameter.
    pub(super) ins: Vec<View>,
    views: Vec<View>,
    /// Numbers of gathered elements' coordinates, and the tiles that contain them.
    pub(super) numbers: Vec<(tile::Expr, View)>,
    /// Is the text under evaluation an indexed tensor, or an index?
    paused: bool,
    /// Does the function write to a tensor, possibly at its elements' own coordinates?
    writes: bool,
}

impl Captured {
    /// Of a function of elements of these tiles, which sets registers.
    pub(super) fn of(ins: Vec<View>) -> Captured {
        Captured { ins, ..Captured::default() }
    }

    /// The index of an element among the inputs.
    pub(super) fn input(&mut self, view: &View) -> usize {
        let known = self.views.iter().position(|other| other == view);
        let input = known.unwrap_or_else(|| {
            self.views.push(view.clone());
            self.views.len() - 1
        });
        self.ins.len() + input
    }

    /// All inputs so far.
    pub(super) fn inputs(&self, rank: usize) -> Result<Vec<View>, Problem> {
        let more = self.views.iter().map(|view| match integer::is_one(view) {
            true => view.everywhere(rank),
            false => Ok(view.clone()),
        });
        self.ins.iter().cloned().map(Ok).chain(more).collect()
    }
}

impl Evaluator {
    /// A closure, with its captured names.
    pub(super) fn closure(&mut self, params: &[Pattern], body: &Expr) -> Value {
        let mut captured: Vec<usize> =
            body.names().into_keys().filter_map(|name| self.entry_of(name)).collect();
        captured.sort_unstable_by(|one, other| other.cmp(one));
        if self.callers.is_empty() {
            captured.iter().for_each(|entry| self.uses.used(*entry));
        }
        let scope = captured.into_iter().map(|entry| self.scope[entry].clone()).collect();
        let home = self.home.clone();
        Value::Closure(Arc::new(Closure { params: params.to_vec(), body: body.clone(), scope, home }))
    }

    /// A size is a number inside a function of elements, and so is one element of a tensor.
    pub(super) fn as_element(&mut self, value: Value) -> Value {
        match (value, &mut self.captured) {
            (value @ Value::Size(_), _) if self.in_closure => value.as_number().map_or(value, Value::Number),
            (Value::View(view), Some(captured)) if integer::is_one(&view) && !captured.paused => {
                self.input(&view)
            }
            (value, _) => value,
        }
    }

    /// A number of a function of elements, from memory or registers.
    pub(super) fn input(&mut self, view: &View) -> Value {
        let input = self.captured.as_mut().map_or(MOST_INPUTS, |captured| captured.input(view));
        match input {
            0..MOST_INPUTS => {
                Value::Number(Scalar::new(tile::Expr::In(input as u8), self.builder.elem(view)))
            }
            _ => Value::View(view.clone()),
        }
    }

    /// One element of a tensor that meets a number, inside an index too.
    pub(super) fn met(&mut self, value: Value) -> Value {
        match value {
            Value::View(view) if self.in_closure && self.captured.is_some() && integer::is_one(&view) => {
                self.input(&view)
            }
            value => value,
        }
    }

    /// The operand of an index, a field or a method: a tensor even if it has one element.
    pub(super) fn operand(&mut self, expr: &Expr) -> Value {
        let pause = |run: &mut Self, paused| {
            run.captured.as_mut().is_some_and(|captured| std::mem::replace(&mut captured.paused, paused))
        };
        let outer = pause(self, true);
        let value = self.expr(expr);
        pause(self, outer);
        value
    }

    /// `f(x)`, where the kernel has bound `f` to a closure.
    pub(super) fn called(&mut self, closure: &Closure, function: &Name, args: &[Arg], span: Span) -> Value {
        let naming = std::mem::take(&mut self.naming);
        if let Some(name) = args.iter().find_map(|arg| arg.name.as_ref()) {
            let problem = Problem::new(format!(
                "the closure `{}` has no argument named `{}`",
                function.text, name.text
            ));
            return self
                .complain(name.span, problem.help("write values alone, in the order of its parameters"));
        }
        let values: Vec<Value> = args.iter().map(|arg| self.expr(&arg.value)).collect();
        if values.iter().any(|value| matches!(value, Value::Poison)) {
            return Value::Poison;
        }
        if values.len() != closure.params.len() {
            let (takes, given) = (count(closure.params.len(), "value"), values.len());
            let problem =
                Problem::new(format!("the closure `{}` takes {takes}, and is given {given}", function.text));
            return self.complain(span, problem.help("write one argument for each of its parameters"));
        }
        self.naming = naming;
        self.inlined(closure, values)
    }

    /// The value of a closure's body, with these values for its parameters.
    fn inlined(&mut self, closure: &Closure, values: Vec<Value>) -> Value {
        self.callers.push(std::mem::replace(&mut self.scope, closure.scope.clone()));
        let home = std::mem::replace(&mut self.home, closure.home.clone());
        let naming = std::mem::take(&mut self.naming);
        let bound = self.scope.len();
        for (pattern, value) in closure.params.iter().zip(values) {
            self.bind(pattern, value);
        }
        self.share(bound, &closure.body.names());
        self.naming = naming;
        let value = self.unsettled(&closure.body);
        self.naming.clear();
        self.home = home;
        self.scope = self.callers.pop().unwrap_or_default();
        value
    }

    /// Numbers that have been bound since `bound`, in a closure, and are used more than once: long expressions are computed
    /// once, in separate registers.
    pub(super) fn share(&mut self, bound: usize, uses: &BTreeMap<&str, usize>) {
        if !self.in_closure || self.captured.as_ref().is_none_or(|captured| captured.paused) {
            return;
        }
        for entry in bound..self.scope.len() {
            let (name, value) = &self.scope[entry];
            let (name, value) = (name.clone(), value.clone());
            if is_long_value(&value) && uses.get(&*name).is_some_and(|count| *count > 1) {
                self.scope[entry].1 = self.shared_value(&name, value);
            }
        }
    }

    fn shared_value(&mut self, name: &str, value: Value) -> Value {
        let number = match value {
            Value::Tuple(items) => {
                let named = |(n, item)| self.shared_value(&format!("{name}_{n}"), item);
                return Value::Tuple(items.into_iter().enumerate().map(named).collect());
            }
            Value::Number(number) if is_long(&number.expr) => number,
            value => return value,
        };
        let made = match number.ty {
            Some(Type::Elem(elem)) => self.shared_number(name, &number.expr, elem),
            _ => None,
        };
        made.unwrap_or(Value::Number(number))
    }

    fn shared_number(&mut self, name: &str, of: &tile::Expr, elem: Elem) -> Option<Value> {
        let captured = self.captured.as_ref()?;
        let differs = |part: &tile::Expr| match part {
            tile::Expr::At(_) => captured.writes,
            part => matches!(part, tile::Expr::Coord(..)),
        };
        if of.any(&differs) {
            return None;
        }
        let rank = captured.ins.iter().map(View::rank).max()?;
        let ins = captured.inputs(rank).ok()?;
        if ins.len() >= MOST_INPUTS / 2 || ins.iter().any(|view| view.extents().is_none()) {
            return None;
        }
        let tile = self.computed(name, &ins, of.clone(), elem).ok()?;
        Some(self.input(&tile))
    }

    /// The value of a closure whose parameters are elements of these types.
    pub(super) fn applied(&mut self, closure: &Closure, elems: &[Elem]) -> Value {
        let element = |(n, elem): (usize, &Elem)| Value::Number(Scalar::new(tile::Expr::In(n as u8), *elem));
        self.applied_to(closure, elems.iter().enumerate().map(element).collect())
    }

    /// The value of a closure of elements.
    pub(super) fn applied_to(&mut self, closure: &Closure, values: Vec<Value>) -> Value {
        let outer = std::mem::replace(&mut self.in_closure, true);
        let value = self.inlined(closure, values);
        self.in_closure = outer;
        value
    }

    /// `map((x, y), |x, y| …)`: fresh fragments, one for each value of the closure; or `map(ins, to, |…| …)` into tensors.
    pub(super) fn map_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let naming = &args.naming[..];
        let mut mapped = mapped(args)?;
        for (arg, views) in [(0, Some(&mapped.ins)), (1, mapped.to.as_ref())] {
            let open =
                views.into_iter().flatten().find(|view| self.is_whole(view) && view.extents().is_none());
            if let Some(view) = open {
                return Err(advice::whole(view, "map").arg(arg));
            }
        }
        let value = self.of_elements(&mut mapped)?;
        let values = match (&value, &mapped.to) {
            (Value::Poison, _) => return Ok(Value::Poison),
            (Value::Tuple(values), Some(_)) => values.clone(),
            (value, _) => leaves(value),
        };
        if let Some(to) = &mapped.to
            && to.len() != values.len()
        {
            let (gives, given) = (count(values.len(), "value"), count(to.len(), "tensor"));
            let problem = format!("the closure returns {gives}, and `map` writes {given}");
            return Err(Problem::new(problem)
                .help("write one tensor for each value: map(x, (y, z), |x| (x, -x))")
                .arg(1));
        }
        let mut made = Vec::new();
        for (n, value) in values.into_iter().enumerate() {
            let number = value.as_number().ok_or_else(|| {
                Problem::new(format!("the closure returns {}, and a number is needed", value.kind()))
                    .help("end it with arithmetic on its parameters: map((x, y), |x, y| x + y)")
                    .arg(mapped.at)
            })?;
            // Literals alone are of the type in which the first tensor is summed, since they are often counts.
            let elem = match (&mapped.to, number.own_type()) {
                (Some(to), _) => self.builder.elem(&to[n]),
                (None, Some(Type::Elem(elem))) => elem,
                (None, Some(Type::Condition)) => Elem::Bool,
                (None, None) => self.builder.elem(&mapped.ins[0]).accumulator(),
            };
            match number.into_elem(elem) {
                Ok(value) => made.push((value, elem)),
                Err(problem) => return Ok(self.complain(mapped.closure.body.span, problem)),
            }
        }
        match &mapped.to {
            // Several results may alias an input that a later one still reads.
            Some(to) if to.len() == 1 => {
                let (value, _) = made.remove(0);
                self.builder.map(&mapped.ins, &to[0], value)?;
                Ok(Value::Unit)
            }
            Some(to) => {
                let fresh = self.fresh(&mapped, made, naming, None)?;
                for (fresh, to) in fresh.iter().zip(to) {
                    self.builder.map(std::slice::from_ref(fresh), to, tile::Expr::In(0))?;
                }
                Ok(Value::Unit)
            }
            None => {
                let fresh = self.fresh(&mapped, made, naming, args.into.as_ref())?;
                Ok(shaped_as(&value, &mut fresh.into_iter().map(Value::View)))
            }
        }
    }

    /// The value of the closure, whose further inputs are added to the others.
    pub(super) fn of_elements(&mut self, mapped: &mut Mapped<'_>) -> Result<Value, Problem> {
        let writes = mapped.to.is_some();
        self.captured = Some(Captured { ins: mapped.ins.clone(), writes, ..Captured::default() });
        let mut elements =
            mapped.ins.iter().enumerate().map(|(n, view)| {
                Value::Number(Scalar::new(tile::Expr::In(n as u8), self.builder.elem(view)))
            });
        let mut values: Vec<Value> =
            mapped.elements.iter().map(|given| shaped_as(given, &mut elements)).collect();
        if let Some(rank) = mapped.at_elements {
            let at = |mode: usize| Value::Number(Scalar::new(tile::Expr::At(mode as u8), Elem::I32));
            values.push(Value::Tuple((0..rank).map(at).collect()));
        }
        let value = self.applied_to(mapped.closure, values);
        let rank = mapped.ins.iter().chain(mapped.to.iter().flatten()).map(View::rank).max().unwrap_or(1);
        mapped.ins = self.captured.take().unwrap_or_default().inputs(rank)?;
        Ok(value)
    }

    /// Fragments for the results of functions. A result that is assigned to a tile of its type is computed there, unless the
    /// function reads other elements of that tile.
    fn fresh(
        &mut self,
        mapped: &Mapped<'_>,
        values: Vec<(tile::Expr, Elem)>,
        naming: &[String],
        into: Option<&View>,
    ) -> Result<Vec<View>, Problem> {
        if let ([(value, elem)], Some(to)) = (&values[..], into)
            && self.builder.elem(to) == *elem
            && to.shape() == View::joint_shape(&mapped.ins)
            && mapped.ins.iter().all(|view| view.tensor != to.tensor || view == to)
        {
            self.builder.map(&mapped.ins, to, value.clone())?;
            return Ok(vec![to.clone()]);
        }
        if let Some(whole) = mapped.ins.iter().find(|view| view.extents().is_none()) {
            return Err(advice::whole(whole, "map").arg(0));
        }
        let mut made = Vec::new();
        for (n, (value, elem)) in values.into_iter().enumerate() {
            let name = match (naming.get(n).or(naming.last()), mapped.ins.first()) {
                (Some(name), _) => name.clone(),
                (None, Some(from)) if self.builder.elem(from) != elem => {
                    made_from(&from.name, &elem.to_string())
                }
                (None, from) => made_from(from.map_or("element", |from| &from.name), "mapped"),
            };
            let fragment = self.room_for(&name, elem, &mapped.ins)?.with_name(&name);
            self.builder.map(&mapped.ins, &fragment, value)?;
            made.push(fragment);
        }
        Ok(made)
    }
}

/// Operations of a number from which on separate registers are worthwhile, if it is used more than once.
const LONG: usize = 16;
/// Operations that a function such as `exp` counts as.
const FUNCTION: usize = 12;

/// Has it at least [`LONG`] operations?
fn is_long(of: &tile::Expr) -> bool {
    let (mut count, mut left) = (0, vec![of]);
    while let (Some(part), true) = (left.pop(), count < LONG) {
        let parts = part.parts();
        count += match part {
            tile::Expr::Un(Un::Neg | Un::Abs | Un::Not, _) => 1,
            tile::Expr::Un(..) | tile::Expr::Bin(Bin::Pow, ..) => FUNCTION,
            _ => usize::from(!parts.is_empty()),
        };
        left.extend(parts);
    }
    count >= LONG
}

fn is_long_value(value: &Value) -> bool {
    match value {
        Value::Tuple(items) => items.iter().any(is_long_value),
        Value::Number(number) => is_long(&number.expr),
        _ => false,
    }
}

/// The entries of a tuple and of the tuples in it; another value is its only entry.
fn leaves(value: &Value) -> Vec<Value> {
    match value {
        Value::Tuple(items) => items.iter().flat_map(leaves).collect(),
        one => vec![one.clone()],
    }
}

/// A value with its leaves replaced by tiles.
fn shaped_as(value: &Value, tiles: &mut dyn Iterator<Item = Value>) -> Value {
    match value {
        Value::Tuple(items) => Value::Tuple(items.iter().map(|item| shaped_as(item, tiles)).collect()),
        _ => tiles.next().unwrap_or(Value::Poison),
    }
}

/// The arguments of `map`.
pub(super) fn mapped(args: &Args) -> Result<Mapped<'_>, Problem> {
    let usage = || {
        Problem::new(format!("`{}` takes one or several tensors and a closure", args.name)).help(args.usage())
    };
    let (given, to, closure, at) = match &args.values[..] {
        [(given, _), (Value::Closure(closure), _)] => (given, None, closure, 1),
        [(given, _), (to, _), (Value::Closure(closure), _)] => {
            (given, Some(views(to).ok_or_else(|| usage().arg(1))?), closure, 2)
        }
        _ => return Err(usage()),
    };
    let elements = match given {
        Value::Tuple(items) => items.clone(),
        one => vec![one.clone()],
    };
    let ins = views(&Value::Tuple(leaves(given)));
    let is_integer = |value: &Value| matches!(value, Value::Int(_) | Value::Index(_) | Value::Size(_));
    if ins.is_none() && leaves(given).iter().all(is_integer) {
        let problem = Problem::new(format!("`{}` takes tiles, and this is an integer", args.name));
        let help = "an integer is used as it is: x[(n)] is an element, n as f32 a number, and a closure is called, f(n)";
        return Err(problem.help(help).arg(0));
    }
    let ins = ins.filter(|ins| !ins.is_empty()).ok_or_else(|| usage().arg(0))?;
    let at_elements = (closure.params.len() == elements.len() + 1).then(|| ins[0].rank());
    if closure.params.len() != elements.len() && at_elements.is_none() {
        let names = ["x", "y", "z", "u", "v", "w"].get(..elements.len()).map(|names| names.join(", "));
        let what = if ins.len() == elements.len() { "tensor" } else { "value" };
        let (takes, given) = (count(closure.params.len(), "number"), count(elements.len(), what));
        let problem = format!("the closure takes {takes}, and `{}` is given {given}", args.name);
        let help = names.map_or("write one parameter for each".into(), |names| {
            format!("write |{names}| …, or |{names}, at| … with the coordinates of elements, at.0 and on")
        });
        return Err(Problem::new(problem).help(help).arg(at));
    }
    Ok(Mapped { ins, elements, to, closure, at, at_elements })
}

/// A tensor, or a tuple of them.
pub(super) fn views(value: &Value) -> Option<Vec<View>> {
    let one = |value: &Value| match value {
        Value::View(view) => Some(view.clone()),
        _ => None,
    };
    match value {
        Value::Tuple(items) => items.iter().map(one).collect(),
        value => one(value).map(|view| vec![view]),
    }
}
