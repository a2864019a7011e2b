//! Shrinks a failing kernel while it fails in the same way.

use tilewright_codegen::ast::{Arg, Expr, ExprKind, Kernel, ParamKind, Stmt, StmtKind};
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
            if self.hit() {
                renamed(of, elem.name());
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
        if self.done {
            return;
        }
        match &mut of.kind {
            ExprKind::Int(n) => {
                for smaller in [0, 1, *n / 2, *n - 1] {
                    if smaller >= 0 && smaller < *n && self.hit() {
                        *n = smaller;
                        return;
                    }
                }
            }
            ExprKind::Float(x) => {
                for simpler in [0.0, 1.0] {
                    if *x != simpler && *x != 0.0 && self.hit() {
                        *x = simpler;
                        return;
                    }
                }
            }
            ExprKind::Tuple(items) => items.iter_mut().for_each(|item| self.expr(item)),
            ExprKind::Binary(_, x, y) => {
                for part in [(**x).clone(), (**y).clone()] {
                    if self.hit() {
                        *of = part;
                        return;
                    }
                }
                if let ExprKind::Binary(_, x, y) = &mut of.kind {
                    self.expr(x);
                    self.expr(y);
                }
            }
            ExprKind::Unary(_, inner) | ExprKind::Cast(inner, _) => {
                if self.hit() {
                    let inner = (**inner).clone();
                    *of = inner;
                    return;
                }
                self.expr(inner);
            }
            ExprKind::If { condition, then, other } => {
                for part in [(**then).clone(), (**other).clone()] {
                    if self.hit() {
                        *of = part;
                        return;
                    }
                }
                for part in [condition, then, other] {
                    self.expr(part);
                }
            }
            ExprKind::Call { function, args, .. } => {
                let tiles = ["tile", "parallelize", "shared", "registers", "copy", "map", "gemm", "fill"];
                if !tiles.contains(&function.text.as_str()) {
                    let parts: Vec<Expr> = args.iter().map(|arg| arg.value.clone()).collect();
                    for part in parts {
                        if self.hit() {
                            *of = part;
                            return;
                        }
                    }
                }
                if let ExprKind::Call { args, .. } = &mut of.kind {
                    self.args(args);
                }
            }
            ExprKind::Index { index, .. } => self.expr(index),
            ExprKind::Range(from, to) => {
                self.expr(from);
                self.expr(to);
            }
            ExprKind::Layout { shape, stride } => {
                if stride.is_some() && self.hit() {
                    *stride = None;
                    return;
                }
                self.expr(shape);
                if let Some(stride) = stride {
                    self.expr(stride);
                }
            }
            ExprKind::Closure { body, .. } => self.expr(body),
            _ => {}
        }
    }

    fn args(&mut self, args: &mut Vec<Arg>) {
        for at in (0..args.len()).rev() {
            if args[at].name.is_some() && self.hit() {
                args.remove(at);
                return;
            }
        }
        args.iter_mut().for_each(|arg| self.expr(&mut arg.value));
    }
}

/// The same with `f32` instead of a type.
fn renamed(of: &mut Kernel, elem: &str) {
    let name = |name: &mut tilewright_codegen::ast::Name| {
        if name.text == elem {
            name.text = "f32".into();
        }
    };
    fn all(of: &mut Expr, name: &dyn Fn(&mut tilewright_codegen::ast::Name)) {
        match &mut of.kind {
            ExprKind::Call { types, args, .. } => {
                types.iter_mut().for_each(name);
                args.iter_mut().for_each(|arg| all(&mut arg.value, name));
            }
            ExprKind::Cast(inner, to) => {
                name(to);
                all(inner, name);
            }
            ExprKind::Binary(_, x, y) => {
                all(x, name);
                all(y, name);
            }
            ExprKind::Unary(_, x) | ExprKind::Closure { body: x, .. } => all(x, name),
            ExprKind::If { condition, then, other } => {
                [condition, then, other].into_iter().for_each(|x| all(x, name));
            }
            ExprKind::Tuple(items) => items.iter_mut().for_each(|item| all(item, name)),
            ExprKind::Int(_) | ExprKind::Float(_) => {}
            _ => {}
        }
    }
    fn list(body: &mut [Stmt], name: &dyn Fn(&mut tilewright_codegen::ast::Name)) {
        for stmt in body {
            match &mut stmt.kind {
                StmtKind::Let { value, .. } | StmtKind::Expr(value) | StmtKind::Assign { value, .. } => {
                    all(value, name);
                }
                StmtKind::For { body, .. } | StmtKind::While { body, .. } | StmtKind::Block { body, .. } => {
                    list(body, name);
                }
                StmtKind::Break => {}
                StmtKind::If { then, other, .. } => {
                    list(then, name);
                    list(other, name);
                }
            }
        }
    }
    for param in &mut of.params {
        name(&mut param.elem);
    }
    list(&mut of.body, &name);
}
