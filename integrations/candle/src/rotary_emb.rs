//! The operator of `candle_nn::rotary_emb`.

use candle_core::{D, DType, Result, Shape, Tensor};

use crate::kernels::rotate;
use crate::launch::{Launch, specialized};
use crate::operator::{Call, Gradients, Inputs, Operator, apply, differentiate};
use crate::view::View;

/// Rotary embedding of (batch, heads, positions, width), as `candle_nn::rotary_emb::rope`, with gradients. Cosines and sines have half the
/// width: (positions, width / 2), or (batch, positions, width / 2).
pub fn rope(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    apply(Rope { sign: 1.0 }, &[xs, cos, sin])
}

struct Rope {
    /// -1 for the inverse.
    sign: f32,
}

impl Operator for Rope {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["xs", "cos", "sin"]
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        inputs.check_floats(3)?;
        inputs.check_rank(0, 4, "(batch, heads, positions, width)")?;
        let &[batch, _, positions, width] = inputs.dims(0) else { unreachable!("it has four dimensions") };
        if width % 2 != 0 {
            return inputs.refuse(0, "its last dimension must be even");
        }
        for index in [1, 2] {
            let (table, own) = match *inputs.dims(index) {
                [table, own] => (table, own),
                [first, table, own] if first == batch => (table, own),
                _ => {
                    return inputs
                        .refuse(index, "it must be (positions, width / 2), or with the batch before");
                }
            };
            if own != width / 2 || table < positions {
                return inputs.refuse(
                    index,
                    format!(
                        "`xs` is {:?}: at least {positions} rows of {} are needed",
                        inputs.dims(0),
                        width / 2
                    ),
                );
            }
        }
        Ok((inputs.dtype(0), inputs.dims(0).into()))
    }

    fn accepts(&self, _: usize, view: &View) -> bool {
        view.has_contiguous_rows()
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let &[batch, _, positions, width] = call.input(0).dims() else { return Ok(Vec::new()) };
        let (elem, half) = (call.input(0).elem(), (width / 2).next_power_of_two().max(8));
        let kernel = specialized(&rotate(), &[("H", half)], &[("T", elem)])?;
        let heads = |view: View, first: usize| {
            view.select(0, first).split(2, 2, width / 2).map(|view| view.permute(&[1, 3, 2, 0]))
        };
        let table = |view: View, first: usize| {
            let view = if view.dims().len() == 3 { view.select(0, first) } else { view };
            view.narrow(0, 0, positions)
        };
        // All sequences at once, where they share the tables and their heads are equally far apart.
        let one_table = [1, 2].iter().all(|index| call.input(*index).dims().len() == 2);
        let (x, y, batch) = match call.input(0).merge(0, 2) {
            Ok(x) if one_table => (x.unsqueeze(0), call.result().merge(0, 2)?.unsqueeze(0), 1),
            _ => (call.input(0), call.result(), batch),
        };
        let launch = |at: usize| {
            let tables = [1, 2].map(|index| table(call.input(index), at).into());
            let [cos, sin] = tables;
            let (x, y) = (heads(x.clone(), at)?, heads(y.clone(), at)?);
            Ok(Launch::shared(kernel.clone(), vec![x.into(), cos, sin, y.into(), self.sign.into()]))
        };
        (0..batch).map(launch).collect()
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let &[batch, _, positions, width] = inputs[0].dims() else { unreachable!("it has four dimensions") };
        let table = |table: &Tensor| {
            let table = table.narrow(D::Minus2, 0, positions)?;
            let tables = if table.rank() == 3 { batch } else { 1 };
            table.reshape((tables, 1, positions, width / 2))
        };
        let (c, s) = (table(&inputs[1])?, (table(&inputs[2])? * f64::from(self.sign))?);
        let half = |start: usize| inputs[0].narrow(D::Minus1, start, width / 2);
        let (a, b) = (half(0)?, half(width / 2)?);
        let first = (a.broadcast_mul(&c)? - b.broadcast_mul(&s)?)?;
        Tensor::cat(&[first, (b.broadcast_mul(&c)? + a.broadcast_mul(&s)?)?], D::Minus1)
    }

    /// The inverse rotation. Tables of angles seldom are variables.
    fn backward(&self, inputs: &[&Tensor], _: &[Tensor], gradient: &Tensor) -> Result<Gradients> {
        if inputs[1].track_op() || inputs[2].track_op() {
            return differentiate(self, inputs, gradient);
        }
        let inverse = Rope { sign: -self.sign };
        Ok(vec![Some(apply(inverse, &[gradient, inputs[1], inputs[2]])?), None, None])
    }
}
