//! Shrinks a failing kernel while it fails in the same way.

use tilewright_codegen::ast::{Expr, ExprKind, Kernel, ParamKind, Stmt, StmtKind};
use tilewright_codegen::{Definition, Elem, Settings};

use crate::judge::{Plan, Verdict, Wrong, judge};

/// Limit of runs of smaller kernels.
const MOST: u32 = 4000;

/// The smallest failing kernel like this one, its plan, and its failure.
pub fn smallest(kernel: Definition, plan: Plan, wrong: Wrong) -> (Definition, Plan, Wrong) {
    let mut best = (kernel, plan, wrong);
    let mut left = MOST;
    best.1.runs = 3;
    if let Some(smaller) = pinned(&best, &mut left) {
        best = smaller;
    }
    loop {
        let before = best.0.clone();
        texts(&mut best, &mut left);
        sizes(&mut best, &mut left);
        if before == best.0 || left == 0 {
            return best;
        }
    }
}

type Best = (Definition, Plan, Wrong);

/// The class of a failure: its first words, without names and numbers.
pub fn kind(why: &str) -> String {
    let mut of = String::new();
    let mut quoted = false;
    for letter in why.lines().next().unwrap_or_default().chars() {
        match letter {
            '`' => quoted = !quoted,
            _ if quoted || letter.is_ascii_digit() || "-.[], ".contains(letter) => {}
            letter => of.push(letter),
        }
    }
    of
}

/// Does a smaller kernel fail in the same way?
fn tried(best: &Best, smaller: &Definition, plan: &Plan, left: &mut u32) -> Option<Best> {
    *left = left.checked_sub(1)?;
    match judge(smaller, plan) {
        Verdict::Wrong(wrong) if kind(&wrong.why) == kind(&best.2.why) => {
            Some((smaller.clone(), plan.clone(), *wrong))
        }
        _ => None,
    }
}

/// The same with the failing sizes fixed.
fn pinned(best: &Best, left: &mut u32) -> Option<Best> {
    let case = best.2.case.as_ref()?;
    let mut plan = best.1.clone();
    for (symbol, size) in &case.symbols {
        plan.sizes.set.insert(symbol.name().into(), *size);
    }
    tried(best, &best.0, &plan, left)
}

fn sizes(best: &mut Best, left: &mut u32) {
    let names: Vec<String> = best.1.sizes.set.keys().cloned().collect();
    for name in names {
        loop {
            let now = best.1.sizes.set[&name];
            let smaller = [1, now / 2, now - 1].into_iter().filter(|&n| n < now && n >= 0).find_map(|n| {
                let mut plan = best.1.clone();
                plan.sizes.set.insert(name.clone(), n);
                tried(best, &best.0, &plan, left)
            });
            match smaller {
                Some(smaller) => *best = smaller,
                None => break,
            }
        }
    }
}

fn texts(best: &mut Best, left: &mut u32) {
    let mut at = 0;
    loop {
        let Definition::Function(kernel, _) = &best.0 else { return };
        let mut kernel = kernel.clone();
        let mut edit = Edit { left: at, done: false };
        edit.kernel(&mut kernel);
        if !edit.done {
            return;
        }
        let definition = Definition::Function(kernel, Settings::default());
        let result = tried(best, &definition, &best.1, left);
        match result {
            Some(smaller) => *best = smaller,
            None if *left == 0 => return,
            None => at += 1,
        }
    }
}

/// Applies the shrinking step with this number.
struct Edit {
    left: usize,
    done: bool,
}

impl Edit {
    /// Counts down to this step.
    fn hit(&mut self) -> bool {
        if self.done {
            return false;
        }
        self.done = self.left == 0;
        self.left = self.left.wrapping_sub(1);
        self.done
    }

    fn kernel(&mut self, of: &mut Kernel) {
        self.list(&mut of.body);
        let mut at = 0;
        while at < of.params.len() && !self.done {
            if self.hit() {
                of.params.remove(at);
                return;
            }
            let param = &mut of.params[at];
            if let ParamKind::Tensor { stride, shape, .. } = &mut param.kind {
                if stride.is_some() && self.hit() {
                    *stride = None;
                    return;
                }
                self.expr(shape);
                if let Some(stride) = stride {
                    self.expr(stride);
                }
            }
            at += 1;
        }
        for elem in [Elem::F64, Elem::F16, Elem::Bf16, Elem::I32, Elem::U32, Elem::I8, Elem::U8] {
            if self.hit()
                && let Some(renamed) = with_floats(of, elem)
            {
                *of = renamed;
            }
        }
    }

    fn list(&mut self, body: &mut Vec<Stmt>) {
        let mut at = body.len();
        while at > 0 && !self.done {
            at -= 1;
            if self.hit() {
                body.remove(at);
                return;
            }
        }
        for stmt in body {
            if self.done {
                return;
            }
            match &mut stmt.kind {
                StmtKind::Let { value, .. } | StmtKind::Expr(value) => self.expr(value),
                StmtKind::Assign { op, value, .. } => {
                    if op.is_some() && self.hit() {
                        *op = None;
                    }
                    self.expr(value);
                }
                StmtKind::For { range, body, .. } => {
                    self.expr(range);
                    self.list(body);
                }
                StmtKind::If { then, other, .. } => {
                    self.list(then);
                    self.list(other);
                }
                StmtKind::While { body, .. } | StmtKind::Block { body, .. } => self.list(body),
                StmtKind::Break => {}
            }
        }
    }

    fn expr(&mut self, of: &mut Expr) {
        for smaller in simpler(of) {
            if self.done {
                return;
            }
            if self.hit() {
                of.kind = smaller;
                return;
            }
        }
        of.inside_mut().into_iter().for_each(|part| self.expr(part));
    }
}

/// Functions whose calls are not replaced by their arguments.
const TILES: [&str; 8] = ["tile", "parallelize", "shared", "registers", "copy", "map", "gemm", "fill"];

/// What may stand instead of an expression: parts of it, smaller numbers, a call without an option.
fn simpler(of: &Expr) -> Vec<ExprKind> {
    match &of.kind {
        ExprKind::Int(n) => {
            let smaller = [0, 1, n / 2, n - 1].into_iter().filter(|smaller| (0..*n).contains(smaller));
            smaller.map(ExprKind::Int).collect()
        }
        ExprKind::Float(x) if *x != 0.0 => {
            [0.0, 1.0].into_iter().filter(|simpler| simpler != x).map(ExprKind::Float).collect()
        }
        ExprKind::Binary(_, x, y) | ExprKind::If { then: x, other: y, .. } => {
            vec![x.kind.clone(), y.kind.clone()]
        }
        ExprKind::Unary(_, x) | ExprKind::Cast(x, _) => vec![x.kind.clone()],
        ExprKind::Layout { shape, stride: Some(_) } => {
            vec![ExprKind::Layout { shape: shape.clone(), stride: None }]
        }
        ExprKind::Call { function, types, args } => {
            let is_tile = TILES.contains(&&*function.text);
            let parts = args.iter().filter(|_| !is_tile).map(|arg| arg.value.kind.clone());
            let options = (0..args.len()).rev().filter(|at| args[*at].name.is_some());
            let without = options.map(|at| {
                let mut args = args.clone();
                args.remove(at);
                ExprKind::Call { function: function.clone(), types: types.clone(), args }
            });
            parts.chain(without).collect()
        }
        _ => Vec::new(),
    }
}

/// The kernel with `f32` instead of a type.
fn with_floats(of: &Kernel, elem: Elem) -> Option<Kernel> {
    let text = of.to_string();
    let mut words = String::new();
    for word in text.split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        let is_type = word.strip_suffix(|letter: char| !letter.is_alphanumeric() && letter != '_');
        words += &match is_type.unwrap_or(word) == elem.name() {
            true => word.replacen(elem.name(), "f32", 1),
            false => word.to_owned(),
        };
    }
    tilewright_parse::file::read(&words).0
}
