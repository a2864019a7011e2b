//! Kernels on a GPU. Launches that come again are one graph.

use std::collections::HashMap;

use tilewright::runtime::{Argument, Built, Graph};
use tilewright::{Device, DeviceTensor, KernelDef, Stream, f16};

use crate::Result;
use crate::launch::{Data, Launch, Runner, Tensor, Value};

enum Buffer {
    F32(DeviceTensor<f32, 1>),
    F16(DeviceTensor<f16, 1>),
    I32(DeviceTensor<i32, 1>),
    I8(DeviceTensor<i8, 1>),
    U8(DeviceTensor<u8, 1>),
}

/// What has become of launches with a number.
enum Recorded {
    /// They have run, so that their kernels are compiled.
    Compiled,
    Graph(Graph),
}

/// A stream with buffers and kernels.
pub struct OnDevice {
    recorded: HashMap<usize, Recorded>,
    stream: Stream,
    /// A buffer is taken out while a launch writes it.
    buffers: Vec<Option<Buffer>>,
    kernels: Vec<Built>,
}

/// An argument of any number of modes.
macro_rules! argument {
    ($view:ident, $tensor:expr, $of:expr, $($rank:literal)*) => {
        match $of.extents.len() {
            $($rank => {
                let extents: [usize; $rank] = $of.extents[..].try_into()?;
                let strides: [usize; $rank] = $of.strides[..].try_into()?;
                $tensor.$view().reshaped(extents, strides).offset($of.offset).into()
            })*
            rank => return Err(format!("a tensor of {rank} modes").into()),
        }
    };
}

/// The same code for a buffer of any type.
macro_rules! of_any_type {
    ($buffer:expr, $tensor:ident => $code:expr) => {
        match $buffer {
            Buffer::F32($tensor) => $code,
            Buffer::F16($tensor) => $code,
            Buffer::I32($tensor) => $code,
            Buffer::I8($tensor) => $code,
            Buffer::U8($tensor) => $code,
        }
    };
}

fn read<'a>(buffer: &'a Buffer, of: &Tensor) -> Result<Argument<'a>> {
    Ok(of_any_type!(buffer, tensor => argument!(view, tensor, of, 1 2 3 4)))
}

fn written<'a>(buffer: &'a mut Buffer, of: &Tensor) -> Result<Argument<'a>> {
    Ok(of_any_type!(buffer, tensor => argument!(view_mut, tensor, of, 1 2 3 4)))
}

impl OnDevice {
    /// The first GPU.
    pub fn open() -> Result<OnDevice> {
        let stream = Device::open(0)?.stream()?;
        Ok(OnDevice { recorded: HashMap::new(), stream, buffers: Vec::new(), kernels: Vec::new() })
    }

    fn launch(&mut self, Launch { kernel, args }: &Launch) -> Result<()> {
        let is_written = |of: &Value| if let Value::Tensor(of) = of { of.written } else { false };
        let mut taken = Vec::new();
        for value in args.iter().filter(|value| is_written(value)) {
            if let Value::Tensor(of) = value {
                taken.push((
                    of.buffer,
                    self.buffers[of.buffer].take().ok_or("a kernel writes a buffer twice")?,
                ));
            }
        }
        let mut results = taken.iter_mut();
        let mut given = Vec::new();
        for value in args {
            given.push(match value {
                Value::Number(number) => Argument::scalar(*number),
                Value::Tensor(of) if of.written => written(&mut results.next().ok_or("no buffer")?.1, of)?,
                Value::Tensor(of) => {
                    read(self.buffers[of.buffer].as_ref().ok_or("a kernel reads what it writes")?, of)?
                }
            });
        }
        let done = self.kernels[*kernel].launch_with(&self.stream, &mut given);
        drop(given);
        for (buffer, tensor) in taken {
            self.buffers[buffer] = Some(tensor);
        }
        done?;
        Ok(())
    }

    fn all(&mut self, launches: &[Launch]) -> Result<()> {
        launches.iter().try_for_each(|launch| self.launch(launch))
    }
}

impl Runner for OnDevice {
    fn buffer(&mut self, data: Data) -> Result<usize> {
        let stream = &self.stream;
        self.buffers.push(Some(match data {
            Data::F32(data) => Buffer::F32(DeviceTensor::from_host(stream, [data.len()], &data)?),
            Data::F16(data) => Buffer::F16(DeviceTensor::from_host(stream, [data.len()], &data)?),
            Data::Zeros(count) => Buffer::F16(DeviceTensor::zeros(stream, [count])?),
            Data::I32(data) => Buffer::I32(DeviceTensor::from_host(stream, [data.len()], &data)?),
            Data::I8(data) => Buffer::I8(DeviceTensor::from_host(stream, [data.len()], &data)?),
            Data::U8(data) => Buffer::U8(DeviceTensor::from_host(stream, [data.len()], &data)?),
        }));
        Ok(self.buffers.len() - 1)
    }

    fn write(&mut self, buffer: usize, values: Vec<i32>) -> Result<()> {
        let Some(Buffer::I32(tensor)) = &mut self.buffers[buffer] else {
            return Err("no buffer of i32".into());
        };
        Ok(tensor.write(&values)?)
    }

    fn read(&mut self, buffer: usize) -> Result<Vec<f32>> {
        let Some(Buffer::F32(tensor)) = &self.buffers[buffer] else { return Err("no buffer of f32".into()) };
        Ok(tensor.to_host()?)
    }

    fn kernel(&mut self, def: &KernelDef) -> Result<usize> {
        self.kernels.push(Built::carried(def)?);
        Ok(self.kernels.len() - 1)
    }

    fn run(&mut self, number: Option<usize>, launches: &[Launch]) -> Result<()> {
        let Some(number) = number else { return self.all(launches) };
        match self.recorded.get(&number) {
            Some(Recorded::Graph(graph)) => return Ok(graph.launch()?),
            None => {
                self.all(launches)?;
                self.recorded.insert(number, Recorded::Compiled);
            }
            Some(Recorded::Compiled) => {
                let (stream, mut failed) = (self.stream.clone(), None);
                // SAFETY: buffers live as long as graphs, in the same struct, whose fields are dropped in order, and are never
                // replaced. Only this struct uses them and the stream; launches make and drop no tensors.
                let graph = unsafe {
                    stream.capture(|| {
                        failed = self.all(launches).err();
                        Ok(())
                    })
                };
                if let Some(why) = failed {
                    return Err(why);
                }
                let graph = graph?;
                graph.launch()?;
                self.recorded.insert(number, Recorded::Graph(graph));
            }
        }
        Ok(())
    }
}
