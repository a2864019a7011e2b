//! The head of a kernel: constants, element types, arguments and their sizes.

use std::sync::Arc;

use tilewright_layout::{Tuple, Value as Size};

use super::Evaluator;
use super::advice::element;
use super::value::Value;
use crate::launch::definition::Settings;
use crate::source::ast::Span;
use crate::source::ast::{self, Kernel, Name, ParamKind};
use crate::source::problem::Problem;
use crate::source::spelling::did_you_mean;
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;
use crate::values::limits;
use crate::values::typing::Scalar;

impl Evaluator {
    pub(super) fn constants(&mut self, kernel: &Kernel, settings: &Settings) {
        for (name, _) in &settings.consts {
            if !kernel.consts.iter().any(|c| c.name.text == name.text) {
                let known: Vec<_> = kernel.consts.iter().map(|c| c.name.text.as_str()).collect();
                let help = match known[..] {
                    [] => format!("`{}` has no constants", kernel.name.text),
                    _ => did_you_mean(&name.text, known.iter().copied())
                        .unwrap_or_else(|| format!("its constants are {}", known.join(", "))),
                };
                let problem = Problem::new(format!("`{}` has no constant `{}`", kernel.name.text, name.text));
                self.complain(name.span, problem.help(help));
            }
        }
        for constant in &kernel.consts {
            let is_constant = |name: &Name| name.text == constant.name.text;
            let set = settings.consts.iter().rev().find(|(name, _)| is_constant(name));
            let function = settings.functions.iter().rev().find(|(name, _)| is_constant(name));
            let value = match (set, &constant.default) {
                (Some((name, n)), _) if constant.is_function() => {
                    let problem = Problem::new(format!("`{}` is a closure, and {n} is none", name.text));
                    self.complain(name.span, problem.help(format!("write `{} = |x| …`", name.text)))
                }
                (Some((_, n)), _) => Value::Int(*n),
                (None, Some(default)) => self.expr(function.map_or(default, |(_, function)| function)),
                (None, None) => self.complain(
                    constant.name.span,
                    Problem::new(format!("the constant `{}` has no value", constant.name.text))
                        .help(format!("give it a default, `const {}: usize = …`", constant.name.text)),
                ),
            };
            self.constants.push(constant.name.text.clone());
            self.scope.push((constant.name.text.clone(), value));
        }
        for param in &kernel.types {
            let set = settings.types.iter().rev().find(|(name, _)| name.text == param.name.text);
            let allowed: Vec<Elem> = param.allowed.iter().filter_map(|name| self.elem(name)).collect();
            let elem = match set {
                Some((name, elem)) if !allowed.contains(elem) => {
                    let names: Vec<_> = allowed.iter().map(|e| e.name()).collect();
                    let problem = Problem::new(format!("`{}` cannot be {elem}", param.name.text));
                    self.complain(name.span, problem.help(format!("it may be {}", names.join(" or "))));
                    None
                }
                Some((_, elem)) => Some(*elem),
                None => allowed.first().copied(),
            };
            Arc::make_mut(&mut self.home).types.push((param.name.text.clone(), elem.unwrap_or(Elem::F32)));
        }
    }

    /// The element type of this name.
    pub(super) fn elem(&mut self, name: &Name) -> Option<Elem> {
        if let Some((_, elem)) = self.home.types.iter().find(|(known, _)| *known == name.text) {
            return Some(*elem);
        }
        match Elem::named(&name.text) {
            Some(elem) => Some(elem),
            None => {
                let problem = Problem::new(format!("`{}` is not an element type", name.text));
                self.complain(name.span, problem.help(element(&name.text)));
                None
            }
        }
    }

    /// Names of the head must be distinct: constants, element types and arguments.
    pub(super) fn heads(&mut self, kernel: &Kernel) {
        let consts = kernel.consts.iter().map(|constant| (&constant.name, "constant"));
        let types = kernel.types.iter().map(|ty| (&ty.name, "element type"));
        let params = kernel.params.iter().map(|param| (&param.name, "argument"));
        let devices = kernel.devices.iter().map(|device| (&device.name, "function"));
        let all: Vec<(&Name, &str)> = consts.chain(types).chain(params).chain(devices).collect();
        self.distinct(&all);
    }

    /// Names that must be distinct, with the kind of thing that they name.
    pub(super) fn distinct(&mut self, all: &[(&Name, &str)]) {
        for (at, (name, what)) in all.iter().enumerate() {
            let Some((_, first)) = all[..at].iter().find(|(earlier, _)| earlier.text == name.text) else {
                continue;
            };
            let problem = Problem::new(match first == what {
                true => format!("`{}` is the name of two {what}s", name.text),
                false => format!("`{}` is the name of this {what} and of an earlier {first}", name.text),
            });
            self.complain(name.span, problem.help("rename one of them"));
        }
    }

    pub(super) fn params(&mut self, kernel: &Kernel) {
        // The first requirement on sizes after each argument.
        let mut ends = Vec::new();
        for param in &kernel.params {
            let value = match &param.list {
                None => self.param(param),
                Some(length) => self.list(kernel, param, length),
            };
            self.scope.push((param.name.text.clone(), value));
            ends.push((self.builder.program().requires.len(), param.name.span));
        }
        for (size, of) in self.builder.solved() {
            self.scope.push((size.name().to_owned(), Value::Index(of)));
        }
        for (order, size) in self.builder.undetermined() {
            let Some((_, span)) = ends.iter().find(|(end, _)| order < *end) else { continue };
            let name = size.name();
            let problem =
                Problem::new(format!("a launch cannot determine `{name}` from the extents of this argument"));
            let help = format!(
                "use `{name}` alone as an extent, Tensor<f32, {name}>, or in a sum, Tensor<f32, {{{name} + 1}}>"
            );
            let poison = self.complain(*span, problem.help(help));
            self.scope.push((name.to_owned(), poison));
        }
    }

    /// A list of tensors: an argument for each, with a number after the name; an optional one keeps its name.
    fn list(&mut self, kernel: &Kernel, param: &ast::Param, length: &ast::Expr) -> Value {
        let count = match self.expr(length) {
            Value::Int(count) if (0..=limits::MOST_LISTED).contains(&count) => count,
            Value::Poison => return Value::Poison,
            other => {
                let most = limits::MOST_LISTED;
                let problem =
                    Problem::new(format!("a list has at most {most} tensors, and this is {}", other.kind()));
                return self
                    .complain(length.span, problem.help("write a number or a constant of the kernel"));
            }
        };
        let mut all = Vec::new();
        for n in 0..count {
            let text = if param.optional { param.name.text.clone() } else { listed(&param.name.text, n) };
            let is_other =
                |other: &&ast::Param| other.name.text == text && other.name.text != param.name.text;
            if let Some(other) = kernel.params.iter().find(is_other) {
                let problem = Problem::new(format!(
                    "`{text}` is the name of this argument and of a tensor of the list `{}`",
                    param.name.text
                ));
                return self.complain(other.name.span, problem.help("rename one of them"));
            }
            let kind = match &param.kind {
                ParamKind::Tensor { mutable, shape, stride } => ParamKind::Tensor {
                    mutable: *mutable,
                    shape: named(shape, &format!("{text}_size")),
                    stride: stride.as_ref().map(|stride| named(stride, &format!("{text}_stride"))),
                },
                ParamKind::Scalar => ParamKind::Scalar,
            };
            if let (ParamKind::Tensor { shape, .. }, ParamKind::Tensor { shape: names, .. }) =
                (&param.kind, &kind)
            {
                self.allow_empty(shape, names);
            }
            let name = Name { text, span: param.name.span };
            match self.param(&ast::Param {
                name,
                kind,
                list: None,
                elem: param.elem.clone(),
                optional: false,
            }) {
                // One mistake in the type is one error.
                Value::Poison => return Value::Poison,
                value => all.push(value),
            }
        }
        Value::Tuple(all)
    }

    /// Extents `_` of a list's tensor, here with their names, may be 0.
    fn allow_empty(&mut self, shape: &ast::Expr, names: &ast::Expr) {
        for (extent, named) in modes(shape).iter().zip(modes(names)) {
            if let (ast::ExprKind::Hole, ast::ExprKind::Name(name)) = (&extent.kind, &named.kind) {
                self.builder.at_least(Size::symbol(name), 0);
            }
        }
    }

    /// An argument.
    fn param(&mut self, param: &ast::Param) -> Value {
        let named = self.is_name("an argument", &param.name.text, param.name.span);
        let Some(elem) = self.elem(&param.elem).filter(|_| named) else { return Value::Poison };
        self.builder.at(param.name.span);
        match &param.kind {
            ParamKind::Scalar => {
                self.uses.bind(&param.name, self.scope.len());
                Value::Number(Scalar::new(self.builder.scalar(&param.name.text, elem), elem))
            }
            ParamKind::Tensor { mutable, shape, stride } => {
                let of = |run: &mut Self, e: &ast::Expr| run.sizes(e);
                let extents = of(self, shape);
                let strides = stride.as_ref().map(|stride| of(self, stride));
                match (extents, strides) {
                    (Some(extents), None) => self.tensor(param, elem, extents, None, *mutable, shape.span),
                    (Some(extents), Some(Some(strides))) if extents.rank() != strides.rank() => {
                        let problem = Problem::new(format!(
                            "`{}` has the extents {extents}, and the strides {strides}",
                            param.name.text
                        ));
                        let at = stride.as_ref().map_or(shape.span, |stride| stride.span);
                        let help = "write a stride for each mode: (ldx, _1) where rows are contiguous, (_1, ldx) for columns";
                        self.complain(at, problem.help(help))
                    }
                    (Some(extents), Some(Some(strides))) => {
                        self.tensor(param, elem, extents, Some(strides), *mutable, shape.span)
                    }
                    _ => Value::Poison,
                }
            }
        }
    }

    pub(super) fn tensor(
        &mut self,
        param: &ast::Param,
        elem: Elem,
        shape: Tuple,
        stride: Option<Tuple>,
        mutable: bool,
        span: Span,
    ) -> Value {
        match self.builder.tensor(&param.name.text, elem, shape, stride, mutable) {
            Ok(view) => Value::View(view),
            Err(problem) => self.complain(span, problem),
        }
    }

    /// Sizes in the type of an argument: names that are no constants are known at launch.
    pub(super) fn sizes(&mut self, expr: &ast::Expr) -> Option<Tuple> {
        use ast::ExprKind::{Name as Named, Tuple as Items};
        match &expr.kind {
            Named(name) => match self.lookup(name).cloned() {
                Some(Value::Int(n)) => Some(n.into()),
                Some(Value::Poison) => None,
                Some(other) => {
                    let problem = Problem::new(format!("`{name}` is {} here, not a size", other.kind()));
                    self.complain(expr.span, problem);
                    None
                }
                None => match static_stride(name) {
                    Some(size) => Some(size.into()),
                    None => self.is_name("a size", name, expr.span).then(|| Size::symbol(name).into()),
                },
            },
            ast::ExprKind::Hole => {
                let problem = Problem::new("the extents of a tensor have names");
                self.complain(expr.span, problem.help("write a name that launch finds out, such as `M`; tensors of a list, `[&Tensor<f32, _>; 4]`, may differ in theirs"));
                None
            }
            Items(items) if self.depth < limits::DEEPEST => {
                self.depth += 1;
                let sizes: Vec<_> = items.iter().map(|item| self.sizes(item)).collect();
                self.depth -= 1;
                Some(Tuple::of(sizes.into_iter().collect::<Option<Vec<_>>>()?))
            }
            _ => {
                self.in_type = true;
                let made = self.expr(expr);
                self.in_type = false;
                // Tiles divide a size, or a multiple of one.
                let made = match made {
                    Value::Size(Size::Sym { times, of, over }) if times != 1 => {
                        Value::Index(Size::Sym { times, of, over }.into())
                    }
                    made => made,
                };
                match made {
                    Value::Int(n) => Some(n.into()),
                    Value::Size(size) => Some(size.into()),
                    Value::Index(at) if self.is_of_sizes(&at) => match self.builder.computed(&at) {
                        Ok(size) => Some(size.into()),
                        Err(problem) => {
                            self.complain(expr.span, problem);
                            None
                        }
                    },
                    Value::Poison => None,
                    other => {
                        let problem =
                            Problem::new(format!("a size is needed here, and this is {}", other.kind()));
                        self.complain(
                            expr.span,
                            problem.help("write a number, a constant, or a name such as M"),
                        );
                        None
                    }
                }
            }
        }
    }

    /// Is it made of sizes alone?
    pub(super) fn is_of_sizes(&self, of: &Affine) -> bool {
        !of.any(&|coord| !matches!(coord, Coord::Size { .. } | Coord::Submode { .. } | Coord::Two(..)))
    }
}

/// The name of a tensor of a list.
fn listed(list: &str, n: i64) -> String {
    format!("{list}_{n}")
}

/// The extents or strides of modes, or the only one.
fn modes(shape: &ast::Expr) -> &[ast::Expr] {
    match &shape.kind {
        ast::ExprKind::Tuple(modes) => modes,
        _ => std::slice::from_ref(shape),
    }
}

/// Extents or strides of a tensor of a list, with names for the extents and strides that only it has.
fn named(of: &ast::Expr, name: &str) -> ast::Expr {
    let all = modes(of);
    let one = |(mode, of): (usize, &ast::Expr)| match of.kind {
        ast::ExprKind::Hole => {
            let name = if all.len() > 1 { format!("{name}{mode}") } else { name.to_owned() };
            ast::Expr { span: of.span, kind: ast::ExprKind::Name(name) }
        }
        _ => of.clone(),
    };
    let mut named: Vec<ast::Expr> = all.iter().enumerate().map(one).collect();
    match of.kind {
        ast::ExprKind::Tuple(_) => ast::Expr { span: of.span, kind: ast::ExprKind::Tuple(named) },
        _ => named.swap_remove(0),
    }
}

/// `_1` in a stride: the integer 1, known while compiling.
pub(super) fn static_stride(name: &str) -> Option<Size> {
    name.strip_prefix('_')?.parse().ok().map(Size::Int)
}
