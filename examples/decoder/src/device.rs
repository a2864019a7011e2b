//! Kernels on a GPU. Launches that come again are one graph.

use std::collections::HashMap;

use tilewright::runtime::raw::AnyTensor;
use tilewright::runtime::{Argument, Built, Graph};
use tilewright::{Device, Elem, KernelDef, Stream};

use crate::Result;
use crate::launch::{Launch, Runner, Value};

/// A buffer during a launch.
enum Lent<'a> {
    Read(&'a AnyTensor),
    /// For one argument.
    Written(Option<&'a mut AnyTensor>),
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
    recorded: HashMap<[usize; 3], Recorded>,
    stream: Stream,
    buffers: Vec<AnyTensor>,
    kernels: Vec<Built>,
}

impl OnDevice {
    /// The first GPU.
    pub fn open() -> Result<OnDevice> {
        let stream = Device::open(0)?.stream()?;
        Ok(OnDevice { recorded: HashMap::new(), stream, buffers: Vec::new(), kernels: Vec::new() })
    }

    /// Takes the memory of the device, but for this number of bytes or twice as much.
    pub fn fill(&mut self, left: usize) -> Result<()> {
        while self.zeros(Elem::U8, left).is_ok() {}
        self.buffers.pop().map(drop).ok_or("there is no memory".into())
    }

    fn launch(&mut self, Launch { kernel, args }: &Launch) -> Result<()> {
        let is_written =
            |id| args.iter().any(|arg| matches!(arg, Value::Tensor(of) if of.written && of.buffer == id));
        let lend = |(id, buffer)| match is_written(id) {
            true => Lent::Written(Some(buffer)),
            false => Lent::Read(buffer),
        };
        let mut buffers: Vec<Lent> = self.buffers.iter_mut().enumerate().map(lend).collect();
        let mut given = Vec::new();
        for value in args {
            given.push(match value {
                Value::Number(number) => Argument::scalar(*number),
                Value::Integer(number) => Argument::scalar(*number),
                Value::Tensor(of) => match buffers.get_mut(of.buffer) {
                    Some(Lent::Read(buffer)) => buffer.part(&of.extents, &of.strides, of.offset),
                    Some(Lent::Written(buffer)) => {
                        let buffer = buffer.take().ok_or("a kernel uses a buffer that it writes twice")?;
                        buffer.part_mut(&of.extents, &of.strides, of.offset)
                    }
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

    fn capture(&mut self, launches: &[Launch]) -> Result<Graph> {
        let (stream, mut result) = (self.stream.clone(), Ok(()));
        // SAFETY: buffers and graphs are in this struct. Graphs are dropped first, also where a buffer is replaced, and those that are
        // truncated are in no graph. Only this struct uses the buffers and the stream, and launches make and drop no tensors.
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
    fn is_hopper(&self) -> bool {
        self.stream.device().properties().compute_capability == (9, 0)
    }

    fn zeros(&mut self, elem: Elem, count: usize) -> Result<usize> {
        self.buffers.push(AnyTensor::zeros(&self.stream, elem, count)?);
        Ok(self.buffers.len() - 1)
    }

    fn buffers(&self) -> usize {
        self.buffers.len()
    }

    fn truncate(&mut self, count: usize) {
        self.buffers.truncate(count);
    }

    fn replace(&mut self, buffer: usize) {
        // Graphs have the addresses of buffers.
        self.recorded.clear();
        self.buffers.swap_remove(buffer);
    }

    fn buffer(&mut self, elem: Elem, bytes: &[u8]) -> Result<usize> {
        let count = bytes.len() / elem.bytes() as usize;
        self.buffers.push(AnyTensor::new(&self.stream, elem, &[count], &[1], bytes)?);
        Ok(self.buffers.len() - 1)
    }

    fn write(&mut self, buffer: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.buffers[buffer].write(bytes)?)
    }

    fn read(&mut self, buffer: usize) -> Result<Vec<u8>> {
        Ok(self.buffers[buffer].bytes()?)
    }

    fn kernel(&mut self, def: &KernelDef) -> Result<usize> {
        self.kernels.push(Built::carried(def)?);
        Ok(self.kernels.len() - 1)
    }

    fn run(&mut self, graph: Option<[usize; 3]>, launches: &dyn Fn() -> Vec<Launch>) -> Result<()> {
        let Some(graph) = graph else { return self.all(&launches()) };
        let state = match self.recorded.get(&graph) {
            Some(Recorded::Graph(graph)) => return Ok(graph.launch()?),
            Some(Recorded::Uncapturable) => return self.all(&launches()),
            Some(Recorded::Compiled) => match self.capture(&launches()) {
                Ok(graph) => {
                    graph.launch()?;
                    Recorded::Graph(graph)
                }
                Err(_) => {
                    self.all(&launches())?;
                    Recorded::Uncapturable
                }
            },
            None => {
                self.all(&launches())?;
                Recorded::Compiled
            }
        };
        self.recorded.insert(graph, state);
        Ok(())
    }
}
