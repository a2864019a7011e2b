//! Explicit instructions in kernels: fragments, and copies and products of them by a row of the table.

use tilewright_layout::Layout;

use super::Evaluator;
use super::args::Args;
use super::value::Value;
use crate::build::tiled::TiledMma;
use crate::isa;
use crate::isa::atom::{Atom, Effect, OperandKind, OperandName};
use crate::source::ast::{Expr, ExprKind};
use crate::source::problem::Problem;
use crate::source::spelling::did_you_mean;
use crate::thread::Scope;
use crate::tile::view::View;
use crate::tile::{How, Multiply, Order, ProductViews, Space};
use crate::values::semiring::Semiring;

/// Bytes of a row of a matrix.
const ROW: i64 = 16;

/// A copy of matrices by a warp: its operand in registers, and whether it loads them from shared memory.
fn matrices(row: &Atom) -> Option<(OperandName, bool)> {
    let kind = |shared: bool| {
        row.operands.iter().find(|operand| match operand.kind {
            OperandKind::SharedAddress => shared,
            OperandKind::Frag { .. } => !shared,
            _ => false,
        })
    };
    let is_copy =
        row.family.issued_by == Scope::Warp && row.effect == Effect::Copy && row.operands.len() == 2;
    let (fragment, _) = (kind(false)?, kind(true)?);
    is_copy.then_some((fragment.name, fragment.writes))
}

/// The instruction of this name that copies between shared memory and fragments.
pub(super) fn copy_row(name: &str) -> Result<&'static Atom, Problem> {
    match isa::find(name).filter(|row| matrices(row).is_some()) {
        Some(row) => Ok(row),
        None => {
            let all = || isa::all().filter(|row| matrices(row).is_some()).map(|row| row.name);
            let help = did_you_mean(name, all())
                .unwrap_or_else(|| format!("take one of {}", all().collect::<Vec<_>>().join(", ")));
            Err(Problem::new(format!("there is no instruction `{name}` that copies fragments")).help(help))
        }
    }
}

impl Evaluator {
    /// `fragment_like(mma.partition_a(sa, thread.x))`, with a type or a value.
    pub(super) fn fragment_like(&mut self, args: &Args, name: &str, like: &View) -> Result<Value, Problem> {
        if !like.per_thread() {
            return Err(Problem::new(format!("`{}` is a whole tile, not the part of a thread", like.name))
                .help("write fragment_like(mma.partition_a(sa, thread.x))")
                .arg(0));
        }
        let elem = match args.types[..] {
            [] => self.builder.elem(like),
            _ => self.type_argument(args)?,
        };
        let fragment = self.builder.fragment(name, elem, like).map_err(|problem| problem.arg(0))?;
        if let Some((value, _)) = args.values.get(1) {
            let value = value.as_number().ok_or_else(|| args.needs(1, "a number"))?;
            self.builder.fill(&fragment, value.expr).map_err(|problem| problem.arg(1))?;
        }
        Ok(Value::View(fragment))
    }

    /// `copy(rows, retile(fragment, rows), how = "ldmatrix_x4")`
    pub(super) fn copy_by(&mut self, row: &'static Atom, from: &View, to: &View) -> Result<(), Problem> {
        let Some((operand, loads)) = matrices(row) else { return Err(Problem::reported()) };
        let (fragment, of_fragment, rows, of_rows) = if loads { (to, 1, from, 0) } else { (from, 0, to, 1) };
        self.in_registers(row, fragment).map_err(|problem| problem.arg(of_fragment))?;
        if !matches!(self.builder.space(rows), Space::Shared { .. }) {
            let message = format!(
                "`{}` takes rows in shared memory, and `{}` is not in shared memory",
                row.name, rows.name
            );
            let help = format!("write mma.partition_a(sa, thread.x, how = {:?})", row.name);
            return Err(Problem::new(message).help(help).arg(of_rows));
        }
        let bytes = |view: &View| -> Result<i64, Problem> {
            Ok(self.builder.elem(view).bytes_of(view.layout.mode(0)?.size()?))
        };
        let leaves = rows.layout.mode(0)?;
        let in_a_row = leaves.leaves().filter(|(extent, _)| extent.factor() > 1).count() == 1;
        if !in_a_row || bytes(rows)? != ROW {
            let message = format!(
                "`{}` takes rows of {ROW} bytes, and `{}`, {}, is not a partition into such rows",
                row.name,
                rows.name,
                rows.shape()
            );
            let help = format!("write mma.partition_a(sa, thread.x, how = {:?})", row.name);
            return Err(Problem::new(message).help(help).arg(of_rows));
        }
        let wanted =
            values(row, operand)? * row.operand(operand).map_or(2, |operand| operand.elem.bytes().into());
        let others = |view: &View| view.extents().map(|extents| extents[1..].to_vec());
        if bytes(fragment)? != wanted || others(fragment) != others(rows) {
            return Err(Problem::new(format!(
                "`{}` moves {wanted} bytes per thread for each row, and `{}`, {}, has another number of bytes for each row of `{}`, {}",
                row.name, fragment.name, fragment.shape(), rows.name, rows.shape()
            ))
            .help(match loads {
                true => format!("write copy(rows, retile(fragment, rows), how = {:?})", row.name),
                false => format!("write copy(retile(fragment, rows), rows, how = {:?})", row.name),
            })
            .arg(of_fragment));
        }
        self.builder.copy_how(from, to, How::Atom(row), None)
    }

    /// A product: of tiles or parts of threads, or of fragments by an instruction.
    pub(super) fn gemm_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let views = ProductViews { a: &args.view(0)?, b: &args.view(1)?, acc: &args.view(2)? };
        let (mut order, mut with, mut row) = (Order::Plain, None, None);
        for (key, value, span) in &args.named {
            let problem = match (key.text.as_str(), value) {
                ("with", Value::Semiring(given)) => {
                    with = Some((*given, *span));
                    continue;
                }
                ("how", Value::Text(name)) => {
                    row = Some((name, *span));
                    continue;
                }
                ("order", Value::Text(text)) if Order::ALL.iter().any(|(name, _)| name == text) => {
                    let known = Order::ALL.iter().find(|(name, _)| name == text);
                    order = known.map_or(Order::Plain, |known| known.1);
                    continue;
                }
                ("order", _) => {
                    let names = Order::ALL.map(|(name, _)| format!("{name:?}")).join(" or ");
                    let problem = Problem::new(format!("`order` cannot be {}", value.kind()));
                    problem.help(format!("write order = {names}"))
                }
                _ => Problem::new(format!("`how` cannot be {}", value.kind()))
                    .help("write how = \"mma_m16n8k16_bf16\""),
            };
            return Ok(self.complain(*span, problem));
        }
        let (made, at) = match (row, with) {
            (Some((name, span)), None) => (self.gemm_by(name, views), span),
            (Some((name, _)), Some((_, span))) => {
                let problem = Problem::new(format!("`{name}` adds products, and no other operations"));
                (Err(problem.help("leave out `how`: CUDA cores multiply with any operations")), span)
            }
            (None, with) => {
                let (with, span) = with.unwrap_or((Semiring::SUMS, args.call));
                let how = Multiply::Scalar(with);
                (self.builder.gemm_how(views.a, views.b, views.acc, how, order, None), span)
            }
        };
        match made {
            Err(problem) if problem.arg.is_none() => Ok(self.complain(at, problem)),
            made => made.map(|()| Value::Unit),
        }
    }

    /// The operations of a product by their names: `(min, add)`.
    pub(super) fn operations(&mut self, given: &Expr) -> Value {
        let operation = |of: &Expr| match &of.kind {
            ExprKind::Name(name) => Semiring::OPERATIONS.iter().find(|(known, _)| known == name),
            _ => None,
        };
        let wrong = match &given.kind {
            ExprKind::Tuple(pair) if pair.len() == 2 => match [operation(&pair[0]), operation(&pair[1])] {
                [Some((_, add)), Some((_, mul))] => {
                    return Value::Semiring(Semiring { add: *add, mul: *mul });
                }
                [Some(_), None] => &pair[1],
                _ => &pair[0],
            },
            _ => given,
        };
        let names: Vec<&str> = Semiring::OPERATIONS.iter().map(|(name, _)| *name).collect();
        let problem =
            Problem::new("`with` names two operations: what combines products, and what multiplies");
        let help = match &wrong.kind {
            ExprKind::Name(name) if !names.contains(&name.as_str()) => {
                did_you_mean(name, names.iter().copied())
            }
            _ => None,
        };
        let help = help.unwrap_or_else(|| format!("write with = (min, add); there are {}", names.join(", ")));
        self.complain(wrong.span, problem.help(help))
    }

    /// `gemm(fa, fb, &mut acc, how = "mma_m16n8k16_bf16")`
    pub(super) fn gemm_by(&mut self, name: &str, views: ProductViews<'_>) -> Result<(), Problem> {
        let ProductViews { a, b, acc } = views;
        let row = TiledMma::new(name, &Layout::compact((1i64, 1i64))?)?.row;
        let mut all = Vec::new();
        for (arg, (view, operand)) in
            [(a, OperandName::A), (b, OperandName::B), (acc, OperandName::D)].into_iter().enumerate()
        {
            let part = if operand == OperandName::D { OperandName::C } else { operand };
            let help = format!("make it with fragment_like(mma.partition_{part}(s, thread.x))");
            let refuse = |message: String| Problem::new(message).help(help.clone()).arg(arg);
            self.in_registers(row, view).map_err(|problem| problem.help(help.clone()).arg(arg))?;
            let (elem, wanted) = (self.builder.elem(view), row.operand(operand).map(|operand| operand.elem));
            if let Some(wanted) = wanted.filter(|wanted| *wanted != elem) {
                return Err(Problem::new(format!(
                    "`{name}` takes {wanted} here, and `{}` has elements of {elem}",
                    view.name
                ))
                .help(format!("use an instruction for {elem}, or a fragment of {wanted}"))
                .arg(arg));
            }
            // A k-step alone is one of one.
            let one = Layout::new(1i64, 0i64)?;
            let ones = std::iter::repeat_n(one, 3usize.saturating_sub(view.rank()));
            let view = view.rearranged(Layout::from_modes(view.layout.modes().chain(ones))?);
            let count = values(row, operand)?;
            if view.rank() != 3 || view.layout.mode(0)?.size()? != count {
                return Err(refuse(format!(
                    "`{name}` takes {count} values of each thread here, and `{}` has the shape {}",
                    view.name,
                    view.shape()
                )));
            }
            all.push(view);
        }
        let count = |at: usize, mode: usize| all[at].layout.mode(mode).and_then(|mode| mode.size());
        let pairs = [((0, 1), (2, 1), "M"), ((1, 1), (2, 2), "N"), ((0, 2), (1, 2), "K")];
        for ((left, mode), (right, other), along) in pairs {
            let (here, there) = (count(left, mode)?, count(right, other)?);
            if here != there {
                return Err(Problem::new(format!(
                    "`{}` has {} along {along}, and `{}` has {there}",
                    all[left].name,
                    crate::source::problem::count(here, "instruction"),
                    all[right].name
                ))
                .help("partition operands and sums of one tile by one `tiled_mma`")
                .arg(left));
            }
        }
        self.builder.gemm_how(&all[0], &all[1], &all[2], Multiply::Atom(row), Order::Plain, None)
    }

    fn in_registers(&self, row: &Atom, view: &View) -> Result<(), Problem> {
        if matches!(self.builder.space(view), Space::Registers { .. }) && !self.is_whole(view) {
            return Ok(());
        }
        let message =
            format!("`{}` takes a fragment in registers here, and `{}` is not one", row.name, view.name);
        Err(Problem::new(message).help("make it with fragment_like(mma.partition_a(sa, thread.x))"))
    }
}

/// Values of an operand in each thread.
fn values(row: &Atom, operand: OperandName) -> Result<i64, Problem> {
    Ok(row.tv(operand).map_or(Ok(1), |tv| tv.mode(1)?.size())?)
}
