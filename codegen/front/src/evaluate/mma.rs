//! Matrix instructions in kernels: `tiled_mma` and its methods.

use crate::isa::atom::{Atom, OperandName};
use crate::isa::scope::Scope;
use tilewright_layout::{Layout, Tuple};

use super::args::Args;
use super::value::{Mma, Value, Warps};
use super::{Evaluator, instruction};
use crate::build::tiled::{Terms, TiledMma};
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

/// The numbers of warps along (M, N) or (M, N, K), if a block has room for them.
fn over_modes(counts: &[Value]) -> Option<Vec<i64>> {
    let one = |count: &Value| match count {
        Value::Int(count @ 1..) => Some(*count),
        _ => None,
    };
    let counts = counts.iter().map(one).collect::<Option<Vec<_>>>()?;
    let all = counts.iter().fold(1, |all: i64, count| all.saturating_mul(*count));
    ([2, 3].contains(&counts.len()) && all <= i64::from(BLOCK_THREADS / WARP)).then_some(counts)
}

/// An instruction whose warps are arranged so: over (M, N), and over K if there is a third mode.
fn sharing(row: &str, groups: &Layout) -> Result<TiledMma, Problem> {
    if groups.rank() != 3 || groups.mode(2)?.size()? == 1 {
        return TiledMma::new(row, groups);
    }
    let own = Layout::from_modes([groups.mode(0)?, groups.mode(1)?])?;
    let parts = groups.mode(2)?.size()?;
    match TiledMma::new(row, &own).and_then(|own| own.over_k(parts)) {
        Ok(made) if made.groups == *groups => Ok(made),
        _ => {
            let message = format!("{groups} does not number warps over M and N first, and then over K");
            Err(Problem::new(message).help(format!("write the extents alone: layout!({})", groups.shape())))
        }
    }
}

/// The operand that a method partitions.
fn partitioned(method: &str) -> OperandName {
    match method {
        "partition_b" => OperandName::B,
        "partition_c" => OperandName::D,
        _ => OperandName::A,
    }
}

impl Evaluator {
    /// `tiled_mma::<bf16, f32>(warps = 8)`, `(warps = (4, 2))`, `(warps = (1, 1, 8))` for warps that share K, or
    /// `tiled_mma("mma_m16n8k16_bf16", layout!((2, 4)))`.
    pub(super) fn tiled_mma(&mut self, args: &Args) -> Result<Value, Problem> {
        let types = &args.types[..];
        let usage = |problem: Problem| problem.help(args.usage());
        let mut arranged = None;
        let terms = match args.named.iter().find(|(name, ..)| name.text == "terms") {
            None | Some((_, Value::Int(1), _)) => Terms::One,
            Some((_, Value::Int(2), _)) => Terms::Two,
            Some((_, other, span)) => {
                let problem =
                    Problem::new(format!("an element has one term or two, and this is {}", other.kind()));
                return Ok(self.complain(*span, problem.help("write terms = 2, or leave it out")));
            }
        };
        let warps = match args.named.iter().find(|(name, ..)| name.text != "terms") {
            None => None,
            Some((name, Value::Tuple(counts), _))
                if let ("warps", Some(counts)) = (&name.text[..], over_modes(counts)) =>
            {
                arranged = Some(counts);
                None
            }
            Some((name, value, span)) => {
                let what = &name.text[..];
                let scope = if what == "warps" { Scope::Warp } else { Scope::Warpgroup };
                let size = scope.threads().unwrap_or(WARP);
                let most = i64::from(BLOCK_THREADS / size);
                match value {
                    Value::Int(count) if (1..=most).contains(count) => match what {
                        "warps" => Some(*count),
                        _ if terms == Terms::Two => {
                            let problem =
                                Problem::new("an operand of wgmma is in shared memory, in one term");
                            return Err(problem.help("write `warps`, or leave `terms` out"));
                        }
                        _ => return self.asynchronous_mma(args, types, *count),
                    },
                    other => {
                        let problem = Problem::new(format!(
                            "a block has 1 to {most} {what}, and this is {}",
                            other.kind()
                        ));
                        let problem = match what {
                            "warps" => usage(problem),
                            _ => problem.help("write tiled_mma::<bf16, f32>(warpgroups = 2)"),
                        };
                        return Ok(self.complain(*span, problem));
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
            ([elem, acc], []) => {
                let Some(row) = self.mma_row(elem, acc, terms)? else { return Ok(Value::Poison) };
                let warps = match arranged {
                    Some(arranged) => Warps::Arranged(Layout::compact(Tuple::flat(&arranged))?),
                    None => Warps::Count(warps.unwrap_or(usual)),
                };
                Ok(Value::Mma(Mma { row, warps, terms }))
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
                    Warps::Arranged(layout) if layout.rank() < 3 => layout,
                    _ => &one,
                };
                let row = TiledMma::new(name, arranged).map_err(|problem| problem.arg(0))?.row;
                Ok(Value::Mma(Mma { row, warps: groups, terms }))
            }
            _ => Err(usage(Problem::new(
                "`tiled_mma` needs the types of operands and sums, or the name of an instruction",
            ))),
        }
    }

    /// The instruction for elements and sums of these types; `None` if an error has been reported.
    fn mma_row(&mut self, elem: &Name, acc: &Name, terms: Terms) -> Result<Option<&'static Atom>, Problem> {
        let (Some(elem), Some(acc)) = (self.elem(elem), self.elem(acc)) else { return Ok(None) };
        let arch = self.builder.program().arch;
        // Alternatives are suggested where a tile is made.
        let row = match TiledMma::row(elem, acc, arch) {
            Some(row) => row,
            None => TiledMma::best(elem, acc, arch, [16, 8], 1)?.row,
        };
        if terms == Terms::Two && elem != Elem::Tf32 {
            return Err(Problem::new(format!("elements of f32 are sums of terms of tf32, not of {elem}"))
                .help("write tiled_mma::<tf32, f32>(warps = 8, terms = 2)"));
        }
        Ok(Some(row))
    }

    /// `tiled_mma::<bf16, f32>(warpgroups = 2)`: wgmma, with a width that suits the tile.
    fn asynchronous_mma(&mut self, args: &Args, types: &[Name], count: i64) -> Result<Value, Problem> {
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
        let row = TiledMma::asynchronous(elem, acc, [64, 8], 1)?.row;
        Ok(Value::Mma(Mma { row, warps: Warps::Asynchronous(count), terms: Terms::One }))
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
            Warps::Asynchronous(count) => {
                let elem = |name| mma.row.operand(name).map_or(Elem::F32, |operand| operand.elem);
                TiledMma::asynchronous(elem(OperandName::A), elem(OperandName::D), [m, n], *count)
            }
            Warps::Arranged(groups) => sharing(mma.row.name, groups),
        };
        let tiled = tiled.map(|tiled| tiled.in_terms(mma.terms)).map_err(|problem| problem.arg(0))?;
        let parts = tiled.parts_of_k()?;
        let view = Ok(tiled)
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
                    if parts > 1 {
                        return Err(Problem::new(format!(
                            "each of {parts} warps that share K would begin with this number"
                        ))
                        .help("write 0.0, and add the number to the sums after the loop")
                        .arg(1));
                    }
                    self.builder.fill(&view, number.expr).map_err(|problem| problem.arg(1))?;
                }
            }
        }
        Ok(Value::View(view))
    }

    /// The tiled MMA with its warps arranged, which partitions need.
    fn explicit(&self, mma: &Mma) -> Result<TiledMma, Problem> {
        match &mma.warps {
            Warps::Arranged(_) if mma.terms == Terms::Two => {
                Err(Problem::new("an element of an operand is two terms, and a part of a thread has one")
                    .help("leave the partition out: gemm(sa, sb, &mut acc)"))
            }
            Warps::Arranged(groups) => TiledMma::new(mma.row.name, groups),
            Warps::Asynchronous(_) => {
                Err(Problem::new("products of warpgroups read whole tiles of shared memory")
                    .help("leave the partition out: gemm(sa, sb, &mut acc)"))
            }
            Warps::Count(warps) => Err(Problem::new("a partition needs an arrangement of the warps")
                .help(format!("write tiled_mma({:?}, layout!((2, {})))", mma.row.name, (warps / 2).max(1)))),
        }
    }
}
