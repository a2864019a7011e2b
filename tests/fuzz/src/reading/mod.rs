//! A second reading of a kernel's text, without views and layouts: the coordinates of tiles, partitions and
//! slices, element by element, for one block, one thread and one iteration of each loop. The tile program
//! must agree.

mod part;

use std::collections::BTreeMap;

use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::ast::{
    Arg, Binary, Expr, ExprKind, Kernel, ParamKind, Pattern, Stmt, StmtKind, Unary,
};
use tilewright_codegen::tile::{Op, Program};
use tilewright_layout::Symbol;

use crate::reference::{Moment, point};
use part::{Part, compared, orders, whole};

#[derive(Clone)]
enum Value {
    Number(i128),
    Hole,
    Tuple(Vec<Value>),
    View(Part),
    /// Shape and strides, mode by mode, leaf by leaf.
    Layout(Vec<Vec<(i128, i128)>>),
    Range(i128, i128),
    Other,
}

/// A statement of the text, as the views that it names.
struct Named {
    what: &'static str,
    views: Vec<Part>,
}

struct Reader<'r> {
    moment: &'r Moment,
    symbols: &'r [(Symbol, i64)],
    scope: Vec<(String, Value)>,
    statements: Vec<Named>,
    loops: usize,
    /// How many functions have made registers.
    made: usize,
    /// Variables of the program's loops.
    kept: Vec<&'r str>,
    /// Was a condition or a coordinate met that is not evaluated here?
    undecided: bool,
}

/// The first difference between a program and its text.
pub fn differs(
    kernel: &Kernel,
    program: &Program,
    symbols: &[(Symbol, i64)],
    moment: &Moment,
) -> Option<String> {
    if decides(program) {
        return None;
    }
    let mut reader = Reader {
        moment,
        symbols,
        scope: Vec::new(),
        statements: Vec::new(),
        loops: 0,
        made: 0,
        kept: kept(program),
        undecided: false,
    };
    for param in &kernel.params {
        let ParamKind::Tensor { shape, .. } = &param.kind else { continue };
        let extents = reader.extents(shape)?;
        let rank = extents.len();
        let modes = extents.into_iter().enumerate().map(|(mode, count)| whole(mode, rank, count)).collect();
        reader.scope.push((
            param.name.text.clone(),
            Value::View(Part { modes, base: vec![0; rank], out_of_bounds: false, made: None }),
        ));
    }
    match reader.body(&kernel.body) {
        None if reader.undecided => return None,
        None => return Some("the text is not supported".into()),
        Some(()) => {}
    }
    let mut ops = Vec::new();
    for stmt in &program.body {
        stmt.each(&mut |stmt| ops.push(stmt));
    }
    let mut statements = reader.statements.iter();
    // The orders that the modes of each function's registers may have, after all statements so far.
    let mut permuted: BTreeMap<usize, Vec<Vec<usize>>> = BTreeMap::new();
    for stmt in ops {
        let Some(views) = point(program, symbols, moment, stmt) else { continue };
        let Some(statement) = statements.next() else {
            return Some(format!("the text has no statement for {:?}", stmt.op));
        };
        if statement.views.len() != views.len() {
            return Some(format!("what the text calls {} is {:?}", statement.what, stmt.op));
        }
        for (of_text, view) in statement.views.iter().zip(&views) {
            let rank = of_text.base.len();
            let possible = match of_text.made {
                Some(number) => permuted.entry(number).or_insert_with(|| orders(rank)),
                None => &mut vec![(0..rank).collect()],
            };
            let differences: Vec<_> = possible.iter().map(|order| compared(of_text, view, order)).collect();
            let mut result = differences.iter();
            possible.retain(|_| result.next().is_some_and(Option::is_none));
            if possible.is_empty()
                && let Some(why) = differences.into_iter().flatten().next()
            {
                return Some(format!("{} `{}`: {why}, at {moment:?}", statement.what, view.name));
            }
        }
    }
    statements.next().map(|statement| format!("the program lacks a {}", statement.what))
}

/// Does control flow depend on integers that are not evaluated here: of memory, of comparisons, of computed
/// bounds?
fn decides(program: &Program) -> bool {
    let computed = |at: &Affine| at.any(&|coord| matches!(coord, Coord::Two(..) | Coord::Scalar(_)));
    let mut result = !program.reads.is_empty() || program.vars.iter().any(|var| var.extent().is_none());
    program.body.iter().for_each(|stmt| {
        stmt.each(&mut |stmt| {
            let mut views = stmt.reads().into_iter().chain(stmt.writes());
            result |= matches!(stmt.op, Op::If { .. });
            result |= views.any(|view| view.base.iter().any(computed));
        });
    });
    result
}

/// The names of variables that loops of the program have.
fn kept(program: &Program) -> Vec<&str> {
    let mut names = Vec::new();
    program.body.iter().for_each(|stmt| {
        stmt.each(&mut |stmt| {
            if let Op::For { var, .. } | Op::Pipelined { var, .. } = &stmt.op {
                names.push(program.vars[*var as usize].name.as_str());
            }
        });
    });
    names
}

impl Reader<'_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        let known = self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        known.or_else(|| self.size(name).map(Value::Number))
    }

    fn size(&self, name: &str) -> Option<i128> {
        self.symbols.iter().find(|(symbol, _)| symbol.name() == name).map(|(_, n)| i128::from(*n))
    }

    fn extents(&self, shape: &Expr) -> Option<Vec<i128>> {
        match &shape.kind {
            ExprKind::Tuple(items) => items.iter().map(|item| self.extents(item).map(|n| n[0])).collect(),
            ExprKind::Name(name) => self.size(name).map(|n| vec![n]),
            ExprKind::Int(n) => Some(vec![(*n).into()]),
            _ => None,
        }
    }

    fn body(&mut self, body: &[Stmt]) -> Option<()> {
        let depth = self.scope.len();
        for stmt in body {
            match &stmt.kind {
                StmtKind::Let { pattern: Pattern::Name(name), value } => {
                    let value = self.value(value)?;
                    self.scope.push((name.text.clone(), value));
                }
                StmtKind::Expr(value) => {
                    self.value(value)?;
                }
                StmtKind::Assign { target, op, value } => {
                    let target = self.view(target)?;
                    let mut views = if op.is_some() { vec![target.clone()] } else { Vec::new() };
                    if let Some(Value::View(view)) = self.value(value) {
                        views.push(view.spread(&target));
                    }
                    views.push(target);
                    self.statements.push(Named { what: "assignment to", views });
                }
                StmtKind::For { pattern: Pattern::Name(name), range, body } => {
                    self.repeat(&name.text, range, body)?
                }
                // The program has none: conditions are known while compiling.
                StmtKind::If { condition, then, other } => match self.value(condition)? {
                    Value::Number(truth) => self.body(if truth != 0 { then } else { other })?,
                    _ => {
                        self.undecided = true;
                        return None;
                    }
                },
                _ => return None,
            }
        }
        self.scope.truncate(depth);
        Some(())
    }

    fn repeat(&mut self, var: &str, range: &Expr, body: &[Stmt]) -> Option<()> {
        let (range, unrolled, pipelined) = match &range.kind {
            ExprKind::Call { function, args, .. } => {
                (&args[0].value, function.text == "unroll", function.text == "pipelined")
            }
            _ => (range, false, false),
        };
        let Value::Range(begin, end) = self.value(range)? else { return None };
        // It has no effect, and where its ends are known while compiling it is not in the program.
        if begin >= end && !unrolled && !self.kept.contains(&var) {
            return Some(());
        }
        // Programs count iterations of pipelined loops from 0.
        let sampled = self.iteration() + if pipelined { begin } else { 0 };
        let iterations = if unrolled { 0..end } else { sampled..sampled + 1 };
        self.loops += usize::from(!unrolled);
        for iteration in iterations {
            self.scope.push((var.to_owned(), Value::Number(iteration)));
            self.body(body)?;
            self.scope.pop();
        }
        Some(())
    }

    /// The sampled iteration of the next loop.
    fn iteration(&self) -> i128 {
        self.moment.iterations.get(self.loops).copied().unwrap_or(0)
    }

    fn number(&mut self, of: &Expr) -> Option<i128> {
        match self.value(of)? {
            Value::Number(n) => Some(n),
            _ => None,
        }
    }

    fn view(&mut self, of: &Expr) -> Option<Part> {
        match self.value(of)? {
            Value::View(view) => Some(view),
            _ => None,
        }
    }

    /// One value or several, as numbers.
    fn numbers(&mut self, of: &Expr) -> Option<Vec<i128>> {
        match self.value(of)? {
            Value::Number(n) => Some(vec![n]),
            Value::Tuple(all) => all
                .into_iter()
                .map(|value| if let Value::Number(n) = value { Some(n) } else { None })
                .collect(),
            _ => None,
        }
    }

    fn value(&mut self, of: &Expr) -> Option<Value> {
        Some(match &of.kind {
            ExprKind::Int(n) => Value::Number((*n).into()),
            ExprKind::Hole => Value::Hole,
            ExprKind::Name(name) => self.lookup(name).unwrap_or(Value::Other),
            ExprKind::Tuple(items) => {
                Value::Tuple(items.iter().map(|item| self.value(item)).collect::<Option<_>>()?)
            }
            ExprKind::Field { base, field } => match &base.kind {
                ExprKind::Name(name) if name == "thread" => Value::Number(self.moment.thread.into()),
                _ if field.text.parse::<usize>().is_ok() => match self.value(base)? {
                    Value::Tuple(mut entries) => entries.remove(field.text.parse().ok()?),
                    _ => return None,
                },
                _ => {
                    let axis = ["x", "y", "z"].iter().position(|axis| *axis == field.text)?;
                    Value::Number(self.moment.block[axis].into())
                }
            },
            ExprKind::Bool(truth) => Value::Number((*truth).into()),
            ExprKind::Unary(op, inner) => match (op, self.value(inner)?) {
                (Unary::Neg, Value::Number(n)) => Value::Number(-n),
                (Unary::Not, Value::Number(n)) => Value::Number(1 - n),
                _ => Value::Other,
            },
            ExprKind::Binary(op, x, y) => match (op, self.value(x)?, self.value(y)?) {
                (Binary::And, Value::Number(0), _) | (Binary::And, _, Value::Number(0)) => Value::Number(0),
                (Binary::Or, Value::Number(1), _) | (Binary::Or, _, Value::Number(1)) => Value::Number(1),
                (op, Value::Number(x), Value::Number(y)) => Value::Number(binary(*op, x, y)?),
                _ => Value::Other,
            },
            ExprKind::Range(from, to) => Value::Range(self.number(from)?, self.number(to)?),
            ExprKind::Method { receiver, method, args } => {
                let view = self.view(receiver)?;
                let mode = self.number(&args[0].value)?;
                if method.text == "along" {
                    return Some(Value::View(view.along(mode == 0)));
                }
                Value::Number(view.modes.get(mode as usize)?.count)
            }
            ExprKind::Index { base, index } => {
                let view = self.view(base)?;
                let at = match self.value(index)? {
                    Value::Tuple(all) => all,
                    one => vec![one],
                };
                self.decided(&at)?;
                Value::View(view.keep(&view.modes, &at)?)
            }
            ExprKind::Layout { shape, stride } => self.layout(shape, stride.as_deref())?,
            ExprKind::Call { function, args, .. } => self.call(&function.text, args)?,
            _ => Value::Other,
        })
    }

    /// Unused tiles may have coordinates of any kind.
    fn decided(&mut self, at: &[Value]) -> Option<()> {
        self.undecided |= at.iter().any(|at| matches!(at, Value::Other));
        (!self.undecided).then_some(())
    }

    fn layout(&mut self, shape: &Expr, stride: Option<&Expr>) -> Option<Value> {
        fn leaves(of: &Value) -> Option<Vec<Vec<i128>>> {
            let inner = |value: &Value| match value {
                Value::Number(n) => Some(vec![*n]),
                Value::Tuple(all) => all
                    .iter()
                    .map(|value| if let Value::Number(n) = value { Some(*n) } else { None })
                    .collect(),
                _ => None,
            };
            match of {
                Value::Tuple(all) => all.iter().map(inner).collect(),
                one => Some(vec![inner(one)?]),
            }
        }
        let shape = leaves(&self.value(shape)?)?;
        let strides = match stride {
            Some(stride) => leaves(&self.value(stride)?)?,
            None => {
                let mut next = 1;
                let compact = |n: &i128| {
                    let stride = next;
                    next *= n;
                    stride
                };
                let flat: Vec<i128> = shape.iter().flatten().map(compact).collect();
                let mut flat = flat.into_iter();
                shape.iter().map(|mode| flat.by_ref().take(mode.len()).collect()).collect()
            }
        };
        let modes = shape.into_iter().zip(strides).map(|(n, d)| n.into_iter().zip(d).collect());
        Some(Value::Layout(modes.collect()))
    }

    /// A new tensor with this shape.
    fn fresh(&mut self, shape: &[i128]) -> Part {
        let modes = shape.iter().enumerate().map(|(mode, &count)| whole(mode, shape.len(), count)).collect();
        Part { modes, base: vec![0; shape.len()], out_of_bounds: false, made: None }
    }

    fn filled(&mut self, shape: &[i128]) -> Part {
        let view = self.fresh(shape);
        self.statements.push(Named { what: "fill of", views: vec![view.clone()] });
        view
    }

    fn call(&mut self, function: &str, args: &[Arg]) -> Option<Value> {
        let named =
            |key: &str| args.iter().find(|arg| arg.name.as_ref().is_some_and(|name| name.text == key));
        let of = |n: usize| args.get(n).filter(|arg| arg.name.is_none()).map(|arg| &arg.value);
        Some(match function {
            "min" | "max" => match (self.value(of(0)?)?, self.value(of(1)?)?) {
                (Value::Number(x), Value::Number(y)) => {
                    Value::Number(if function == "min" { x.min(y) } else { x.max(y) })
                }
                _ => Value::Other,
            },
            "tile" => {
                let view = self.view(of(0)?)?;
                let tile = self.numbers(of(1)?)?;
                let at = match self.value(of(2)?)? {
                    Value::Tuple(all) => all,
                    one => vec![one],
                };
                self.decided(&at)?;
                Value::View(view.tiled(&tile, &at)?)
            }
            "parallelize" => {
                let view = self.view(of(0)?)?;
                let Value::Layout(threads) = self.value(of(1)?)? else { return None };
                let thread = self.number(of(2)?)?;
                let keep = match args.get(3).filter(|arg| arg.name.is_none()) {
                    Some(arg) => match self.value(&arg.value)? {
                        Value::Tuple(all) => all.iter().map(|value| !matches!(value, Value::Hole)).collect(),
                        _ => return None,
                    },
                    None => vec![true; threads.len()],
                };
                let values = match named("values") {
                    Some(arg) => self.numbers(&arg.value)?,
                    None => Vec::new(),
                };
                let ragged = named("ragged").is_some();
                let kept: Vec<_> =
                    threads.iter().zip(keep).filter(|(_, kept)| *kept).map(|(mode, _)| mode).collect();
                Value::View(view.partitioned(&kept, thread, &values, ragged))
            }
            "shared" => match self.value(of(0)?)? {
                Value::Layout(modes) => {
                    let shape: Vec<i128> =
                        modes.iter().map(|mode| mode.iter().map(|leaf| leaf.0).product()).collect();
                    Value::View(self.fresh(&shape))
                }
                _ => return None,
            },
            "padded" | "row_major" => {
                let shape = self.numbers(of(0)?)?;
                Value::Layout(shape.into_iter().map(|n| vec![(n, 0)]).collect())
            }
            "swizzled" => self.value(of(3)?)?,
            "registers" => {
                let shape = self.numbers(of(0)?)?;
                Value::View(self.filled(&shape))
            }
            "copy" => {
                let views = vec![self.view(of(0)?)?, self.view(of(1)?)?];
                self.statements.push(Named { what: "copy of", views });
                Value::Other
            }
            "fill" => {
                let views = vec![self.view(of(0)?)?];
                self.statements.push(Named { what: "fill of", views });
                Value::Other
            }
            "gemm" => {
                let views = vec![self.view(of(0)?)?, self.view(of(1)?)?, self.view(of(2)?)?];
                self.statements.push(Named { what: "product of", views });
                Value::Other
            }
            "map" => self.map(args)?,
            "scan" | "warp_scan" | "block_scan" => {
                let from = self.view(of(0)?)?;
                let to = self.fresh(&from.counts());
                self.statements.push(Named { what: "scan of", views: vec![from, to.clone()] });
                Value::View(to)
            }
            "reduce" | "warp_reduce" | "block_reduce" => {
                let given = self.value(of(0)?)?;
                let is_tuple = matches!(given, Value::Tuple(_));
                let entries = if let Value::Tuple(entries) = given { entries } else { vec![given] };
                let from: Vec<Part> = entries
                    .into_iter()
                    .map(|entry| if let Value::View(view) = entry { Some(view) } else { None })
                    .collect::<Option<_>>()?;
                let mut shape = from.first()?.counts();
                if function == "reduce" {
                    shape.fill(1);
                }
                let to: Vec<Part> = from.iter().map(|_| self.filled(&shape)).collect();
                let views = from.iter().chain(&to).cloned().collect();
                self.statements.push(Named { what: "reduction of", views });
                let mut to: Vec<Value> = to.into_iter().map(Value::View).collect();
                if is_tuple { Value::Tuple(to) } else { to.remove(0) }
            }
            _ if ["sum", "maximum", "minimum"].iter().any(|of| function.ends_with(of)) => {
                let from = self.view(of(0)?)?;
                let mut shape = from.counts();
                match (function.contains('_'), of(1)) {
                    (true, _) => {}
                    (false, Some(mode)) => shape[self.number(mode)? as usize] = 1,
                    (false, None) => shape.fill(1),
                }
                let to = self.filled(&shape);
                self.statements.push(Named { what: "reduction of", views: vec![from, to.clone()] });
                Value::View(to)
            }
            _ => Value::Other,
        })
    }

    fn map(&mut self, args: &[Arg]) -> Option<Value> {
        let ins = match self.value(&args[0].value)? {
            Value::View(view) => vec![view],
            Value::Tuple(all) => all
                .into_iter()
                .map(|value| if let Value::View(view) = value { Some(view) } else { None })
                .collect::<Option<_>>()?,
            _ => return None,
        };
        let to = match args.len() {
            2 => {
                let shape = ins[0].counts();
                self.made += 1;
                Part { made: Some(self.made), ..self.fresh(&shape) }
            }
            _ => self.view(&args[1].value)?,
        };
        let mut views: Vec<Part> = ins.iter().map(|view| view.spread(&to)).collect();
        views.push(to.clone());
        self.statements.push(Named { what: "function of", views });
        Some(Value::View(to))
    }
}

/// An operator on integers, or on conditions, which are 1 or 0.
fn binary(op: Binary, x: i128, y: i128) -> Option<i128> {
    Some(match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x.div_euclid(y),
        Binary::Rem => x.rem_euclid(y),
        Binary::Lt => (x < y).into(),
        Binary::Le => (x <= y).into(),
        Binary::Gt => (x > y).into(),
        Binary::Ge => (x >= y).into(),
        Binary::Eq => (x == y).into(),
        Binary::Ne => (x != y).into(),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl | Binary::Shr => return None,
    })
}
