//! Matrix instructions in kernels: `tiled_mma` and its methods.

use crate::thread::atom::OperandName;
use tilewright_layout::Layout;

use super::args::Args;
use super::value::{Mma, Value, Warps};
use super::{Evaluator, instruction};
use crate::build::tiled::TiledMma;
use crate::source::ast::{Name, Span};
use crate::source::problem::Problem;
use crate::source::spelling::did_you_mean;
use crate::tile::Expr;
use crate::values::elem::Elem;
use crate::values::target::{BLOCK_THREADS, WARP};

/// The methods of a tiled MMA, and their usage.
const METHODS: [(&str, &str); 4] = [
    ("accumulators", "mma.accumulators((BM, BN), 0.0)"),
    ("partition_a", "mma.partition_a(sa, thread.x), with how = \"ldmatrix_x4\""),
    ("partition_b", "mma.partition_b(sb, thread.x), with how = \"ldmatrix_x4\""),
    ("partition_c", "mma.partition_c(gc, thread.x)"),
];

/// The operand that a method partitions.
fn partitioned(method: &str) -> OperandName {
    match method {
        "partition_b" => OperandName::B,
        "partition_c" => OperandName::D,
        _ => OperandName::A,
    }
}

impl Evaluator {
    /// `tiled_mma::<bf16, f32>(warps = 8)`, `(warps = (4, 2))`, or `tiled_mma("mma_m16n8k16_bf16", layout!((2, 4)))`.
    pub(super) fn tiled_mma(&mut self, args: &Args) -> Result<Value, Problem> {
        let types = &args.types[..];
        let usage = |problem: Problem| problem.help(args.usage());
        let mut arranged = None;
        let warps = match args.named.first() {
            None => None,
            Some((name, Value::Tuple(counts), _))
                if let ("warps", [Value::Int(rows @ 1..), Value::Int(columns @ 1..)]) =
                    (&name.text[..], &counts[..])
                    && rows.saturating_mul(*columns) <= i64::from(BLOCK_THREADS / WARP) =>
            {
                arranged = Some((*rows, *columns));
                None
            }
            Some((name, value, span)) => {
                let (what, size) =
                    if name.text == "warps" { ("warps", WARP) } else { ("warpgroups", 4 * WARP) };
                let most = i64::from(BLOCK_THREADS / size);
                match value {
                    Value::Int(count) if (1..=most).contains(count) => match what {
                        "warps" => Some(*count),
                        _ => return self.of_warpgroups(args, types, *count),
                    },
                    other => {
                        let problem = Problem::new(format!(
                            "a block has 1 to {most} {what}, and this is {}",
                            other.kind()
                        ));
                        return Ok(self.complain(*span, usage(problem)));
                    }
                }
            }
        };
        // The number of warps of the block, if that is known.
        let usual = match self.builder.program().threads() {
            0 => 8,
            threads => i64::from(threads.div_ceil(WARP)),
        };
        match (types, &args.values[..]) {
            ([_, _], []) => {
                let (elem, acc) = (self.elem(&types[0]), self.elem(&types[1]));
                let (Some(elem), Some(acc)) = (elem, acc) else { return Ok(Value::Poison) };
                let row = TiledMma::row(elem, acc, self.builder.program().arch);
                // Alternatives are suggested where a tile is made.
                let row = match row {
                    Some(row) => row,
                    None => TiledMma::best(elem, acc, self.builder.program().arch, [16, 8], 1)?.row,
                };
                let warps = match arranged {
                    Some(arranged) => Warps::Arranged(Layout::compact(arranged)?),
                    None => Warps::Count(warps.unwrap_or(usual)),
                };
                Ok(Value::Mma(Mma { row, warps }))
            }
            ([], [(Value::Text(name), _), rest @ ..]) => {
                let groups = match rest {
                    [] => Warps::Count(warps.unwrap_or(usual)),
                    [(groups, _)] if warps.is_none() => {
                        let layout = match groups.layout() {
                            Some(layout) => layout,
                            None => Layout::compact(groups.tuple().ok_or_else(|| {
                                usage(Problem::new(format!(
                                    "`tiled_mma` needs an arrangement of warps here, and this is {}",
                                    groups.kind()
                                )))
                                .arg(1)
                            })?)?,
                        };
                        Warps::Arranged(layout)
                    }
                    _ => {
                        return Err(usage(Problem::new(
                            "`tiled_mma` takes an arrangement of warps, or their number",
                        ))
                        .arg(1));
                    }
                };
                let one = Layout::compact((1i64, 1i64))?;
                let arranged = match &groups {
                    Warps::Arranged(layout) => layout,
                    Warps::Count(_) | Warps::Warpgroups(_) => &one,
                };
                let row = TiledMma::new(name, arranged, 0).map_err(|problem| problem.arg(0))?.row;
                Ok(Value::Mma(Mma { row, warps: groups }))
            }
            _ => Err(usage(Problem::new(
                "`tiled_mma` needs the types of operands and sums, or the name of an instruction",
            ))),
        }
    }

    /// `tiled_mma::<bf16, f32>(warpgroups = 2)`: wgmma, with a width that suits the tile.
    fn of_warpgroups(&mut self, args: &Args, types: &[Name], count: i64) -> Result<Value, Problem> {
        let [elem, acc] = types else {
            let problem = Problem::new("`tiled_mma` of warpgroups needs the types of operands and sums");
            return Err(problem.help("write tiled_mma::<bf16, f32>(warpgroups = 2)"));
        };
        if !args.values.is_empty() {
            return Err(Problem::new("`tiled_mma` of warpgroups chooses its instruction from the types")
                .help("write tiled_mma::<bf16, f32>(warpgroups = 2)")
                .arg(0));
        }
        let (Some(elem), Some(acc)) = (self.elem(elem), self.elem(acc)) else { return Ok(Value::Poison) };
        let row = TiledMma::of_warpgroups(elem, acc, [64, 8], 1)?.row;
        Ok(Value::Mma(Mma { row, warps: Warps::Warpgroups(count) }))
    }

    /// A method of a tiled MMA.
    pub(super) fn of_mma(
        &mut self,
        of: &Value,
        method: &Name,
        values: &[Value],
        spans: &[Span],
        name: &str,
        span: Span,
    ) -> Value {
        let Value::Mma(mma) = of else { return Value::Poison };
        let Some((known, usage)) = METHODS.iter().find(|(known, _)| *known == method.text) else {
            let near = did_you_mean(&method.text, METHODS.iter().map(|(name, _)| *name));
            let all: Vec<&str> = METHODS.iter().map(|(_, usage)| *usage).collect();
            let problem = Problem::new(format!("a matrix instruction has no method `{}`", method.text));
            return self.complain(
                method.span,
                problem.help(near.unwrap_or_else(|| format!("write {}", all.join(" or ")))),
            );
        };
        self.builder.at_call(span, spans.to_vec());
        let made =
            match (*known, values) {
                ("accumulators", [shape, rest @ ..]) if rest.len() < 2 => {
                    self.accumulators(mma, shape, rest.first(), name)
                }
                ("partition_a" | "partition_b" | "partition_c", [Value::View(view), Value::Index(at)])
                    if at.per_thread() && at.terms.len() == 1 =>
                {
                    self.explicit(mma)
                        .and_then(|tiled| self.builder.partition_operand(&tiled, partitioned(known), view))
                        .map(Value::View)
                }
                (
                    "partition_a" | "partition_b",
                    [Value::View(view), Value::Index(at), Value::Text(mover)],
                ) if at.per_thread() && at.terms.len() == 1 => instruction::copy_row(mover)
                    .map_err(|problem| problem.arg(2))
                    .and_then(|_| self.explicit(mma))
                    .and_then(|tiled| {
                        self.builder.partition_operand_rows(&tiled, partitioned(known), view, mover)
                    })
                    .map(Value::View),
                _ => Err(Problem::new(format!("`{known}` cannot take these arguments"))
                    .help(format!("write {usage}"))),
            };
        match made {
            Ok(value) => value,
            Err(problem) => {
                let at = problem.arg.and_then(|arg| spans.get(arg)).copied().unwrap_or(span);
                self.complain(at, problem)
            }
        }
    }

    /// Accumulators of a whole tile.
    fn accumulators(
        &mut self,
        mma: &Mma,
        shape: &Value,
        value: Option<&Value>,
        name: &str,
    ) -> Result<Value, Problem> {
        let extents = shape.tuple().and_then(|tuple| tuple.ints()).filter(|extents| extents.len() == 2);
        let Some(&[m, n]) = extents.as_deref() else {
            let problem =
                Problem::new(format!("accumulators have a tile of (M, N), and this is {}", shape.kind()));
            return Err(problem.help("write two integers: mma.accumulators((BM, BN), 0.0)").arg(0));
        };
        let tiled = match &mma.warps {
            Warps::Count(warps) => TiledMma::arranged(mma.row, [m, n], *warps),
            Warps::Warpgroups(count) => {
                let elem = |name| mma.row.operand(name).map_or(Elem::F32, |operand| operand.elem);
                TiledMma::of_warpgroups(elem(OperandName::A), elem(OperandName::D), [m, n], *count)
            }
            Warps::Arranged(groups) => TiledMma::new(mma.row.name, groups, 0),
        };
        let view = tiled
            .and_then(|tiled| self.builder.sums(name, &tiled, [m, n]))
            .map_err(|problem| problem.arg(0))?;
        match value {
            None => {}
            Some(value) => {
                let Some(number) = value.number() else {
                    return Err(Problem::new(format!(
                        "accumulators begin with a number, and this is {}",
                        value.kind()
                    ))
                    .arg(1));
                };
                if !matches!(&number.expr, Expr::Lit(number) if number.is_zero()) {
                    self.builder.fill(&view, number.expr).map_err(|problem| problem.arg(1))?;
                }
            }
        }
        Ok(Value::View(view))
    }

    /// The tiled MMA with its warps arranged, which partitions need.
    fn explicit(&self, mma: &Mma) -> Result<TiledMma, Problem> {
        match &mma.warps {
            Warps::Arranged(groups) => TiledMma::new(mma.row.name, groups, 0),
            Warps::Warpgroups(_) => {
                Err(Problem::new("products of warpgroups read whole tiles of shared memory")
                    .help("leave the partition out: gemm(sa, sb, &mut acc)"))
            }
            Warps::Count(warps) => Err(Problem::new("a partition needs an arrangement of the warps")
                .help(format!("write tiled_mma({:?}, layout!((2, {})))", mma.row.name, (warps / 2).max(1)))),
        }
    }
}
