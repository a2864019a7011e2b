//! A kernel of a user as an operator that states no more than it must.

use candle_core::{Device, Result, Tensor, Var};
use tilewright::prelude::*;
use tilewright_candle::{Call, Launch, Operator, apply, apply_inplace};

/// y = 2x.
#[kernel]
fn double(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    copy(map(tile(x, (1, 256), (block.x, block.y)), |x| 2.0 * x), tile(y, (1, 256), (block.x, block.y)));
}

struct Double;

impl Operator for Double {
    fn name(&self) -> &'static str {
        "double"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["x"]
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        Ok(vec![Launch::new(&double(), [call.input(0).rows()?.into(), call.result().rows()?.into()])])
    }
}

#[test]
fn the_cpu_runs_its_kernel() {
    let x = Tensor::arange(0f32, 12.0, &Device::Cpu).unwrap().reshape((2, 2, 3)).unwrap();
    // Contiguous, with rows apart, and with neither, which is copied first.
    for view in [x.clone(), x.narrow(2, 1, 2).unwrap(), x.transpose(0, 2).unwrap()] {
        let expected = (&view * 2.0).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let y = apply(Double, &[&view]).unwrap();
        assert_eq!((y.dims(), y.flatten_all().unwrap().to_vec1::<f32>().unwrap()), (view.dims(), expected));
    }
}

/// x = x + 2y.
#[kernel]
fn add_twice(y: &Tensor<f32, (M, N), (ldy, _1)>, x: &mut Tensor<f32, (M, N), (ldx, _1)>) {
    let x = tile(x, (1, 256), (block.x, block.y));
    copy(map((x, tile(y, (1, 256), (block.x, block.y))), |x, y| x + 2.0 * y), x);
}

struct AddTwice {
    has_formula: bool,
}

impl Operator for AddTwice {
    fn name(&self) -> &'static str {
        "add_twice"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["x", "y"]
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        Ok(vec![Launch::new(&add_twice(), [call.input(1).rows()?.into(), call.result().rows()?.into()])])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        match self.has_formula {
            true => &inputs[0] + (&inputs[1] * 2.0)?,
            false => Err(candle_core::Error::BackwardNotSupported { op: self.name() }),
        }
    }
}

#[test]
fn an_inplace_operator() {
    for has_formula in [true, false] {
        let x = Tensor::arange(0f32, 24.0, &Device::Cpu).unwrap().reshape((4, 6)).unwrap();
        // A part of rows; the other tensor is copied, since its columns are apart.
        let part = x.narrow(1, 2, 3).unwrap();
        let y = Tensor::arange(0f32, 12.0, &Device::Cpu).unwrap().reshape((3, 4)).unwrap().t().unwrap();
        apply_inplace(AddTwice { has_formula }, &[&part, &y]).unwrap();
        let added = |i, j| if (2..5).contains(&j) { 2 * (4 * (j - 2) + i) } else { 0 };
        let row = |i| (0..6).map(|j| (6 * i + j + added(i, j)) as f32).collect();
        let expected: Vec<Vec<f32>> = (0..4).map(row).collect();
        assert_eq!(x.to_vec2::<f32>().unwrap(), expected);
        let refused = |x: &Tensor, y: &Tensor| {
            let error = apply_inplace(AddTwice { has_formula }, &[x, y]).unwrap_err().to_string();
            error.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(
            refused(&Var::from_tensor(&part).unwrap(), &y),
            "add_twice: an inplace operator has no gradients, and an input depends on variables: detach it"
        );
        assert_eq!(
            refused(&y, &part),
            "add_twice: the kernel does not take the strides [1, 4] of `x`: pass a copy"
        );
        assert!(refused(&x, &x).contains("shares storage"), "{}", refused(&x, &x));
    }
}

#[test]
fn messages() {
    let x = Var::ones((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
    let error = apply(Double, &[&x]).unwrap().backward().map(drop).unwrap_err().to_string();
    assert!(error.contains("backward is not supported for double"), "{error}");
    let error = apply(Double, &[&x, &x]).unwrap_err().to_string();
    assert!(error.contains("double: 2 inputs were given, and it has [\"x\"]"), "{error}");
    let bytes = x.to_dtype(candle_core::DType::U8).unwrap();
    let error = apply(Double, &[&bytes]).unwrap_err().to_string();
    assert!(error.contains("double: the result is U8, and must be F32, F16, BF16 or I32"), "{error}");
}
