//! A product, described by its operands and options: their checks, the keys of its kernel, and its arguments.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use tilewright_program::ast::{Arg, Expr, ExprKind, Name};
use tilewright_program::launch::Refusal;
use tilewright_program::number::Number;
use tilewright_program::{Definition, Elem};

use super::operand::{Backend, Lent, Modes};
use super::{Activation, Error, Precision};

/// A product, ready to run.
#[doc(hidden)]
pub struct Product<'p, P: Backend> {
    pub(super) form: Form,
    pub(super) alpha: f64,
    pub(super) beta: f64,
    /// `a` (M, K), `b` (K, N), `c` (M, N), then the others, by the names of the kernel's parameters.
    pub(super) operands: Vec<(&'static str, P::Lent<'p>)>,
}

/// Rows or columns of a result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Side {
    Rows,
    Columns,
}

/// When a residual is added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum When {
    Before,
    After,
}

/// The options that change the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Options {
    pub(super) alpha_beta: bool,
    pub(super) bias: Option<Side>,
    pub(super) residual: Option<When>,
    pub(super) scale_rows: bool,
    pub(super) scale_columns: bool,
    pub(super) scale_blocks: bool,
    pub(super) precision: Precision,
    pub(super) activation: Option<Activation>,
}

/// Everything except sizes that determines the kernel of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Form {
    pub(super) elem: Elem,
    pub(super) out: Elem,
    /// The contiguous modes of `a`, `b` and `c`.
    contiguous: [u8; 3],
    pub(super) batched: bool,
    residual: Option<Elem>,
    pub(super) options: Options,
}

/// `2 x 3`
fn shape(modes: &Modes) -> String {
    let extents: Vec<String> = modes.extents[..modes.rank].iter().map(i64::to_string).collect();
    extents.join(" x ")
}

/// The mode along which the elements of a matrix are neighbours: 0 or 1.
fn contiguous(name: &str, modes: &Modes) -> Result<u8, Refusal> {
    let is = |mode: usize| modes.strides[mode] == 1;
    let long = |mode: usize| modes.extents[mode] > 1;
    let order = [0, 1].into_iter().find(|mode| is(*mode) && long(*mode));
    let order = order.or_else(|| [0, 1].into_iter().find(|mode| !long(*mode)));
    order.map(|mode| mode as u8).ok_or_else(|| {
        let [rows, columns, _] = modes.strides;
        Refusal::of(
            name,
            format!("neither its rows nor its columns are contiguous: its strides are {rows} and {columns}"),
        )
        .help("copy it to a tensor in which one of the two strides is 1")
    })
}

impl Form {
    /// The form of a product of these operands, by the names of the kernel's parameters. Wrong operands are refused
    /// here, for devices and the host alike.
    pub(super) fn of(options: Options, operands: &[(&'static str, Modes)]) -> Result<Form, Refusal> {
        let [(_, a), (_, b), (_, c), others @ ..] = operands else {
            unreachable!("a product has three operands")
        };
        operands.iter().try_for_each(|(name, modes)| Form::has_elements(name, modes))?;
        operands.iter().try_for_each(|(name, modes)| Form::has_strides(name, modes))?;
        if a.rank != b.rank || a.rank != c.rank {
            let message = format!("`a` is {}, `b` is {} and `c` is {}", shape(a), shape(b), shape(c));
            return Err(Refusal::new(message)
                .help("give all three two modes, or all three a third one, which counts products"));
        }
        Form::multiplies(a, b)?;
        Form::result(a, b, c)?;
        let [m, n, l] = [c.extents[0], c.extents[1], c.extents[2]];
        for (name, modes) in others {
            Form::other(&options, name, modes, c, [m, n, l], a.extents[1])?;
        }
        let orders = [contiguous("a", a)?, contiguous("b", b)?, contiguous("c", c)?];
        let residual = others.iter().find(|(name, _)| *name == "residual");
        if let Some((name, modes)) = residual
            && modes.extents[usize::from(orders[2])] > 1
            && modes.strides[usize::from(orders[2])] != 1
        {
            let along = ["columns", "rows"][usize::from(orders[2])];
            return Err(Refusal::of(name, format!("its {along} are not contiguous, and those of `c` are"))
                .help("give it the layout of `c`"));
        }
        let form = Form {
            elem: a.elem,
            out: c.elem,
            contiguous: orders,
            batched: a.rank == 3,
            residual: residual.map(|(_, modes)| modes.elem),
            options,
        };
        form.types()?;
        others.iter().try_for_each(|(name, modes)| form.scales(name, modes))?;
        Ok(form)
    }

    /// Refuses a stride of 0, since kernels assume a greater one.
    fn has_strides(name: &str, modes: &Modes) -> Result<(), Refusal> {
        let repeated = |mode: &usize| modes.extents[*mode] > 1 && modes.strides[*mode] == 0;
        match (0..modes.rank).find(repeated) {
            None => Ok(()),
            Some(mode) => Err(Refusal::of(name, format!("its stride {mode} is 0"))
                .help("copy it to a tensor in which each element has its own memory")),
        }
    }

    /// Checks the types and layouts of scales.
    fn scales(&self, name: &str, modes: &Modes) -> Result<(), Refusal> {
        if !name.starts_with("scale_") {
            return Ok(());
        }
        let elem = self.scaled();
        if modes.elem != elem {
            let message = format!("its elements are {}, and the epilogue computes in {elem}", modes.elem);
            return Err(Refusal::of(name, message).help(format!("convert them to {elem}")));
        }
        let contiguous = match name {
            "scale_a" => 0,
            "scale_b" => 1,
            _ => return Ok(()),
        };
        if modes.extents[contiguous] > 1 && modes.strides[contiguous] != 1 {
            let along = ["columns", "rows"][contiguous];
            return Err(Refusal::of(name, format!("its {along} are not contiguous"))
                .help(format!("copy it to a tensor with contiguous {along}")));
        }
        Ok(())
    }

    /// Refuses a factor that the type in which the epilogue computes does not represent.
    pub(super) fn factor(&self, name: &str, factor: f64) -> Result<(), Refusal> {
        let elem = self.scaled();
        let number = match factor.fract() == 0.0 && factor.abs() < 1e15 {
            true => Number::from(factor as i64),
            false => Number::from(factor),
        };
        number.check(elem).map_err(|problem| {
            let refusal = Refusal::of(name, problem.message);
            if elem.is_float() {
                return refusal.help("write a smaller factor");
            }
            refusal.help(format!(
                "a product of {} with a result of {} is scaled in {elem}: name another type of the result with `out`, such as \
                 `out::<f32>()`, which is scaled in f32",
                self.elem, self.out
            ))
        })
    }

    /// An empty operand.
    fn has_elements(name: &str, modes: &Modes) -> Result<(), Refusal> {
        let Some(mode) = modes.extents[..modes.rank].iter().position(|extent| *extent == 0) else {
            return Ok(());
        };
        let message =
            format!("it is {}, and its extent {mode} is 0: there is nothing to multiply", shape(modes));
        Err(Refusal::of(name, message)
            .help("leave the call out where an extent is 0; a sum over no elements is 0, so fill the result yourself"))
    }

    /// Matrices that cannot be multiplied.
    pub(super) fn multiplies(a: &Modes, b: &Modes) -> Result<(), Refusal> {
        [("a", a), ("b", b)].into_iter().try_for_each(|(name, modes)| Form::has_elements(name, modes))?;
        let (k, rows) = (a.extents[1], b.extents[0]);
        if k != rows {
            let message = format!(
                "it is {}, and `a` is {}: its rows, {rows}, are not the columns of `a`, {k}",
                shape(b),
                shape(a)
            );
            let fits = |name| format!("the transpose of `{name}` fits: `{name}.view().transposed()`");
            return Err(Refusal::of("b", message).help(if b.extents[1] == k {
                fits("b")
            } else if a.extents[0] == rows {
                fits("a")
            } else {
                "a product of matrices M x K and K x N is M x N".into()
            }));
        }
        Ok(())
    }

    /// A result of other extents than the product.
    fn result(a: &Modes, b: &Modes, c: &Modes) -> Result<(), Refusal> {
        let expected = [a.extents[0], b.extents[1]];
        if expected != c.extents[..2] {
            let message = format!(
                "it is {}, and the product of `a`, {}, and `b`, {}, is {} x {}",
                shape(c),
                shape(a),
                shape(b),
                expected[0],
                expected[1]
            );
            return Err(
                Refusal::of("c", message).help("give it these extents, or call `matmul`, which allocates it")
            );
        }
        let batch = [a, b, c].map(|modes| modes.extents[2]);
        if batch[0] != batch[1] || batch[0] != batch[2] {
            let message = format!("`a` has {} matrices, `b` {} and `c` {}", batch[0], batch[1], batch[2]);
            return Err(Refusal::new(message).help("give all three the same third extent"));
        }
        Ok(())
    }

    /// Checks the extents and types of operands that are not multiplied.
    fn other(
        options: &Options,
        name: &str,
        modes: &Modes,
        c: &Modes,
        [m, n, l]: [i64; 3],
        k: i64,
    ) -> Result<(), Refusal> {
        let vector = |of: i64, what: &str| match modes.rank == 1 && modes.extents[0] == of {
            true => Ok(()),
            false => Err(Refusal::of(name, format!("it is {}, and `c` has {of} {what}", shape(modes)))
                .help(format!("give it one mode of {of} elements"))),
        };
        match name {
            "bias" if options.bias == Some(Side::Rows) => vector(m, "rows")?,
            "bias" => vector(n, "columns")?,
            _ => {}
        }
        match name {
            "bias" | "scale_rows" | "scale_columns"
                if modes.rank == 1 && modes.extents[0] > 1 && modes.strides[0] != 1 =>
            {
                return Err(Refusal::of(name, format!("its elements are {} apart", modes.strides[0]))
                    .help("copy them to be neighbours"));
            }
            "scale_rows" => vector(m, "rows")?,
            "scale_columns" => vector(n, "columns")?,
            "scale_a" | "scale_b" => {
                let blocks = |extent: i64| (extent + 127) / 128;
                let expected = if name == "scale_a" { [m, blocks(k)] } else { [blocks(n), blocks(k)] };
                if modes.rank != 2 || modes.extents[..2] != expected {
                    let [rows, columns] = expected;
                    return Err(Refusal::of(
                        name,
                        format!(
                            "it is {}, and scales of blocks of 128 are {rows} x {columns} here",
                            shape(modes)
                        ),
                    )
                    .help("give `scale_a` (M, K/128) and `scale_b` (N/128, K/128), extents rounded up"));
                }
            }
            "residual" if modes.rank != c.rank || modes.extents != [m, n, l] => {
                return Err(Refusal::of(name, format!("it is {}, and `c` is {}", shape(modes), shape(c)))
                    .help("give it the extents of `c`"));
            }
            _ => {}
        }
        if name == "bias" && modes.elem != c.elem {
            return Err(Refusal::of(
                name,
                format!("its elements are {}, and those of `c` are {}", modes.elem, c.elem),
            )
            .help(format!("convert them to {}, or name another type of the result with `out`", c.elem)));
        }
        Ok(())
    }

    /// Options that the types do not have.
    fn types(&self) -> Result<(), Refusal> {
        let Options { precision, activation, scale_rows, scale_columns, scale_blocks, .. } = self.options;
        if scale_blocks && !self.elem.is_fp8() {
            let message = format!(
                "scales of blocks are for products of e4m3 and e5m2, and `a` and `b` are {}",
                self.elem
            );
            return Err(Refusal::new(message).help("call `scale_rows` and `scale_columns`"));
        }
        if scale_blocks && (scale_rows || scale_columns) {
            return Err(Refusal::new("a product has scales of blocks, or of rows and columns, not both")
                .help("leave `scale_blocks` out, or `scale_rows` and `scale_columns`"));
        }
        if precision != Precision::Strict && self.elem != Elem::F32 {
            return Err(Refusal::new(format!(
                "a precision is chosen for products of f32, and `a` and `b` are {}",
                self.elem
            ))
            .help("leave `precision` out"));
        }
        match activation {
            Some(function) if function != Activation::Relu && !self.scaled().is_float() => {
                Err(Refusal::new(format!("{} is for real numbers, and `c` is {}", function.name(), self.out))
                    .help("name a type of the result with `out`, such as `out::<f32>()`"))
            }
            _ => Ok(()),
        }
    }

    /// The type in which the epilogue computes: the sums' type, but integers that become another type are scaled as f32.
    pub(super) fn scaled(&self) -> Elem {
        let acc = self.elem.accumulator();
        if acc.is_float() || acc == self.out { acc } else { Elem::F32 }
    }

    /// The keys of the kernel.
    fn keys(&self) -> Vec<Arg> {
        let Options {
            alpha_beta,
            bias,
            residual,
            scale_rows,
            scale_columns,
            scale_blocks,
            precision,
            activation,
        } = self.options;
        let word = |text: &str| ExprKind::Name(text.into());
        let side = |side: Side| match side {
            Side::Rows => word("rows"),
            Side::Columns => word("columns"),
        };
        let [a, b, c] = self.contiguous.map(usize::from);
        let mut keys = vec![
            ("dtype", word(self.elem.name())),
            ("a", word(["m_major", "k_major"][a])),
            ("b", word(["k_major", "n_major"][b])),
            ("c", word(["m_major", "n_major"][c])),
        ];
        if self.out != natural(self.elem) {
            keys.push(("out", word(self.out.name())));
        }
        if self.batched {
            keys.push(("batched", ExprKind::Bool(true)));
        }
        if alpha_beta {
            keys.push(("alpha_beta", ExprKind::Bool(true)));
        }
        keys.extend(bias.map(|of| ("bias", side(of))));
        if let (Some(when), Some(elem)) = (residual, self.residual) {
            let when = if when == When::Before { "before" } else { "after" };
            let value = if elem == self.out { word(when) } else { called(when, elem.name()) };
            keys.push(("residual", value));
        }
        match (scale_rows, scale_columns) {
            _ if scale_blocks => keys.push(("scales", word("blocks"))),
            (true, true) => keys.push(("scales", word("both"))),
            (true, false) => keys.push(("scales", word("rows"))),
            (false, true) => keys.push(("scales", word("columns"))),
            (false, false) => {}
        }
        if precision != Precision::Strict {
            keys.push(("precision", word(precision.name())));
        }
        keys.extend(activation.map(|function| ("epilogue", word(function.name()))));
        let named = |text: &str| Name { text: text.into(), span: Definition::NOWHERE };
        let arg = |(key, kind): (&str, ExprKind)| Arg {
            name: Some(named(key)),
            value: Expr { span: Definition::NOWHERE, kind },
        };
        keys.into_iter().map(arg).collect()
    }

    /// The definition of the kernel, as `matmul_kernel!` would read it.
    pub(super) fn definition(&self) -> Definition {
        Definition::Matmul(self.keys())
    }
}

/// `before(f32)`
fn called(function: &str, argument: &str) -> ExprKind {
    let value = Expr { span: Definition::NOWHERE, kind: ExprKind::Name(argument.into()) };
    ExprKind::Call {
        function: Name { text: function.into(), span: Definition::NOWHERE },
        types: Vec::new(),
        args: vec![Arg { name: None, value }],
    }
}

/// The type of a product of elements of a type: see [`super::Factor::Product`].
fn natural(elem: Elem) -> Elem {
    match elem {
        Elem::Tf32 | Elem::I8 | Elem::U8 | Elem::E4m3 | Elem::E5m2 => elem.accumulator(),
        elem => elem,
    }
}

/// Kernels by form, each made when it is first needed. A thread that needs a kernel waits only while that kernel is being made.
pub(super) struct Kernels<K> {
    known: LazyLock<RwLock<HashMap<Form, Slot<K>>>>,
}

type Slot<K> = Arc<Mutex<Option<Arc<K>>>>;

impl<K> Kernels<K> {
    pub(super) const fn new() -> Kernels<K> {
        Kernels { known: LazyLock::new(Default::default) }
    }

    pub(super) fn get(
        &self,
        form: &Form,
        make: impl FnOnce(&Definition) -> Result<K, Error>,
    ) -> Result<Arc<K>, Error> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(form).cloned();
        let slot = known.unwrap_or_else(|| {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.entry(*form).or_default().clone()
        });
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(kernel) => Ok(kernel.clone()),
            None => Ok(slot.insert(Arc::new(make(&form.definition())?)).clone()),
        }
    }
}

impl<'p, P: Backend> Product<'p, P> {
    /// The operands in the order of a kernel's parameters: `b` with its modes exchanged, as it reads it. Numbers are made by
    /// their types.
    pub(super) fn arguments<A>(
        self,
        params: &[tilewright_program::definition::Param],
        mut tensor: impl FnMut(P::Lent<'p>) -> A,
        mut number: impl FnMut(Elem, f64) -> A,
    ) -> Vec<A> {
        let (alpha, beta) = (self.alpha, self.beta);
        let mut operands: Vec<_> = self.operands.into_iter().map(|(name, lent)| (name, Some(lent))).collect();
        let mut one = |param: &tilewright_program::definition::Param| {
            let name = param.name.as_str();
            if param.tensor.is_none() {
                return number(param.elem, if name == "alpha" { alpha } else { beta });
            }
            let given = operands.iter_mut().find(|(known, _)| *known == name);
            let Some(lent) = given.and_then(|(_, lent)| lent.take()) else {
                unreachable!("the kernel has the parameters of its keys")
            };
            tensor(if name == "b" { lent.transposed() } else { lent })
        };
        params.iter().map(&mut one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(elem: Elem, extents: &[i64], strides: &[i64]) -> Modes {
        Modes::new(elem, extents, strides)
    }

    /// The keys of a product of matrices with these extents and strides.
    #[track_caller]
    fn check(a: [i64; 4], b: [i64; 4], c: [i64; 4], expected: Result<[&str; 3], &str>) {
        let of = |[m, n, x, y]: [i64; 4]| matrix(Elem::F32, &[m, n], &[x, y]);
        let form = Form::of(Options::default(), &[("a", of(a)), ("b", of(b)), ("c", of(c))]);
        let orders = form.map(|form| {
            form.keys()[1..4].iter().map(|arg| format!("{:?}", arg.value.kind)).collect::<Vec<_>>()
        });
        match expected {
            Ok(orders_) => {
                let all = orders_.map(|order| format!("Name({order:?})"));
                assert_eq!(orders.map_err(|refusal| refusal.to_string()), Ok(all.to_vec()));
            }
            Err(text) => assert_eq!(orders.unwrap_err().to_string(), text),
        }
    }

    #[test]
    fn layouts_are_those_of_the_tensors() {
        check([2, 3, 3, 1], [3, 4, 4, 1], [2, 4, 4, 1], Ok(["k_major", "n_major", "n_major"]));
        check([2, 3, 1, 2], [3, 4, 1, 3], [2, 4, 1, 2], Ok(["m_major", "k_major", "m_major"]));
        // With one row or one column, the mode whose extent is not 1 has the leading dimension.
        check([1, 3, 9, 5], [3, 4, 4, 1], [1, 4, 1, 1], Ok(["m_major", "n_major", "n_major"]));
        check([2, 1, 5, 9], [1, 4, 4, 1], [2, 4, 4, 1], Ok(["k_major", "n_major", "n_major"]));
    }

    #[test]
    fn shapes_that_do_not_multiply_are_refused() {
        check(
            [2, 3, 3, 1],
            [4, 3, 3, 1],
            [2, 4, 4, 1],
            Err(
                "argument `b`: it is 4 x 3, and `a` is 2 x 3: its rows, 4, are not the columns of `a`, 3\nhelp: the \
                 transpose of `b` fits: `b.view().transposed()`",
            ),
        );
        check(
            [4, 3, 3, 1],
            [4, 5, 5, 1],
            [3, 5, 5, 1],
            Err(
                "argument `b`: it is 4 x 5, and `a` is 4 x 3: its rows, 4, are not the columns of `a`, 3\nhelp: the \
                 transpose of `a` fits: `a.view().transposed()`",
            ),
        );
        check(
            [2, 3, 3, 1],
            [4, 5, 5, 1],
            [2, 5, 5, 1],
            Err(
                "argument `b`: it is 4 x 5, and `a` is 2 x 3: its rows, 4, are not the columns of `a`, 3\nhelp: a \
                 product of matrices M x K and K x N is M x N",
            ),
        );
        check(
            [2, 3, 3, 1],
            [3, 4, 4, 1],
            [4, 2, 2, 1],
            Err(
                "argument `c`: it is 4 x 2, and the product of `a`, 2 x 3, and `b`, 3 x 4, is 2 x 4\nhelp: give it \
                 these extents, or call `matmul`, which allocates it",
            ),
        );
    }

    #[test]
    fn other_layouts_and_empty_tensors_are_refused() {
        check(
            [2, 3, 6, 2],
            [3, 4, 4, 1],
            [2, 4, 4, 1],
            Err(
                "argument `a`: neither its rows nor its columns are contiguous: its strides are 6 and 2\nhelp: copy it \
                 to a tensor in which one of the two strides is 1",
            ),
        );
        check(
            [2, 0, 1, 1],
            [0, 4, 4, 1],
            [2, 4, 4, 1],
            Err(
                "argument `a`: it is 2 x 0, and its extent 1 is 0: there is nothing to multiply\nhelp: leave the call \
                 out where an extent is 0; a sum over no elements is 0, so fill the result yourself",
            ),
        );
    }
}
