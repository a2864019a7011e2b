//! Kernels in the simulator, which checks every access.

use tilewright::KernelDef;
use tilewright::prelude::*;

use crate::Result;
use crate::launch::{Data, Launch, Runner, Tensor, Value};

/// Buffers on the host, and kernels.
#[derive(Default)]
pub struct Simulated {
    buffers: Vec<Data>,
    kernels: Vec<KernelDef>,
}

impl Simulated {
    fn arg(&self, value: &Value) -> Arg {
        let Tensor { buffer, extents, strides, offset, written } = match value {
            Value::Number(number) => return Arg::number(*number),
            Value::Tensor(tensor) => tensor,
        };
        fn arg<T: tilewright::Element>(data: &[T], extents: &[usize], written: bool) -> Arg {
            let extents = extents.iter().copied();
            if written { Arg::in_out(data, extents) } else { Arg::tensor(data, extents) }
        }
        let arg = match &self.buffers[*buffer] {
            Data::F32(data) => arg(data, extents, *written),
            Data::F16(data) => arg(data, extents, *written),
            Data::I32(data) => arg(data, extents, *written),
            Data::I8(data) => arg(data, extents, *written),
            Data::U8(data) => arg(data, extents, *written),
            Data::Zeros(_) => unreachable!("zeros are stored as f16"),
        };
        arg.strides(strides.iter().copied()).offset(*offset)
    }
}

impl Runner for Simulated {
    fn buffer(&mut self, data: Data) -> Result<usize> {
        self.buffers.push(match data {
            Data::Zeros(count) => Data::F16(vec![f16::from_f32(0.0); count]),
            data => data,
        });
        Ok(self.buffers.len() - 1)
    }

    fn write(&mut self, buffer: usize, data: Data) -> Result<()> {
        self.buffers[buffer] = data;
        Ok(())
    }

    fn read_integers(&mut self, buffer: usize) -> Result<Vec<i32>> {
        if let Data::I32(data) = &self.buffers[buffer] {
            Ok(data.clone())
        } else {
            Err("no buffer of i32".into())
        }
    }

    fn read(&mut self, buffer: usize) -> Result<Vec<f32>> {
        if let Data::F32(data) = &self.buffers[buffer] {
            Ok(data.clone())
        } else {
            Err("no buffer of f32".into())
        }
    }

    fn kernel(&mut self, def: &KernelDef) -> Result<usize> {
        self.kernels.push(def.clone());
        Ok(self.kernels.len() - 1)
    }

    fn run(&mut self, _: Option<[usize; 2]>, launches: &[Launch]) -> Result<()> {
        for Launch { kernel, args } in launches {
            let given: Vec<Arg> = args.iter().map(|value| self.arg(value)).collect();
            let done = self.kernels[*kernel].simulate(&given)?;
            let written = args.iter().filter_map(|value| match value {
                Value::Tensor(of) if of.written => Some(of.buffer),
                _ => None,
            });
            for (buffer, (name, _)) in written.zip(done.names()) {
                match &mut self.buffers[buffer] {
                    Data::F32(data) => *data = done.get(name)?,
                    Data::F16(data) => *data = done.get(name)?,
                    Data::I32(data) => *data = done.get(name)?,
                    _ => return Err("kernels write numbers of f32, f16 and i32".into()),
                }
            }
        }
        Ok(())
    }
}
