//! The constructs of a kernel's text, as rows of the coverage.

use std::collections::BTreeMap;

use tilewright_codegen::ast::{
    Arg, Binary, Expr, ExprKind, Kernel, ParamKind, Pattern, Stmt, StmtKind, Unary,
};

use super::grid::axis;

/// Constructs in the text of a kernel, as rows of the coverage.
pub fn constructs(kernel: &Kernel) -> Vec<&'static str> {
    let mut present = Vec::new();
    if super::threads::threads(kernel, &[]).is_some() {
        statements(&kernel.body, &mut |of| {
            let ExprKind::Call { function, args, .. } = of else { return };
            let is_given = |row: &&&str| match row.split_once('.') {
                Some((name, option)) => function.text == name && is_named(args, option),
                None => function.text == **row,
            };
            present.extend(PARTS.iter().filter(is_given));
        });
        return present;
    }
    let mut see = |of: &ExprKind| present.extend(construct(of));
    statements(&kernel.body, &mut see);
    kernel.body.iter().for_each(|stmt| loops(stmt, false, &mut present));
    let mut uses = Uses { kernel, present, names: BTreeMap::new(), loops: 0, produced: false };
    uses.body(&kernel.body);
    let mut present = uses.present;
    if is_named(&kernel.keys, "arch") {
        present.push("whole: sm_90");
    }
    present.sort_unstable();
    present.dedup();
    present
}

/// Rows of the coverage of parts of threads: functions and their options.
pub const PARTS: &[&str] = &[
    "parallelize",
    "parallelize.values",
    "parallelize.ragged",
    "registers",
    "shared",
    "padded",
    "row_major",
    "swizzled",
    "copy.how",
    "copy.fill",
    "fill",
    "map",
    "select",
    "fma",
    "bits",
    "sum",
    "sum.acc",
    "maximum",
    "minimum",
    "scan",
    "scan.exclusive",
    "warp_sum",
    "warp_maximum",
    "warp_minimum",
    "warp_reduce",
    "warp_scan",
    "block_sum",
    "block_maximum",
    "block_minimum",
    "block_reduce",
    "block_scan",
    "gemm",
    "gemm.order",
    "gemm.with",
    "pipelined",
    "pipelined.fragments",
    "pipelined.exits",
    "unroll",
    "cp_async_commit",
    "cp_async_wait",
    "cp_async_wait_all",
    "sync_threads",
];

/// Rows of the coverage of whole tiles.
pub const CONSTRUCTS: &[&str] = &[
    "whole: operators",
    "whole: comparisons",
    "whole: conversions",
    "whole: functions of numbers",
    "whole: iota",
    "whole: full",
    "whole: map",
    "whole: gathers",
    "whole: coordinates",
    "whole: scatter",
    "whole: atomic updates",
    "whole: reductions along modes",
    "whole: reductions of all",
    "whole: reductions by closures",
    "whole: reductions of tuples",
    "whole: scan",
    "whole: scan with a carry",
    "whole: scan along several modes",
    "whole: exclusive scan",
    "whole: assignment",
    "whole: in place",
    "whole: along",
    "whole: permute",
    "whole: regroup",
    "whole: broadcast",
    "whole: shift",
    "whole: halo",
    "whole: clamp",
    "whole: shared",
    "whole: shared with a layout",
    "whole: gemm",
    "whole: loop",
    "whole: loop in a loop",
    "whole: if",
    "whole: pipelined",
    "whole: producer",
    "whole: persistent",
    "whole: cluster",
    "whole: sm_90",
    "integers: read in a loop",
    "integers: read beside a producer",
    "integers: read, as a coordinate",
    "integers: read, as a bound",
    "integers: hostile",
    "condition: of blocks",
    "condition: of iterations",
    "condition: of read integers",
    "loop: stages",
    "loop: places",
    "places: of data",
    "places: squares",
    "places: remainders by sizes",
    "places: negated",
    "places: scaled",
    "places: in atomic updates",
    "coordinates: behind a function",
    "coordinates: behind a reduction",
    "coordinates: behind a product",
    "coordinates: behind an update",
    "order: a tensor is read and written",
    "order: views that overlap",
    "order: a shared tile to itself",
    "producer: 1 stage",
    "producer: 2 stages",
    "producer: 3 stages",
    "producer: 4 stages",
    "product: by 1 warpgroup",
    "product: by 2 warpgroups",
    "product: by 3 warpgroups",
    "product: under a condition",
    "product: of one tile",
    "rows: bytes that no 4 divide",
    "sizes: 0 along a loop",
    "sizes: 1",
    "tensors: odd strides",
    "tensors: odd offsets",
    "tensors: one row",
];

/// The kinds and uses of a kernel's names.
struct Uses<'k> {
    kernel: &'k Kernel,
    present: Vec<&'static str>,
    /// The values of names.
    names: BTreeMap<&'k str, What>,
    loops: usize,
    /// In a loop with a producer?
    produced: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    /// An integer of memory.
    Read,
    Function,
    Reduction,
    Product,
    Update,
    /// A part of an argument that is written.
    Written,
    Shared,
    Other,
}

impl<'k> Uses<'k> {
    fn is_argument(&self, name: &str) -> bool {
        self.kernel.params.iter().any(|param| param.name.text == name)
    }

    fn is_written(&self, name: &str) -> bool {
        self.kernel.params.iter().any(|param| {
            param.name.text == name && matches!(param.kind, ParamKind::Tensor { mutable: true, .. })
        })
    }

    fn what(&self, of: &Expr) -> What {
        match &of.kind {
            ExprKind::Name(name) => self.names.get(name.as_str()).copied().unwrap_or(What::Other),
            ExprKind::Index { base, .. } => match &base.kind {
                ExprKind::Name(name) if self.is_argument(name) => What::Read,
                _ => self.what(base),
            },
            ExprKind::Method { method, .. } if method.text == "accumulators" => What::Product,
            ExprKind::Call { function, args, .. } => match function.text.as_str() {
                "shared" => What::Shared,
                "map" | "scan" => What::Function,
                "sum" | "maximum" | "minimum" | "reduce" => What::Reduction,
                "tile" if matches!(&args[0].value.kind, ExprKind::Name(name) if self.is_written(name)) => {
                    What::Written
                }
                "shift" | "permute" => self.what(&args[0].value),
                _ => What::Other,
            },
            ExprKind::Binary(..) | ExprKind::If { .. } => What::Function,
            _ => What::Other,
        }
    }

    fn body(&mut self, body: &'k [Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Let { pattern, value } => {
                    self.value(value);
                    let what = self.what(value);
                    if let Pattern::Name(name) = pattern {
                        self.names.insert(&name.text, what);
                    }
                    if what == What::Read && self.loops > 0 {
                        self.present.push("integers: read in a loop");
                        self.present.extend(self.produced.then_some("integers: read beside a producer"));
                    }
                }
                StmtKind::Expr(value) => self.value(value),
                StmtKind::Assign { target, value, op } => {
                    self.value(value);
                    if self.what(target) == What::Shared && self.reads(value, What::Shared, true) {
                        self.present.push("order: a shared tile to itself");
                    }
                    if let (ExprKind::Name(name), true) = (&target.kind, op.is_some()) {
                        self.names.entry(name).and_modify(|what| {
                            if *what == What::Other {
                                *what = What::Update;
                            }
                        });
                    }
                }
                StmtKind::For { range, body, .. } => {
                    self.value(range);
                    if self.reads(range, What::Read, false) {
                        self.present.push("integers: read, as a bound");
                    }
                    let outer = self.produced;
                    if let ExprKind::Call { args, .. } = &range.kind {
                        self.ahead(args);
                    }
                    self.loops += 1;
                    self.body(body);
                    self.loops -= 1;
                    self.produced = outer;
                }
                StmtKind::If { condition, then, other } => {
                    let mut present = Vec::new();
                    statements_of(condition, &mut |of| match of {
                        of if axis(of).is_some() => present.push("condition: of blocks"),
                        ExprKind::Name(name) if name.starts_with('k') => {
                            present.push("condition: of iterations")
                        }
                        _ => {}
                    });
                    self.present.append(&mut present);
                    if self.reads(condition, What::Read, false) {
                        self.present.push("condition: of read integers");
                    }
                    let multiplies = |stmt: &Stmt| matches!(&stmt.kind, StmtKind::Expr(Expr { kind: ExprKind::Call { function, .. }, .. }) if function.text == "gemm");
                    if then.iter().any(multiplies) {
                        self.present.push("product: under a condition");
                    }
                    self.body(then);
                    self.body(other);
                }
                StmtKind::While { condition, body } => {
                    self.value(condition);
                    self.loops += 1;
                    self.body(body);
                    self.loops -= 1;
                }
                StmtKind::Break => {}
                StmtKind::Block { body, .. } => self.body(body),
            }
        }
    }

    /// Is such a thing part of an expression? `views`: under another view.
    fn reads(&self, of: &Expr, wanted: What, views: bool) -> bool {
        let mut present = false;
        statements_of(of, &mut |of| {
            present |= match of {
                ExprKind::Call { function, args, .. } if views => {
                    matches!(function.text.as_str(), "shift" | "permute")
                        && self.what(&args[0].value) == wanted
                }
                ExprKind::Name(name) if !views => self.names.get(name.as_str()) == Some(&wanted),
                ExprKind::Index { base, .. } if !views => {
                    wanted == What::Read
                        && matches!(&base.kind, ExprKind::Name(name) if self.is_argument(name))
                }
                _ => false,
            };
        });
        present
    }

    /// Options of a loop.
    fn ahead(&mut self, args: &[Arg]) {
        if !is_named(args, "producer") {
            return;
        }
        self.produced = true;
        self.present.extend(row_of_number("producer: ", args, "stages"));
    }

    fn value(&mut self, of: &'k Expr) {
        let mut calls = Vec::new();
        collect(of, &mut calls);
        for (name, args) in calls {
            self.call(name, args);
        }
    }

    fn call(&mut self, name: &str, args: &'k [Arg]) {
        let what = |n: usize| args.get(n).map_or(What::Other, |arg| self.what(&arg.value));
        let mut present = Vec::new();
        match name {
            "stage" => {
                present.push("loop: stages");
                present.extend(is_named(args, "order").then_some("loop: places"));
            }
            "map" | "scatter" => {
                let closure = args.iter().find_map(|arg| match &arg.value.kind {
                    ExprKind::Closure { params, body } => Some((params, body)),
                    _ => None,
                });
                let Some((params, body)) = closure else { return };
                if params.iter().any(|param| matches!(param, Pattern::Name(name) if name.text == "at")) {
                    let first = match &args[0].value.kind {
                        ExprKind::Tuple(all) => self.what(&all[0]),
                        _ => what(0),
                    };
                    present.extend(match first {
                        What::Function => Some("coordinates: behind a function"),
                        What::Reduction => Some("coordinates: behind a reduction"),
                        What::Product => Some("coordinates: behind a product"),
                        What::Update => Some("coordinates: behind an update"),
                        _ => None,
                    });
                }
                let scatters = name == "scatter";
                let mut places: Vec<&Expr> = Vec::new();
                match &body.kind {
                    ExprKind::Tuple(pair) if scatters => places.push(&pair[0]),
                    _ => statements_of(body, &mut |of| {
                        if let ExprKind::Index { index, .. } = of {
                            places.push(index);
                        }
                    }),
                }
                for position in places {
                    statements_of(position, &mut |of| {
                        present.extend(match of {
                            ExprKind::Name(name) if name == "x" => Some("places: of data"),
                            ExprKind::Binary(Binary::Mul, x, y) if x == y => Some("places: squares"),
                            ExprKind::Binary(Binary::Rem, _, y) if matches!(&y.kind, ExprKind::Name(_)) => {
                                Some("places: remainders by sizes")
                            }
                            ExprKind::Unary(Unary::Neg, x) if !matches!(x.kind, ExprKind::Int(_)) => {
                                Some("places: negated")
                            }
                            ExprKind::Binary(Binary::Mul, _, y)
                                if matches!(y.kind, ExprKind::Int(4096..)) =>
                            {
                                Some("places: scaled")
                            }
                            _ => None,
                        });
                    });
                }
                present.extend((scatters && is_named(args, "how")).then_some("places: in atomic updates"));
            }
            "copy" => {
                if what(0) == What::Written {
                    present.push("order: a tensor is read and written");
                }
                if what(1) == What::Shared && self.reads(&args[0].value, What::Shared, true) {
                    present.push("order: a shared tile to itself");
                }
                if self.reads(&args[0].value, What::Read, false) {
                    present.push("integers: read, as a coordinate");
                }
            }
            "shift" if what(0) == What::Written => present.push("order: views that overlap"),
            "gemm" if self.loops == 0 => present.push("product: of one tile"),
            "tiled_mma" => present.extend(row_of_number("product: by ", args, "warpgroups")),
            _ => {}
        }
        self.present.append(&mut present);
    }
}

/// All calls of an expression.
fn collect<'k>(of: &'k Expr, calls: &mut Vec<(&'k str, &'k [Arg])>) {
    statements_of(of, &mut |of| {
        if let ExprKind::Call { function, args, .. } = of {
            calls.push((&function.text, args));
        }
    });
}

fn is_named(args: &[Arg], key: &str) -> bool {
    args.iter().any(|arg| arg.is(key))
}

/// The row that is named after this.
fn row(group: &str, name: &str) -> Option<&'static str> {
    CONSTRUCTS.iter().find(|row| row.strip_prefix(group) == Some(name)).copied()
}

/// The row of a number that an argument is.
fn row_of_number(group: &str, args: &[Arg], key: &str) -> Option<&'static str> {
    let arg = args.iter().find(|arg| arg.is(key))?;
    let ExprKind::Int(n) = arg.value.kind else { return None };
    let begin = format!("{group}{n} ");
    CONSTRUCTS.iter().find(|row| row.starts_with(&begin)).copied()
}

fn construct(of: &ExprKind) -> Vec<&'static str> {
    use tilewright_codegen::ast::Binary::{Eq, Ge, Gt, Le, Lt, Ne};
    match of {
        ExprKind::Binary(Lt | Le | Gt | Ge | Eq | Ne, ..) => vec!["whole: comparisons"],
        ExprKind::Binary(..) | ExprKind::Unary(..) => vec!["whole: operators"],
        ExprKind::Cast(..) => vec!["whole: conversions"],
        ExprKind::Method { method, .. } if method.text == "along" => vec!["whole: along"],
        ExprKind::Closure { params, body } => {
            let mut all = Vec::new();
            if params.iter().any(|param| matches!(param, Pattern::Name(name) if name.text == "at")) {
                all.push("whole: coordinates");
            }
            statements_of(body, &mut |inner| {
                if matches!(inner, ExprKind::Index { .. }) {
                    all.push("whole: gathers");
                }
            });
            all
        }
        ExprKind::Call { function, args, .. } => {
            let mut all = Vec::new();
            let modes =
                |n: usize| args.get(n).is_some_and(|arg| arg.name.is_none()) || is_named(args, "mode");
            all.extend(match function.text.as_str() {
                "sum" | "maximum" | "minimum" if modes(1) => Some("whole: reductions along modes"),
                "sum" | "maximum" | "minimum" => Some("whole: reductions of all"),
                "reduce" if matches!(args[0].value.kind, ExprKind::Tuple(_)) => {
                    Some("whole: reductions of tuples")
                }
                "reduce" => Some("whole: reductions by closures"),
                "shared" if !matches!(args[0].value.kind, ExprKind::Tuple(_) | ExprKind::Int(_)) => {
                    Some("whole: shared with a layout")
                }
                "abs" | "min" | "max" | "exp" | "sqrt" | "floor" | "select" | "fma" => {
                    Some("whole: functions of numbers")
                }
                name => row("whole: ", name),
            });
            all.extend(is_named(args, "carry").then_some("whole: scan with a carry"));
            all.extend(is_named(args, "exclusive").then_some("whole: exclusive scan"));
            let named = args.iter().filter_map(|arg| arg.name.as_ref());
            all.extend(named.filter_map(|name| row("whole: ", &name.text)));
            if is_named(args, "how") && matches!(function.text.as_str(), "scatter" | "copy") {
                all.push("whole: atomic updates");
            }
            let several = |arg: &Arg| arg.is("mode") && matches!(arg.value.kind, ExprKind::Tuple(_));
            if function.text == "scan" && args.iter().any(several) {
                all.push("whole: scan along several modes");
            }
            all
        }
        _ => Vec::new(),
    }
}

fn loops(stmt: &Stmt, inside: bool, present: &mut Vec<&'static str>) {
    match &stmt.kind {
        StmtKind::For { body, .. } => {
            present.push(if inside { "whole: loop in a loop" } else { "whole: loop" });
            body.iter().for_each(|stmt| loops(stmt, true, present));
        }
        StmtKind::If { then, other, .. } => {
            present.push("whole: if");
            then.iter().chain(other).for_each(|stmt| loops(stmt, inside, present));
        }
        StmtKind::Assign { target, op, .. } => {
            let is_output = matches!(&target.kind, ExprKind::Name(name) if name.starts_with('o'));
            present.push(if is_output && op.is_some() { "whole: in place" } else { "whole: assignment" });
        }
        _ => {}
    }
}

/// All expressions of statements, except for conditions and what is assigned to.
pub(crate) fn statements<'k>(body: impl IntoIterator<Item = &'k Stmt>, see: &mut dyn FnMut(&'k ExprKind)) {
    for stmt in body {
        if !matches!(stmt.kind, StmtKind::If { .. }) {
            stmt.exprs().last().into_iter().for_each(|of| statements_of(of, see));
        }
        statements(stmt.stmts(), see);
    }
}

/// An expression and all parts of it.
pub(super) fn statements_of<'k>(of: &'k Expr, see: &mut dyn FnMut(&'k ExprKind)) {
    see(&of.kind);
    of.inside().into_iter().for_each(|part| statements_of(part, see));
}
