//! Products as functions of the language. `pages/*.rs` are their text, whose constants, types and optional arguments keys and sizes give.
//! What is left of a page is what an author would write with these keys.

pub(super) mod threads;

use super::blame::blamed;
use super::config::Precision;
use super::plan::Plan;
use super::scales::BLOCK;
use super::{Config, Made};
use crate::evaluate;
use crate::fold::{Given, fold};
use crate::launch::definition::Settings;
use crate::source::ast::make::named;
use crate::source::ast::{Arg, Choice, ConstParam, Expr, ExprKind, Kernel, Level, Span};
use crate::source::problem::{Problem, Result};
use crate::tile::Program;

/// Values of constants.
type Values = Vec<(&'static str, Expr)>;

/// Constants and types whose key has another name.
const KEYS: [(&str, &str); 16] = [
    ("A", "dtype"),
    ("B", "b_dtype"),
    ("W", "b_dtype"),
    ("T", "precision"),
    ("S", "acc"),
    ("C", "out"),
    ("R", "residual"),
    ("X", "aux"),
    ("WM", "warps"),
    ("WN", "warps"),
    ("WK", "warps"),
    ("SPLIT", "split_k"),
    ("PARTS", "split_k"),
    ("C_M", "values"),
    ("C_N", "values"),
    ("INSTRUCTION", "mma"),
];

fn number(value: impl Into<i64>) -> Expr {
    Expr::from(value.into())
}

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
}

/// The name of an element type.
fn elem(of: &str) -> Expr {
    expr(ExprKind::Name(of.to_owned()))
}

/// The programs of a page, one for each of its sizes.
pub(super) fn programs(c: &Config, plans: &[Plan]) -> Made<Vec<Program>> {
    let page = page(c, plans)?;
    let all = Settings::default().alternatives(&page)?;
    let program = |settings| Ok(Program { competes: true, ..evaluated(&page, settings)? });
    all.into_iter().map(program).collect()
}

/// The program of a page, or its first error.
fn evaluated(page: &Kernel, settings: Settings) -> Made<Program> {
    let (program, all, _) = evaluate::program(page, &settings, true);
    let wrong = all.into_iter().find(|diagnostic| diagnostic.level == Level::Deny);
    wrong.map_or(Ok(program), Err)
}

/// The function on tensor cores, of at least one size.
pub(super) fn page(c: &Config, all: &[Plan]) -> Result<Kernel> {
    let Some(plan) = all.first() else { return Err(Problem::new("a product has no sizes")) };
    let sizes = Sizes::of(c, all);
    let rows: Vec<Vec<(&str, i64)>> = all.iter().map(|plan| sizes.constants(plan)).collect();
    let first = &rows[0];
    let varies = |at: &usize| rows.iter().any(|row| row[*at] != first[*at]);
    let (listed, same): (Vec<usize>, Vec<usize>) = (0..first.len()).partition(varies);
    let constants = listed.iter().chain(&same).map(|at| ConstParam {
        name: named(first[*at].0),
        default: (!varies(at)).then(|| first[*at].1.into()),
    });
    let choice = Choice {
        names: listed.iter().map(|at| named(first[*at].0)).collect(),
        rows: rows.iter().map(|row| listed.iter().map(|at| row[*at].1).collect()).collect(),
    };
    let choices = if listed.is_empty() { Vec::new() } else { vec![choice] };
    let kernel = kernel(c, &c.texts.tensor_cores, plan.overlaps, constants.collect(), sizes.values())?;
    Ok(Kernel { choices, ..kernel })
}

/// What is left of a page with these constants, values and the keys of all products. Errors about a constant are about its key.
fn kernel(
    c: &Config,
    page: &Result<Kernel>,
    overlaps: bool,
    mut constants: Vec<ConstParam>,
    mut values: Values,
) -> Result<Kernel> {
    let epilogue = c.function.clone();
    constants
        .extend(epilogue.map(|function| ConstParam { name: named("EPILOGUE"), default: Some(function) }));
    let [rows, columns] = c.scales;
    let flags = [
        ("BATCHED", c.batched),
        ("A_ROWS", c.a_rows),
        ("B_ROWS", c.b_rows),
        ("C_ROWS", c.c_rows),
        ("HAS_ALPHA", c.alpha_beta),
        ("HAS_BETA", c.alpha_beta),
        ("HAS_SCALE_ROWS", rows),
        ("HAS_SCALE_COLUMNS", columns),
        ("HAS_BIAS", c.bias.is_some()),
        ("BIAS_ROWS", c.bias == Some(0)),
        ("HAS_RESIDUAL", c.residual.is_some()),
        ("RESIDUAL_AFTER", c.residual.is_some_and(|residual| residual.after)),
        ("HAS_AUX", c.aux.is_some()),
        ("HAS_EPILOGUE", c.function.is_some()),
        ("PLAIN", c.has_plain_sums()),
    ];
    values.extend(flags.map(|(name, flag)| (name, number(flag))));
    let elems = [
        ("A", c.dtype),
        ("Acc", c.acc),
        ("S", c.scaled()),
        ("C", c.out),
        ("R", c.residual.map_or(c.out, |residual| residual.elem)),
        ("X", c.aux.unwrap_or(c.out)),
    ];
    values.extend(elems.map(|(name, of)| (name, elem(of.name()))));
    // Weights that are converted have one scale, and so it needs no other name.
    let short = [("scale_columns", "scale"), ("gscale_columns", "gscale")];
    let renamed = if c.mixed() && c.group.is_none() { short.to_vec() } else { Vec::new() };
    let located = |name: &str, value: &mut Expr| {
        let key =
            KEYS.iter().find(|(of, _)| *of == name).map_or(name.to_lowercase(), |(_, key)| (*key).into());
        value.span = blamed(&c.args, &key).map_or(value.span, |of| of.span);
    };
    values.iter_mut().for_each(|(name, value)| located(name, value));
    for ConstParam { name, default } in &mut constants {
        default.iter_mut().for_each(|value| located(&name.text, value));
    }
    let folded = fold(page.clone()?, Given { values, constants, renamed });
    Ok(Kernel { name: named(&c.name), keys: vec![Arg::of_number("arch", c.arch.into())], overlaps, ..folded })
}

impl Config {
    /// Is the argument of the epilogue's function a sum as it is?
    fn has_plain_sums(&self) -> bool {
        let before = self.residual.is_some_and(|residual| !residual.after);
        let added = self.bias.is_some() || before || self.alpha_beta;
        !added && self.scales == [false; 2] && self.acc == self.scaled()
    }
}

/// What the sizes of a page on tensor cores have in common.
struct Sizes<'p> {
    c: &'p Config,
    plan: &'p Plan,
    /// Do warps share K, at some sizes?
    shares_k: bool,
    /// Is A the left operand at some sizes, and B at others?
    swaps: bool,
    /// Do blocks of the grid divide K, at some sizes?
    has_parts: bool,
}

impl<'p> Sizes<'p> {
    fn of(c: &'p Config, all: &'p [Plan]) -> Sizes<'p> {
        Sizes {
            c,
            plan: &all[0],
            shares_k: all.iter().any(|plan| plan.parts() > 1),
            swaps: all.iter().any(|plan| plan.a_left != all[0].a_left),
            has_parts: all.iter().any(|plan| plan.split.is_of_grid()),
        }
    }

    /// The constants of a size. Rows and columns are C's; warps are arranged over the accumulators.
    fn constants(&self, plan: &Plan) -> Vec<(&'static str, i64)> {
        let ([bm, bn], [rows, columns, parts], split) = (plan.of_c(), plan.groups, plan.split.blocks());
        let (warpgroups, warps) = (plan.is_wgmma(), !plan.is_wgmma());
        let (of_cluster, of_grid) = if plan.split.is_of_grid() { (1, split) } else { (split, 1) };
        let all = [
            (true, "BM", bm),
            (true, "BN", bn),
            (true, "BK", plan.tile[2]),
            (warpgroups, "WARPGROUPS", rows),
            (warps, "WM", rows),
            (warps, "WN", columns),
            (warps && self.shares_k, "WK", parts),
            (true, "STAGES", plan.stages),
            (warpgroups, "CLUSTER", plan.cluster),
            (plan.may_split(self.c), "SPLIT", of_cluster),
            (self.has_parts, "PARTS", of_grid),
            (self.swaps, "A_LEFT", plan.a_left.into()),
        ];
        all.into_iter().filter(|row| row.0).map(|(_, name, value)| (name, value)).collect()
    }

    /// The other constants, which all sizes have in common.
    fn values(&self) -> Values {
        let (c, plan, (bk, parts)) = (self.c, self.plan, self.plan.step());
        let swizzle = c.of_tiles.map(|of| [i64::from(of.bits()), of.base().into(), of.shift().into()]);
        let [bits, base, shift] = swizzle.unwrap_or_default();
        let mut values = vec![
            ("WGMMA", number(plan.is_wgmma())),
            ("SHARES_K", number(self.shares_k)),
            ("BULK", number(plan.bulk)),
            ("PING_PONG", number(plan.ping_pong)),
            ("BAND", number(plan.band)),
            ("FEWER", number(plan.fewer)),
            ("SPLITS", number(plan.may_split(c))),
            ("IN_TERMS", number(c.is_in_terms())),
            ("ROUNDED", number(c.precision == Precision::Tf32)),
            ("SWIZZLED", number(swizzle.is_some())),
            ("BITS", number(bits)),
            ("BASE", number(base)),
            ("SHIFT", number(shift)),
            ("CONVERTS", number(c.mixed())),
            ("PACKED", number(c.packed.is_some())),
            ("PROMOTES", number(plan.promotes(c))),
            ("BLOCK_STEPS", number(BLOCK / bk)),
            ("HAS_SCALE", number(c.group.is_some())),
            ("HAS_ZERO", number(c.zeros)),
            ("HAS_SCALE_A", number(c.block_scales)),
            ("HAS_SCALE_B", number(c.block_scales)),
            ("B", elem(c.b_dtype.name())),
            ("T", elem(c.multiplied().name())),
        ];
        if !self.swaps {
            values.push(("A_LEFT", number(plan.a_left)));
        }
        values.extend(c.packed.map(|of| ("W", elem(of.name()))));
        let of_groups = |of: super::scales::Grouped| {
            let [each, count, wide] = [of.each, of.count(), of.wide()];
            [
                ("GROUP", of.size),
                ("COLUMNS", count),
                ("COPIED", wide),
                ("EACH", each),
                ("OF_GROUP", of.size / each),
            ]
        };
        let groups = c.grouped(bk, parts).map(of_groups);
        values.extend(groups.into_iter().flatten().map(|(name, value)| (name, number(value))));
        // The instruction's name, unless it is the best one for the types.
        let named = plan.row.filter(|row| c.instruction(c.arch).is_none_or(|best| best.name != row.name));
        values.extend(named.map(|row| ("INSTRUCTION", expr(ExprKind::Str(row.name.to_owned())))));
        values
    }
}
