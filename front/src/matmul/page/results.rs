//! The results of a product as functions of its sums: scales, a bias, a residual, a function, beta times C.

use super::scales;
use crate::matmul::Config;
use crate::source::ast::make::{call, choice, two};
use crate::source::ast::{Binary, Expr, ExprKind, Pattern};
use crate::values::elem::Elem;

/// An argument with numbers for elements of C.
pub(super) struct Input {
    /// The argument.
    pub(super) argument: &'static str,
    /// The mode of C along which it varies, if not along both.
    pub(super) along: Option<usize>,
    /// One of its elements in functions.
    pub(super) name: &'static str,
}

/// Parts of the functions. An accumulator is `x`.
pub(super) struct Results<'c> {
    c: &'c Config,
    /// Everything that the functions read beside accumulators, in this order.
    pub(super) inputs: Vec<Input>,
    scaled: Expr,
    bias: Option<Expr>,
    /// What is added, and whether after the function.
    residual: Option<(Expr, bool)>,
    old: Option<Expr>,
}

impl Results<'_> {
    pub(super) fn of(c: &Config) -> Results<'_> {
        let mut inputs = Vec::new();
        let mut input = |argument, along, name: &'static str, elem: Elem| {
            inputs.push(Input { argument, along, name });
            if elem == c.scaled() { Expr::from(name) } else { Expr::from(name).cast(c.scaled().name()) }
        };
        let mut scaled: Expr = "x".into();
        if c.scaled() != c.acc {
            scaled = scaled.cast(c.scaled().name());
        }
        if c.alpha_beta {
            scaled = two(Binary::Mul, "alpha".into(), scaled);
        }
        for along in (0..2).filter(|along| c.scales[*along]) {
            let factor = input(scales(c, along), Some(along), ["row", "column"][along], c.scaled());
            scaled = two(Binary::Mul, scaled, factor);
        }
        let bias = c.bias.map(|along| input("bias", Some(along), "bias", c.out));
        let residual = c.residual.map(|of| (input("residual", None, "residual", of.elem), of.after));
        let old = c.alpha_beta.then(|| input("c", None, "old", c.out));
        Results { c, inputs, scaled, bias, residual, old }
    }

    /// What is added before the function, or after it.
    fn residual(&self, after: bool) -> Option<&Expr> {
        self.residual.as_ref().filter(|of| of.1 == after).map(|(value, _)| value)
    }

    /// A function of the scaled sum: C is read only if beta is not 0.
    fn of_sum(&self, function: &dyn Fn(Expr) -> Expr) -> Expr {
        let added = |sum: Expr| {
            let terms = self.bias.iter().chain(self.residual(false));
            function(terms.fold(sum, |sum, more| two(Binary::Add, sum, more.clone())))
        };
        match &self.old {
            Some(old) => {
                let more = call("fma", &[], ["beta".into(), old.clone(), self.scaled.clone()]);
                let zero = if self.c.scaled().is_float() { 0.0.into() } else { 0.into() };
                let condition = two(Binary::Ne, "beta".into(), zero);
                choice(condition, added(more), added(self.scaled.clone()))
            }
            None => added(self.scaled.clone()),
        }
    }

    /// The argument of the epilogue's function.
    pub(super) fn sum(&self) -> Expr {
        self.of_sum(&|sum| sum)
    }

    /// The result before it is converted to C's type.
    pub(super) fn result(&self) -> Expr {
        self.of_sum(&|sum| self.finished(sum))
    }

    /// The result in C's type.
    pub(super) fn value(&self) -> Expr {
        self.of_sum(&|sum| self.stored(sum))
    }

    /// The same as a function of [`Results::sum`].
    pub(super) fn stored(&self, sum: Expr) -> Expr {
        match self.finished(sum) {
            // Copies convert by themselves.
            value if matches!(value.kind, ExprKind::Name(_)) || self.c.scaled() == self.c.out => value,
            value => value.cast(self.c.out.name()),
        }
    }

    fn finished(&self, sum: Expr) -> Expr {
        let value = match self.c.function.as_ref().map(|function| &function.kind) {
            Some(ExprKind::Closure { params, body }) => applied(params, body, sum),
            _ => sum,
        };
        let after = self.residual(true);
        after.into_iter().fold(value, |value, more| two(Binary::Add, value, more.clone()))
    }
}

/// A function of one number, applied to a value.
fn applied(params: &[Pattern], body: &Expr, value: Expr) -> Expr {
    let [param] = params else { return value };
    let is_param = |of: &Expr| match (&of.kind, param) {
        (ExprKind::Name(of), Pattern::Name(name)) => *of == name.text,
        _ => false,
    };
    let mut body = body.clone();
    if is_param(&value) {
        return body;
    }
    // A call of a function of the number alone.
    if let ExprKind::Call { args, .. } = &mut body.kind
        && args.iter().all(|arg| is_param(&arg.value) || arg.value.names().is_empty())
        && args.iter().filter(|arg| is_param(&arg.value)).count() == 1
    {
        args.iter_mut().filter(|arg| is_param(&arg.value)).for_each(|arg| arg.value = value.clone());
        return body;
    }
    body.given(param.clone(), value)
}
