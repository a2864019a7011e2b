//! Partial evaluation of a kernel's text: layouts, tuples, constants and static loops are evaluated while
//! compiling; the residual program becomes calls on the builder. All mistakes are collected, each at its own
//! tokens.

mod advice;
mod args;
mod calls;
mod control;
mod copies;
mod device;
mod elements;
mod expression;
mod function;
mod functions;
mod instruction;
mod integer;
mod keys;
mod layouts;
mod matmul_keys;
mod mma;
mod numbers;
mod reduce;
mod scan;
mod tensors;
mod uses;
mod value;
mod views;
mod whole;

use tilewright_layout::{Tuple, Value as Size};

use crate::affine::{Affine, Arith, Coord};
use crate::ast::{self, Binary, Kernel, Level, Name, ParamKind, Pattern, Span, StmtKind};
use crate::build::Builder;
use crate::condition::Test;
use crate::definition::{Outcome, Settings};
use crate::diagnostic::{Diagnostic, Lint};
use crate::elem::Elem;
use crate::limits;
use crate::problem::Problem;
use crate::spelling::did_you_mean;
use crate::thread::Unroll;
use crate::tile::{self, Ahead};
use crate::typing::Scalar;
use crate::view::View;
pub(crate) use advice::element;
pub use device::device;
pub use functions::{FUNCTIONS, Function};
pub use keys::KEYS;
pub(crate) use matmul_keys::Keys;
use value::Value;

/// Makes the kernel of a function.
pub fn kernel(kernel: &Kernel, settings: &Settings) -> Outcome {
    let (program, diagnostics, levels) = program(kernel, settings);
    crate::generate::finish(program, Vec::new(), diagnostics, &levels)
}

/// The tile program of a function, its errors, and levels of lints.
pub(crate) fn program(
    kernel: &Kernel,
    settings: &Settings,
) -> (tile::Program, Vec<Diagnostic>, Vec<(Name, Level)>) {
    let mut run = Evaluator::new(&kernel.name.text);
    if kernel.overlaps {
        run.builder.overlaps();
    }
    run.heads(kernel);
    run.is_name("a kernel", &kernel.name.text, kernel.name.span);
    run.constants(kernel, settings);
    run.keys(kernel);
    run.devices.clone_from(&kernel.devices);
    run.params(kernel);
    run.body(&kernel.body);
    let mut levels = kernel.levels.clone();
    levels.extend(settings.levels.iter().cloned());
    for (name, _) in &levels {
        run.diagnostics.extend(Lint::unknown(name));
    }
    if !run.diagnostics.iter().any(|said| said.level == Level::Deny) {
        run.diagnostics.extend(run.uses.unused(&levels));
    }
    (run.builder.finish(), run.diagnostics, levels)
}

struct Evaluator {
    builder: Builder,
    /// Names, innermost last.
    scope: Vec<(String, Value)>,
    /// The scopes of the callers of closures under evaluation, for messages.
    callers: Vec<Vec<(String, Value)>>,
    /// The functions that the text under evaluation uses.
    devices: Vec<ast::Device>,
    /// The call of such a function, whose text is elsewhere, under evaluation.
    called_at: Option<Span>,
    diagnostics: Vec<Diagnostic>,
    /// Which names are used.
    uses: uses::Uses,
    /// Elements of inputs that have been loaded as integers in the open blocks.
    loaded: Vec<(View, Affine)>,
    /// Values of type parameters.
    types: Vec<(String, Elem)>,
    /// The names that the current `let` binds.
    naming: Vec<String>,
    /// Nesting depth of blocks and expressions.
    blocks: u32,
    depth: u32,
    work: Work,
    /// False for keys, which are read outside of any kernel.
    in_kernel: bool,
    /// Is this a function of elements, where `as` gives literals a type?
    in_closure: bool,
    /// The elements that the function of elements under evaluation reads besides its parameters.
    captured: Option<elements::Captured>,
    /// Is this the type of an argument, where unknown names are sizes?
    in_type: bool,
}

impl Evaluator {
    fn new(name: &str) -> Evaluator {
        Evaluator {
            builder: Builder::new(name),
            scope: Vec::new(),
            callers: Vec::new(),
            devices: Vec::new(),
            called_at: None,
            diagnostics: Vec::new(),
            uses: uses::Uses::default(),
            loaded: Vec::new(),
            types: Vec::new(),
            naming: Vec::new(),
            blocks: 0,
            depth: 0,
            work: Work::default(),
            in_kernel: true,
            in_closure: false,
            captured: None,
            in_type: false,
        }
    }

    fn complain(&mut self, span: Span, problem: Problem) -> Value {
        if problem != Problem::said() {
            self.diagnostics.push(problem.at(self.called_at.unwrap_or(span)));
        }
        Value::Poison
    }

    /// Complains unless the text is a name.
    fn is_name(&mut self, what: &str, text: &str, span: Span) -> bool {
        match limits::name(what, text) {
            Ok(()) => true,
            Err(problem) => {
                self.complain(span, problem);
                false
            }
        }
    }

    fn lookup(&self, name: &str) -> Option<&Value> {
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn constants(&mut self, kernel: &Kernel, settings: &Settings) {
        for (name, _) in &settings.consts {
            if !kernel.consts.iter().any(|c| c.name.text == name.text) {
                let known: Vec<_> = kernel.consts.iter().map(|c| c.name.text.as_str()).collect();
                let help = match known[..] {
                    [] => format!("`{}` has no constants", kernel.name.text),
                    _ => did_you_mean(&name.text, known.iter().copied())
                        .unwrap_or_else(|| format!("its constants are {}", known.join(", "))),
                };
                let problem = Problem::new(format!("`{}` has no constant `{}`", kernel.name.text, name.text));
                self.complain(name.span, problem.help(help));
            }
        }
        for constant in &kernel.consts {
            let set = settings.consts.iter().rev().find(|(name, _)| name.text == constant.name.text);
            let value = match (set, &constant.default) {
                (Some((_, n)), _) => Value::Int(*n),
                (None, Some(default)) => self.expr(default),
                (None, None) => self.complain(
                    constant.name.span,
                    Problem::new(format!("the constant `{}` has no value", constant.name.text))
                        .help(format!("give it a default, `const {}: usize = …`", constant.name.text)),
                ),
            };
            self.scope.push((constant.name.text.clone(), value));
        }
        for param in &kernel.types {
            let set = settings.types.iter().rev().find(|(name, _)| name.text == param.name.text);
            let allowed: Vec<Elem> = param.allowed.iter().filter_map(|name| self.elem(name)).collect();
            let elem = match set {
                Some((name, elem)) if !allowed.contains(elem) => {
                    let names: Vec<_> = allowed.iter().map(|e| e.name()).collect();
                    let problem = Problem::new(format!("`{}` cannot be {elem}", param.name.text));
                    self.complain(name.span, problem.help(format!("it may be {}", names.join(" or "))));
                    None
                }
                Some((_, elem)) => Some(*elem),
                None => allowed.first().copied(),
            };
            self.types.push((param.name.text.clone(), elem.unwrap_or(Elem::F32)));
        }
    }

    /// The element type of this name.
    fn elem(&mut self, name: &Name) -> Option<Elem> {
        if let Some((_, elem)) = self.types.iter().find(|(known, _)| *known == name.text) {
            return Some(*elem);
        }
        match Elem::named(&name.text) {
            Some(elem) => Some(elem),
            None => {
                let problem = Problem::new(format!("`{}` is not an element type", name.text));
                self.complain(name.span, problem.help(element(&name.text)));
                None
            }
        }
    }

    /// Names of the head must be distinct: constants, element types and arguments.
    fn heads(&mut self, kernel: &Kernel) {
        let consts = kernel.consts.iter().map(|constant| (&constant.name, "constant"));
        let types = kernel.types.iter().map(|ty| (&ty.name, "element type"));
        let params = kernel.params.iter().map(|param| (&param.name, "argument"));
        let devices = kernel.devices.iter().map(|device| (&device.name, "function"));
        let all: Vec<(&Name, &str)> = consts.chain(types).chain(params).chain(devices).collect();
        self.distinct(&all);
    }

    /// Names that must be distinct, with what they name.
    fn distinct(&mut self, all: &[(&Name, &str)]) {
        for (at, (name, what)) in all.iter().enumerate() {
            let Some((_, first)) = all[..at].iter().find(|(earlier, _)| earlier.text == name.text) else {
                continue;
            };
            let problem = Problem::new(match first == what {
                true => format!("`{}` is the name of two {what}s", name.text),
                false => format!("`{}` is the name of this {what} and of an earlier {first}", name.text),
            });
            self.complain(name.span, problem.help("rename one of them"));
        }
    }

    fn params(&mut self, kernel: &Kernel) {
        for param in &kernel.params {
            let named = self.is_name("an argument", &param.name.text, param.name.span);
            let Some(elem) = self.elem(&param.elem).filter(|_| named) else {
                self.scope.push((param.name.text.clone(), Value::Poison));
                continue;
            };
            self.builder.at(param.name.span);
            let value = match &param.kind {
                ParamKind::Scalar => {
                    self.uses.bind(&param.name, self.scope.len());
                    Value::Number(Scalar::new(self.builder.scalar(&param.name.text, elem), elem))
                }
                ParamKind::Tensor { mutable, shape, stride } => {
                    let of = |run: &mut Self, e: &ast::Expr| run.sizes(e);
                    let extents = of(self, shape);
                    let strides = stride.as_ref().map(|stride| of(self, stride));
                    match (extents, strides) {
                        (Some(extents), None) => {
                            self.tensor(param, elem, extents, None, *mutable, shape.span)
                        }
                        (Some(extents), Some(Some(strides))) => {
                            self.tensor(param, elem, extents, Some(strides), *mutable, shape.span)
                        }
                        _ => Value::Poison,
                    }
                }
            };
            self.scope.push((param.name.text.clone(), value));
        }
    }

    fn tensor(
        &mut self,
        param: &ast::Param,
        elem: Elem,
        shape: Tuple,
        stride: Option<Tuple>,
        mutable: bool,
        span: Span,
    ) -> Value {
        match self.builder.tensor(&param.name.text, elem, shape, stride, mutable) {
            Ok(view) => Value::View(view),
            Err(problem) => self.complain(span, problem),
        }
    }

    /// Sizes in the type of an argument: names that are no constants are known at launch.
    fn sizes(&mut self, expr: &ast::Expr) -> Option<Tuple> {
        use ast::ExprKind::{Name as Named, Tuple as Items};
        match &expr.kind {
            Named(name) => match self.lookup(name).cloned() {
                Some(Value::Int(n)) => Some(n.into()),
                Some(Value::Poison) => None,
                Some(other) => {
                    let problem = Problem::new(format!("`{name}` is {} here, not a size", other.kind()));
                    self.complain(expr.span, problem);
                    None
                }
                None => match static_stride(name) {
                    Some(size) => Some(size.into()),
                    None => self.is_name("a size", name, expr.span).then(|| Size::symbol(name).into()),
                },
            },
            Items(items) if self.depth < limits::DEEPEST => {
                self.depth += 1;
                let sizes: Vec<_> = items.iter().map(|item| self.sizes(item)).collect();
                self.depth -= 1;
                Some(Tuple::of(sizes.into_iter().collect::<Option<Vec<_>>>()?))
            }
            _ => {
                self.in_type = true;
                let made = self.expr(expr);
                self.in_type = false;
                // Tiles divide a size, or a multiple of one.
                let made = match made {
                    Value::Size(Size::Sym { times, of, over }) if times != 1 => {
                        Value::Index(Size::Sym { times, of, over }.into())
                    }
                    made => made,
                };
                match made {
                    Value::Int(n) => Some(n.into()),
                    Value::Size(size) => Some(size.into()),
                    Value::Index(at) if self.is_of_sizes(&at) => match self.builder.computed(&at) {
                        Ok(size) => Some(size.into()),
                        Err(problem) => {
                            self.complain(expr.span, problem);
                            None
                        }
                    },
                    Value::Poison => None,
                    other => {
                        let problem =
                            Problem::new(format!("a size is needed here, and this is {}", other.kind()));
                        self.complain(
                            expr.span,
                            problem.help("write a number, a constant, or a name such as M"),
                        );
                        None
                    }
                }
            }
        }
    }

    /// Is it made of sizes alone?
    fn is_of_sizes(&self, of: &Affine) -> bool {
        !of.any(&|coord| !matches!(coord, Coord::Size { .. } | Coord::Digit { .. } | Coord::Two(..)))
    }

    fn body(&mut self, body: &[ast::Stmt]) {
        if self.blocks >= limits::DEEPEST_BLOCKS {
            if let Some(stmt) = body.first() {
                self.complain(stmt.span, limits::too_deep());
            }
            return;
        }
        self.blocks += 1;
        let (depth, loaded) = (self.scope.len(), self.loaded.len());
        for stmt in body {
            self.builder.at(stmt.span);
            self.statement(stmt);
            if !self.goes_on(1, stmt.span) {
                break;
            }
        }
        self.scope.truncate(depth);
        self.loaded.truncate(loaded);
        self.blocks -= 1;
    }

    /// Counts evaluated values. Beyond the limit evaluation stops, and one error says why.
    fn goes_on(&mut self, values: u64, span: Span) -> bool {
        if !self.work.is_over {
            self.work.values += values;
            let statements = self.builder.statements();
            let problem = if statements > limits::MOST_STATEMENTS {
                limits::too_much(statements)
            } else if self.work.values > limits::MOST_VALUES {
                Problem::new(format!(
                    "by here more than {} values have been computed to make {statements} statements of the kernel",
                    limits::MOST_VALUES
                ))
                .help("use a loop that the kernel runs, `for i in 0..n` without `unroll`, or fewer layouts")
            } else {
                return true;
            };
            self.work.is_over = true;
            self.complain(span, problem);
        }
        false
    }

    fn statement(&mut self, stmt: &ast::Stmt) {
        match &stmt.kind {
            StmtKind::Let { pattern, value } => self.bind_let(pattern, value),
            StmtKind::Expr(expr) => {
                let value = self.expr(expr);
                if !matches!(value, Value::Unit | Value::Poison) {
                    let problem =
                        Problem::new(format!("this is {}, and nothing is done with it", value.kind()));
                    self.complain(expr.span, problem.help("bind it with `let`, or remove it"));
                }
            }
            StmtKind::Assign { target, op, value } => self.assign(target, *op, value, stmt.span),
            StmtKind::For { pattern, range, body } => self.repeat(pattern, range, body),
            StmtKind::If { condition, then, other } => match self.expr(condition) {
                Value::Bool(true) => self.body(then),
                Value::Bool(false) => self.body(other),
                Value::Poison => {}
                found => match integer::test(&found) {
                    Some(test) => self.branch(test, then, other, stmt.span),
                    None => {
                        self.complain(condition.span, advice::condition(&found));
                    }
                },
            },
            StmtKind::Block { head, .. } => {
                let problem = Problem::new("this block is not a statement of kernels");
                self.complain(head.span, problem.help("use `for`, `if`, or plain statements"));
            }
        }
    }

    fn bind_let(&mut self, pattern: &Pattern, value: &ast::Expr) {
        // A tuple of values for a tuple of names: each is bound before it is made.
        if let (Pattern::Tuple(_, patterns), ast::ExprKind::Tuple(values)) = (pattern, &value.kind)
            && patterns.len() == values.len()
        {
            let made: Vec<Value> = patterns.iter().zip(values).map(|(p, v)| self.named(p, v)).collect();
            for (pattern, value) in patterns.iter().zip(made) {
                self.bind(pattern, value);
                self.watch(pattern);
            }
            return;
        }
        let made = self.named(pattern, value);
        self.bind(pattern, made);
        self.watch(pattern);
    }

    /// Is the use of the last bound name tracked?
    fn watch(&mut self, pattern: &Pattern) {
        if let (Pattern::Name(name), Some(place)) = (pattern, self.scope.len().checked_sub(1))
            && !self.in_closure
            && self.callers.is_empty()
            && self.in_kernel
        {
            self.uses.bind(name, place);
        }
    }

    fn named(&mut self, pattern: &Pattern, value: &ast::Expr) -> Value {
        let one = |pattern: &Pattern| match pattern {
            Pattern::Name(name) if limits::is_name(&name.text) => name.text.clone(),
            _ => "fragment".to_owned(),
        };
        self.naming = match pattern {
            Pattern::Name(_) => vec![one(pattern)],
            Pattern::Tuple(_, patterns) => patterns.iter().map(one).collect(),
            Pattern::Hole(_) => Vec::new(),
        };
        let made = self.expr(value);
        self.naming.clear();
        match (pattern, made) {
            (Pattern::Name(name), Value::View(view)) => Value::View(view.with_name(&name.text)),
            (_, made) => made,
        }
    }

    fn bind(&mut self, pattern: &Pattern, value: Value) {
        match (pattern, value) {
            (Pattern::Hole(_), _) => {}
            (Pattern::Name(name), _) if !limits::is_name(&name.text) => {
                self.is_name("a value", &name.text, name.span);
                self.scope.push((name.text.clone(), Value::Poison));
            }
            (Pattern::Name(name), Value::Unit) => {
                let problem =
                    Problem::new(format!("`{}` would be nothing: the call has no value", name.text));
                self.complain(name.span, problem.help("write it as a statement of its own"));
                self.scope.push((name.text.clone(), Value::Poison));
            }
            (Pattern::Name(name), value) => self.scope.push((name.text.clone(), value)),
            (Pattern::Tuple(_, patterns), Value::Tuple(values)) if patterns.len() == values.len() => {
                for (pattern, value) in patterns.iter().zip(values) {
                    self.bind(pattern, value);
                }
            }
            (Pattern::Tuple(span, patterns), value) => {
                if !matches!(value, Value::Poison) {
                    let problem = Problem::new(format!("{} names for {}", patterns.len(), value.kind()));
                    self.complain(*span, problem.help("write as many names as there are values"));
                }
                for pattern in patterns {
                    self.bind(pattern, Value::Poison);
                }
            }
        }
    }

    /// `fragment = …`, `fragment *= …`: sets every element of a fragment.
    fn assign(&mut self, target: &ast::Expr, op: Option<Binary>, value: &ast::Expr, span: Span) {
        if let (ast::ExprKind::Tuple(targets), None) = (&target.kind, op) {
            return self.assign_all(targets, value);
        }
        let from = self.expr(value);
        self.assign_value(target, op, (from, value.span), span);
    }

    /// `(a, b) = …`: all values are computed before any is assigned.
    fn assign_all(&mut self, targets: &[ast::Expr], value: &ast::Expr) {
        let values = match self.expr(value) {
            Value::Tuple(values) if values.len() == targets.len() => values,
            Value::Poison => return,
            other => {
                let problem = Problem::new(format!(
                    "{} are set, and this is {}",
                    advice::count(targets.len(), "tensor"),
                    other.kind()
                ));
                self.complain(value.span, problem.help("write one value for each: (a, b) = (x, y)"));
                return;
            }
        };
        let (mut made, value_span) = (Vec::new(), value.span);
        for value in values {
            made.push(match value {
                Value::View(view) => self.copied(view, value_span),
                value => value,
            });
        }
        for (target, from) in targets.iter().zip(made) {
            self.assign_value(target, None, (from, value.span), target.span);
        }
    }

    /// Copies elements of a tensor that has a name into registers of their own, so that they survive an
    /// assignment to it.
    fn copied(&mut self, view: View, span: Span) -> Value {
        let named =
            self.scope.iter().any(|(_, value)| matches!(value, Value::View(of) if of.tensor == view.tensor));
        if !named {
            return Value::View(view);
        }
        let elem = self.builder.elem(&view);
        let made = self.builder.registers("held", elem, view.shape()).and_then(|copy| {
            self.builder.map(std::slice::from_ref(&view), &copy, tile::Expr::In(0))?;
            Ok(copy)
        });
        match made {
            Ok(copy) => Value::View(copy),
            Err(problem) => self.complain(span, problem),
        }
    }

    fn assign_value(
        &mut self,
        target: &ast::Expr,
        op: Option<Binary>,
        (from, from_span): (Value, Span),
        span: Span,
    ) {
        let to = self.expr(target);
        let to = match to {
            Value::View(view) => view,
            Value::Poison => return,
            other => {
                let problem = Problem::new(format!("{} cannot be changed", other.kind()));
                let help = "only tensors hold values that change: let mut total = registers::<f32>((1), 0.0)";
                self.complain(target.span, problem.help(help));
                return;
            }
        };
        let elem = self.builder.elem(&to);
        // An assignment without an operator does not read its target.
        let reads = op.is_some();
        let (view, right) = match from {
            Value::Poison => return,
            Value::View(view) => {
                let place = tile::Expr::In(u8::from(reads));
                let right = Scalar::new(place, self.builder.elem(&view));
                (Some(view), right)
            }
            other => match other.as_number() {
                Some(number) => (None, number),
                None => {
                    let problem = Problem::new(format!("elements cannot be set to {}", other.kind()));
                    self.complain(from_span, problem.help("write a number, or a tensor of the same shape"));
                    return;
                }
            },
        };
        let left = Scalar::new(tile::Expr::In(0), elem);
        let of = match op {
            None => Ok(right),
            Some(op) => expression::arithmetic(op, left, right),
        };
        // The elements of a tensor are converted by a function, not by `as`.
        let advised = |problem: Problem| match (&view, problem.arg) {
            (Some(view), None) => problem.help(format!("write `map({}, |x| x as {elem})`", view.name)),
            _ => problem,
        };
        let of = match of {
            Ok(of) => of,
            Err(problem) => {
                let at = if problem.arg == Some(1) { from_span } else { span };
                self.complain(at, advised(problem));
                return;
            }
        };
        if let Err(problem) = of.clone().into_elem(elem) {
            self.complain(from_span, advised(problem));
            return;
        }
        let of = of.expr;
        let ins: Vec<_> = reads.then(|| to.clone()).into_iter().chain(view).collect();
        let (done, target_arg) = match &ins[..] {
            [] => (self.builder.fill(&to, of), 0),
            ins => (self.builder.map(ins, &to, of), 1),
        };
        if let Err(problem) = done {
            let span = if problem.arg == Some(target_arg) { target.span } else { from_span };
            self.complain(span, problem);
        }
    }

    fn repeat(&mut self, pattern: &Pattern, range: &ast::Expr, body: &[ast::Stmt]) {
        let (range_value, unrolled, ahead) = match &range.kind {
            ast::ExprKind::Call { function, args, .. } if function.text == "unroll" && args.len() == 1 => {
                (self.expr(&args[0].value), true, None)
            }
            ast::ExprKind::Call { function, args, .. } if function.text == "pipelined" => {
                let Some((range, ahead)) = self.pipelined(args, range.span) else { return };
                (range, false, Some(ahead))
            }
            _ => (self.expr(range), false, None),
        };
        let (from, to) = match range_value {
            Value::Range(from, to) => (self.read(*from, range.span), self.read(*to, range.span)),
            Value::Poison => return,
            other => {
                let problem = Problem::new(format!("a loop needs a range, and this is {}", other.kind()));
                self.complain(range.span, problem.help("write `for k in 0..tensor.size(2)`"));
                return;
            }
        };
        match (from, to, unrolled) {
            (Value::Int(from), Value::Int(to), true) => {
                for n in from..to {
                    let depth = self.scope.len();
                    self.bind(pattern, Value::Int(n));
                    self.body(body);
                    self.scope.truncate(depth);
                    if !self.goes_on(1, range.span) {
                        break;
                    }
                }
            }
            (Value::Poison, ..) | (_, Value::Poison, _) => {}
            (from, to, true) if self.integer(&from).is_some() && self.integer(&to).is_some() => {
                let problem = Problem::new("this range is known only at launch, so it cannot be unrolled");
                self.complain(range.span, problem.help("write the range without `unroll`"));
            }
            (from, to, _) => match (self.integer(&from), self.integer(&to)) {
                // An empty range, for these constants.
                (Some(from), Some(to)) if empty(&from, &to) => {}
                (Some(from), Some(to)) => self.run_loop(pattern, (from, to), ahead, body),
                _ => {
                    let problem = Problem::new(format!(
                        "a loop runs over integers, and this one from {} to {}",
                        from.kind(),
                        to.kind()
                    ));
                    self.complain(range.span, problem.help("write `for k in 0..tensor.size(2)`"));
                }
            },
        }
    }

    /// A condition that is decided at run time.
    fn branch(&mut self, test: Test, then: &[ast::Stmt], other: &[ast::Stmt], span: Span) {
        // The builder cannot be borrowed while the bodies run through it, so it is swapped out.
        let mut builder = std::mem::replace(&mut self.builder, Builder::new(""));
        builder.at(span);
        let mut arms = [then, other].into_iter();
        let run = std::cell::RefCell::new(&mut *self);
        let mut arm = |inner: &mut Builder| {
            let run = &mut **run.borrow_mut();
            std::mem::swap(&mut run.builder, inner);
            run.body(arms.next().unwrap_or_default());
            std::mem::swap(&mut run.builder, inner);
        };
        builder.arms(test, &mut arm);
        self.builder = builder;
    }

    /// The range of `pipelined(0..n, stages = 3, fragments = 2)`, and its stages.
    fn pipelined(&mut self, args: &[ast::Arg], span: Span) -> Option<(Value, Ahead)> {
        const USAGE: &str = "write for k in pipelined(0..tensor.size(2), stages = 3)";
        let (mut range, mut stages, mut fragments, mut exits, mut producer) = (None, None, None, None, false);
        for arg in args {
            if arg.name.as_ref().is_some_and(|name| name.text == "producer") {
                if !matches!(&arg.value.kind, ast::ExprKind::Name(name) if name == "warp") {
                    let problem = Problem::new("the producer of a pipelined loop is a warp");
                    self.complain(arg.value.span, problem.help("write producer = warp"));
                    return None;
                }
                producer = true;
                continue;
            }
            let value = self.expr(&arg.value);
            match (arg.name.as_ref().map(|name| name.text.as_str()), value) {
                (_, Value::Poison) => return None,
                (None, value @ Value::Range(..)) if range.is_none() => range = Some(value),
                (Some("stages"), Value::Int(n)) if stages.is_none() && u32::try_from(n).is_ok() => {
                    stages = Some(n as u32)
                }
                (Some("fragments"), Value::Int(n)) if fragments.is_none() && u32::try_from(n).is_ok() => {
                    fragments = Some(n as u32)
                }
                (Some("exits"), Value::Bool(leaves)) if exits.is_none() => exits = Some(leaves),
                (_, other) => {
                    let problem = Problem::new(format!("a pipelined loop does not take {}", other.kind()));
                    self.complain(arg.value.span, problem.help(USAGE));
                    return None;
                }
            }
        }
        match (range, stages) {
            (Some(range), Some(stages)) => {
                let (fragments, exits) = (fragments.unwrap_or(1), exits.unwrap_or(true));
                Some((range, Ahead { stages, fragments, exits, producer }))
            }
            _ => {
                let problem = Problem::new("a pipelined loop needs a range and its stages");
                self.complain(span, problem.help(USAGE));
                None
            }
        }
    }

    fn run_loop(
        &mut self,
        pattern: &Pattern,
        (from, to): (Affine, Affine),
        ahead: Option<Ahead>,
        body: &[ast::Stmt],
    ) {
        let name = match pattern {
            Pattern::Name(name) => name.text.clone(),
            _ => "i".to_owned(),
        };
        // The builder cannot be borrowed while the body runs through it, so it is swapped out.
        let mut builder = std::mem::replace(&mut self.builder, Builder::new(""));
        // A pipelined loop counts its iterations from 0. An empty range has none, wherever it begins.
        let narrow = builder.program().range(&from).is_narrow();
        let first = if narrow { Some(from.clone()) } else { Affine::two(Arith::Min, &from, &to) };
        let (first, from, to) = match (ahead, to.plus(&from, -1).zip(first)) {
            (Some(_), Some((count, first))) => (first, 0.into(), count),
            _ => (0.into(), from, to),
        };
        let iteration = |inner: &mut Builder, var: Affine| {
            std::mem::swap(&mut self.builder, inner);
            let depth = self.scope.len();
            self.bind(pattern, first.plus(&var, 1).map_or(Value::Poison, Value::Index));
            self.body(body);
            self.scope.truncate(depth);
            std::mem::swap(&mut self.builder, inner);
        };
        match ahead {
            Some(ahead) => builder.pipelined(&name, to, ahead, iteration),
            None => builder.repeat_over(&name, from, to, Unroll::No, iteration),
        }
        self.builder = builder;
    }
}

/// Is the range between two integers known to be empty?
fn empty(from: &Affine, to: &Affine) -> bool {
    matches!((from.constant(), to.constant()), (Some(from), Some(to)) if from >= to)
}

/// The evaluation budget spent so far.
#[derive(Default)]
struct Work {
    values: u64,
    /// The budget was exceeded, and this has been reported.
    is_over: bool,
}

/// `_1` in a stride: the integer 1, known while compiling.
fn static_stride(name: &str) -> Option<Size> {
    name.strip_prefix('_')?.parse().ok().map(Size::Int)
}

/// The level of a lint: its own, or the last that was set.
pub(crate) fn level(lint: &Lint, set: &[(Name, Level)]) -> Level {
    set.iter().rev().find(|(name, _)| name.text == lint.name).map_or(lint.level, |(_, level)| *level)
}
