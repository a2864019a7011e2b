//! The results of a product as functions of its sums: scales, a bias, a residual, a function, beta times C.

use super::scales;
use crate::matmul::Config;
use crate::source::ast::{Expr, ExprKind, Pattern, Span};
use crate::source::problem::Result;
use crate::values::elem::Elem;
use crate::words::expr;

/// An argument with numbers for elements of C.
pub(super) struct Input {
    /// The argument.
    pub(super) argument: &'static str,
    /// The mode of C along which it varies, if not along both.
    pub(super) along: Option<usize>,
    /// One of its elements in functions.
    pub(super) name: &'static str,
    pub(super) elem: Elem,
}

/// Parts of the functions. An accumulator is `x`.
pub(super) struct Results<'c> {
    c: &'c Config,
    /// Everything that the functions read beside accumulators, in this order.
    pub(super) inputs: Vec<Input>,
    scaled: String,
    /// What is added before the function, and after it.
    added: [String; 2],
    old: Option<String>,
}

impl Results<'_> {
    pub(super) fn of(c: &Config) -> Results<'_> {
        let mut inputs = Vec::new();
        let as_scaled = |name: &str, elem: Elem| match elem == c.scaled() {
            true => name.to_owned(),
            false => format!("{name} as {}", c.scaled()),
        };
        let mut input = |argument, along, name: &'static str, elem: Elem| {
            inputs.push(Input { argument, along, name, elem });
            as_scaled(name, elem)
        };
        let mut scaled = as_scaled("x", c.acc);
        if c.alpha_beta {
            scaled = format!("alpha * {scaled}");
        }
        for along in (0..2).filter(|along| c.scales[*along]) {
            let factor = input(scales(c, along), Some(along), ["row", "column"][along], c.scaled());
            scaled = format!("{scaled} * {factor}");
        }
        let mut added = [String::new(), String::new()];
        if c.bias.is_some() {
            added[0] = format!(" + {}", input("bias", c.bias, "bias", c.out));
        }
        if let Some(of) = c.residual {
            added[usize::from(of.after)] += &format!(" + {}", input("residual", None, "residual", of.elem));
        }
        let old = c.alpha_beta.then(|| input("c", None, "old", c.out));
        Results { c, inputs, scaled, added, old }
    }

    /// The arguments that are neither A, B nor C.
    pub(super) fn others(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(|input| input.argument != "c")
    }

    /// The block's tiles of these arguments, and of the second result.
    pub(super) fn tiles(
        &self,
        like_c: impl Fn(&str) -> String,
        vector: impl Fn(&str, usize) -> String,
    ) -> String {
        let of = |Input { argument, along, .. }: &Input| {
            let tile = along.map_or_else(|| like_c(argument), |along| vector(argument, along));
            format!("let g{argument} = {tile};")
        };
        let aux = self.c.aux.map_or(String::new(), |_| format!("let gaux = {};", like_c("aux")));
        self.others().map(of).chain([aux]).collect()
    }

    /// A function of the scaled sum: C is read only if beta is not 0.
    fn of_sum(&self, function: &dyn Fn(Expr) -> Result<Expr>) -> Result<Expr> {
        let (scaled, [before, _]) = (&self.scaled, &self.added);
        let plain = function(expr(&format!("{scaled}{before}"), &[])?)?;
        let Some(old) = &self.old else { return Ok(plain) };
        let more = function(expr(&format!("fma(beta, {old}, {scaled}){before}"), &[])?)?;
        let zero = super::zero(self.c.scaled());
        expr(&format!("if beta != {zero} {{ MORE }} else {{ PLAIN }}"), &[("MORE", more), ("PLAIN", plain)])
    }

    /// The argument of the epilogue's function.
    pub(super) fn sum(&self) -> Result<Expr> {
        self.of_sum(&Ok)
    }

    /// The result before it is converted to C's type.
    pub(super) fn result(&self) -> Result<Expr> {
        self.of_sum(&|sum| self.finished(sum))
    }

    /// The result in C's type.
    pub(super) fn value(&self) -> Result<Expr> {
        self.of_sum(&|sum| self.stored(sum))
    }

    /// The same as a function of [`Results::sum`].
    pub(super) fn stored(&self, sum: Expr) -> Result<Expr> {
        match self.finished(sum)? {
            // Copies convert by themselves.
            value if matches!(value.kind, ExprKind::Name(_)) || self.c.scaled() == self.c.out => Ok(value),
            value => expr(&format!("VALUE as {}", self.c.out), &[("VALUE", value)]),
        }
    }

    fn finished(&self, sum: Expr) -> Result<Expr> {
        let value = match self.c.function.as_ref().map(|function| &function.kind) {
            Some(ExprKind::Closure { params, body }) => applied(params, body, sum),
            _ => sum,
        };
        expr(&format!("VALUE{}", self.added[1]), &[("VALUE", value)])
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
    let kind = ExprKind::Block { lets: vec![(param.clone(), value)], value: Box::new(body) };
    Expr { span: Span::default(), kind }
}
