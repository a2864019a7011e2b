//! Values of the keys of `matmul_kernel!`, in the expressions of kernels.

use super::Evaluator;
use super::value::Value;
use crate::source::ast::{self, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, count};
use crate::tile;
use crate::values::elem::Elem;
use crate::values::typing::Type;

/// Reads the values of keys, as `matmul_kernel!` has them: the expressions of kernels, without a kernel.
pub(crate) struct Keys(Evaluator);

impl Keys {
    pub(crate) fn new() -> Keys {
        Keys(Evaluator { in_kernel: false, ..Evaluator::new("") })
    }

    /// Errors in the values so far.
    pub(crate) fn diagnostics(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.0.diagnostics)
    }

    fn refuse(&mut self, span: Span, what: &str, value: &Value, help: &str) {
        if !matches!(value, Value::Poison) {
            let problem = Problem::new(format!("{what} is needed here, and this is {}", value.kind()));
            self.0.complain(span, problem.help(help));
        }
    }

    pub(crate) fn integer(&mut self, expr: &ast::Expr) -> Option<i64> {
        match self.0.expr(expr) {
            Value::Int(n) => Some(n),
            value => {
                self.refuse(
                    expr.span,
                    "an integer",
                    &value,
                    "write it without a point or quotes, such as 128",
                );
                None
            }
        }
    }

    /// A compute capability: `90` or `sm_90`.
    pub(crate) fn architecture(&mut self, expr: &ast::Expr) -> Option<u32> {
        match self.0.architecture(expr) {
            Ok(arch) => Some(arch),
            Err(problem) => {
                self.0.complain(expr.span, problem);
                None
            }
        }
    }

    /// A layout, or a shape for the compact layout.
    pub(crate) fn layout(&mut self, expr: &ast::Expr) -> Option<tilewright_layout::Composed> {
        let value = self.0.expr(expr);
        match (&value, value.tuple()) {
            (Value::Layout(layout), _) => Some(layout.clone()),
            (_, Some(shape)) => match tilewright_layout::Layout::compact(shape) {
                Ok(layout) => Some(layout.into()),
                Err(error) => {
                    self.0.complain(expr.span, error.into());
                    None
                }
            },
            _ => {
                self.refuse(
                    expr.span,
                    "a layout or a shape",
                    &value,
                    "write (16, 16), or layout!((16, 16) : (16, 1))",
                );
                None
            }
        }
    }

    /// A function of one number of a type.
    pub(crate) fn closure(&mut self, expr: &ast::Expr, elem: Elem) -> Option<tile::Expr> {
        let value = self.0.expr(expr);
        let Value::Closure(closure) = &value else {
            self.refuse(expr.span, "a closure", &value, "write it out: |x| max(x, 0.0)");
            return None;
        };
        if closure.params.len() != 1 {
            let takes = count(closure.params.len(), "number");
            let problem = Problem::new(format!("this closure takes {takes}, and is given one"));
            self.0.complain(expr.span, problem.help("write |x| …, a function of one sum"));
            return None;
        }
        let value = self.0.applied(closure, &[elem]);
        let number = value.number().filter(|number| number.ty != Some(Type::Condition));
        if number.is_none() {
            let at = closure.body.span;
            self.refuse(at, "a number", &value, "end the closure with arithmetic on its parameter");
        }
        number.map(|number| number.expr)
    }
}
