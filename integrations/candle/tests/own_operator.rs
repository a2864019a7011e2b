//! A kernel of a user as an operator that states no more than it must.

use candle_core::{Device, Result, Tensor, Var};
use tilewright::prelude::*;
use tilewright_candle::{Call, Launch, Operator, apply};

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

#[test]
fn messages() {
    let x = Var::ones((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
    let error = apply(Double, &[&x]).unwrap().backward().map(drop).unwrap_err().to_string();
    assert!(error.contains("backward is not supported for double"), "{error}");
    let error = apply(Double, &[&x, &x]).unwrap_err().to_string();
    assert!(error.contains("double: 2 inputs were given, and it has [\"x\"]"), "{error}");
    let bytes = x.to_dtype(candle_core::DType::U8).unwrap();
    let error = apply(Double, &[&bytes]).unwrap_err().to_string();
    assert!(error.contains("double: the result is U8, and must be F32, F16 or BF16"), "{error}");
}
