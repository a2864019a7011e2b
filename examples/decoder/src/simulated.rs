//! Kernels in the simulator, which checks every access.

use tilewright::{Arg, Elem, KernelDef, Simulate};

use crate::Result;
use crate::launch::{Launch, Runner, Tensor, Value};
use crate::model::Model;

/// Buffers on the host, and kernels.
#[derive(Default)]
pub struct Simulated {
    /// Whether kernels for compute capability 9.0 run.
    hopper: bool,
    buffers: Vec<(Elem, Vec<u8>)>,
    kernels: Vec<KernelDef>,
}

/// The kernels of a model on Hopper.
pub fn kernels(model: &Model) -> Result<Vec<KernelDef>> {
    let mut runner = Simulated::new(true);
    crate::kernels::kernels(&mut runner, model)?;
    Ok(runner.kernels)
}

impl Simulated {
    /// Compute capability 9.0, or 8.0.
    pub fn new(hopper: bool) -> Simulated {
        Simulated { hopper, ..Simulated::default() }
    }
}

impl Runner for Simulated {
    fn is_hopper(&self) -> bool {
        self.hopper
    }

    fn zeros(&mut self, elem: Elem, count: usize) -> Result<usize> {
        self.buffer(elem, &vec![0; elem.bytes_of(count)])
    }

    fn buffers(&self) -> usize {
        self.buffers.len()
    }

    fn truncate(&mut self, count: usize) {
        self.buffers.truncate(count);
    }

    fn replace(&mut self, buffer: usize) {
        self.buffers.swap_remove(buffer);
    }

    fn buffer(&mut self, elem: Elem, bytes: &[u8]) -> Result<usize> {
        self.buffers.push((elem, bytes.to_vec()));
        Ok(self.buffers.len() - 1)
    }

    fn write(&mut self, buffer: usize, bytes: &[u8]) -> Result<()> {
        self.buffers[buffer].1.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, buffer: usize) -> Result<Vec<u8>> {
        Ok(self.buffers[buffer].1.clone())
    }

    fn kernel(&mut self, def: &KernelDef) -> Result<usize> {
        self.kernels.push(def.clone());
        Ok(self.kernels.len() - 1)
    }

    fn run(&mut self, _: Option<[usize; 3]>, launches: &dyn Fn() -> Vec<Launch>) -> Result<()> {
        for Launch { kernel, args } in launches() {
            let arg = |value: &Value| match value {
                Value::Number(number) => Arg::number(*number),
                Value::Integer(number) => Arg::number(*number),
                Value::Tensor(Tensor { buffer, extents, strides, offset, written }) => {
                    let (elem, bytes) = &self.buffers[*buffer];
                    let arg = Arg::stored(*elem, bytes, *written, extents.iter().copied());
                    arg.strides(strides.iter().copied()).offset(*offset)
                }
            };
            let done = self.kernels[kernel].simulate(&args.iter().map(arg).collect::<Vec<_>>())?;
            let written = args.iter().filter_map(|value| match value {
                Value::Tensor(of) if of.written => Some(of.buffer),
                _ => None,
            });
            for (buffer, (name, _)) in written.zip(done.names()) {
                self.buffers[buffer].1 = done.bytes(name).unwrap_or_default().to_vec();
            }
        }
        Ok(())
    }
}
