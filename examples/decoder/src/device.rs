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

/// A buffer during a launch.
enum Lent<'a> {
    Read(&'a Buffer),
    /// For one argument.
    Written(Option<&'a mut Buffer>),
}

/// The state of launches that come again.
enum Recorded {
    /// They have run, so that their kernels are compiled.
    Compiled,
    Graph(Graph),
    /// The driver cannot capture them.
    Uncapturable,
}

/// A stream with buffers and kernels.
pub struct OnDevice {
    recorded: HashMap<[usize; 2], Recorded>,
    stream: Stream,
    buffers: Vec<Buffer>,
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

/// Code for a buffer of any type.
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

fn read_argument<'a>(buffer: &'a Buffer, of: &Tensor) -> Result<Argument<'a>> {
    Ok(of_any_type!(buffer, tensor => argument!(view, tensor, of, 1 2 3 4 5)))
}

fn written_argument<'a>(buffer: &'a mut Buffer, of: &Tensor) -> Result<Argument<'a>> {
    Ok(of_any_type!(buffer, tensor => argument!(view_mut, tensor, of, 1 2 3 4 5)))
}

impl OnDevice {
    /// The first GPU.
    pub fn open() -> Result<OnDevice> {
        let stream = Device::open(0)?.stream()?;
        Ok(OnDevice { recorded: HashMap::new(), stream, buffers: Vec::new(), kernels: Vec::new() })
    }

    fn launch(&mut self, Launch { kernel, args }: &Launch) -> Result<()> {
        let tensors = args
            .iter()
            .filter_map(|value| if let Value::Tensor(tensor) = value { Some(tensor) } else { None });
        let written: Vec<usize> =
            tensors.filter(|tensor| tensor.written).map(|tensor| tensor.buffer).collect();
        let lend = |(id, buffer)| match written.contains(&id) {
            true => Lent::Written(Some(buffer)),
            false => Lent::Read(buffer),
        };
        let mut buffers: Vec<Lent> = self.buffers.iter_mut().enumerate().map(lend).collect();
        let mut given = Vec::new();
        for value in args {
            given.push(match value {
                Value::Number(number) => Argument::scalar(*number),
                Value::Tensor(tensor) => match buffers.get_mut(tensor.buffer) {
                    Some(Lent::Read(buffer)) => read_argument(buffer, tensor)?,
                    Some(Lent::Written(buffer)) => written_argument(
                        buffer.take().ok_or("a kernel uses a buffer that it writes twice")?,
                        tensor,
                    )?,
                    None => return Err("there is no such buffer".into()),
                },
            });
        }
        self.kernels[*kernel].launch_with(&self.stream, &mut given)?;
        Ok(())
    }

    fn all(&mut self, launches: &[Launch]) -> Result<()> {
        launches.iter().try_for_each(|launch| self.launch(launch))
    }
}

impl OnDevice {
    fn capture(&mut self, launches: &[Launch]) -> Result<Graph> {
        let (stream, mut result) = (self.stream.clone(), Ok(()));
        // SAFETY: buffers and graphs are in this struct. Graphs are dropped first, and no buffer is dropped or replaced before. Only this
        // struct uses the buffers and the stream, and launches make and drop no tensors.
        let graph = unsafe {
            stream.capture(|| {
                result = self.all(launches);
                Ok(())
            })
        };
        result.and(Ok(graph?))
    }
}

impl Runner for OnDevice {
    fn buffer(&mut self, data: Data) -> Result<usize> {
        let stream = &self.stream;
        self.buffers.push(match data {
            Data::F32(data) => Buffer::F32(DeviceTensor::from_host(stream, [data.len()], &data)?),
            Data::F16(data) => Buffer::F16(DeviceTensor::from_host(stream, [data.len()], &data)?),
            Data::Zeros(count) => Buffer::F16(DeviceTensor::zeros(stream, [count])?),
            Data::I32(data) => Buffer::I32(DeviceTensor::from_host(stream, [data.len()], &data)?),
            Data::I8(data) => Buffer::I8(DeviceTensor::from_host(stream, [data.len()], &data)?),
            Data::U8(data) => Buffer::U8(DeviceTensor::from_host(stream, [data.len()], &data)?),
        });
        Ok(self.buffers.len() - 1)
    }

    fn write(&mut self, buffer: usize, data: Data) -> Result<()> {
        match (&mut self.buffers[buffer], data) {
            (Buffer::I32(tensor), Data::I32(values)) => Ok(tensor.write(&values)?),
            (Buffer::F32(tensor), Data::F32(values)) => Ok(tensor.write(&values)?),
            _ => Err("a buffer is written with numbers of its type, i32 or f32".into()),
        }
    }

    fn read(&mut self, buffer: usize) -> Result<Vec<f32>> {
        let Buffer::F32(tensor) = &self.buffers[buffer] else { return Err("no buffer of f32".into()) };
        Ok(tensor.to_host()?)
    }

    fn read_integers(&mut self, buffer: usize) -> Result<Vec<i32>> {
        let Buffer::I32(tensor) = &self.buffers[buffer] else { return Err("no buffer of i32".into()) };
        Ok(tensor.to_host()?)
    }

    fn kernel(&mut self, def: &KernelDef) -> Result<usize> {
        self.kernels.push(Built::carried(def)?);
        Ok(self.kernels.len() - 1)
    }

    fn run(&mut self, graph: Option<[usize; 2]>, launches: &[Launch]) -> Result<()> {
        let Some(graph) = graph else { return self.all(launches) };
        let state = match self.recorded.get(&graph) {
            Some(Recorded::Graph(graph)) => return Ok(graph.launch()?),
            Some(Recorded::Uncapturable) => return self.all(launches),
            Some(Recorded::Compiled) => match self.capture(launches) {
                Ok(graph) => {
                    graph.launch()?;
                    Recorded::Graph(graph)
                }
                Err(_) => {
                    self.all(launches)?;
                    Recorded::Uncapturable
                }
            },
            None => {
                self.all(launches)?;
                Recorded::Compiled
            }
        };
        self.recorded.insert(graph, state);
        Ok(())
    }
}
