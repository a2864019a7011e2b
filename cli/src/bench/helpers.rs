//! Auxiliary kernels of benchmarks: random data, an oracle in double precision, comparison, a kernel that
//! blocks the stream, and peak rates.
#![allow(unsafe_code)]

use tilewright_codegen::Elem;
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_runtime::raw::Shape;

use super::Result;
use super::driver::{Argument, Device, Function, Memory};

const SOURCE: &str = include_str!("helpers.cu");

/// The helpers for operands of one type and results of another.
pub(super) struct Helpers<'d> {
    device: &'d Device,
    functions: Vec<(&'static str, Function)>,
    sums: std::rc::Rc<Memory>,
    elem: Elem,
    out: Elem,
}

/// Their names, and the threads of their blocks.
const KERNELS: [(&str, u32); 7] = [
    ("fill", 256),
    ("reference", 256),
    ("compare", 256),
    ("hold", 1),
    ("multiply_add_f32", 256),
    ("multiply_add_f64", 256),
    ("move", 256),
];
const SUMS: usize = 4 * 8;

/// A matrix in memory, in elements: its row stride, its K stride, and its batch stride.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'m> {
    pub(super) memory: &'m Memory,
    pub(super) steps: [u64; 3],
}

/// The error of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Error {
    /// The norm of the difference divided by the norm of the expected result.
    pub(super) relative: f64,
    /// The largest difference, relative to the average magnitude of an element.
    pub(super) largest: f64,
    /// Unwritten elements and NaN.
    pub(super) missing: u64,
}

impl<'d> Helpers<'d> {
    pub(super) fn compile(device: &'d Device, nvrtc: &Nvrtc, elem: Elem, out: Elem) -> Result<Helpers<'d>> {
        Helpers::with(device, nvrtc, elem, out, ("", &[]))
    }

    /// The same with further kernels, whose blocks have 256 threads: their source, which can use the helpers,
    /// and their names.
    pub(super) fn with(
        device: &'d Device,
        nvrtc: &Nvrtc,
        elem: Elem,
        out: Elem,
        (more, names): (&str, &[&'static str]),
    ) -> Result<Helpers<'d>> {
        let source = source(elem, out) + more;
        let compiled = nvrtc
            .compile(&source, "helpers", &device.architecture(), &[])
            .map_err(|error| error.to_string())?;
        let function = |(name, threads)| {
            let shape = Shape { grid: [0; 3], cluster: [1; 3], threads, shared_bytes: 0, overlaps: false };
            Ok((name, device.function(&compiled.cubin, name, shape)?))
        };
        let more = names.iter().map(|name| (*name, 256));
        let functions = KERNELS.into_iter().chain(more).map(function).collect::<Result<_>>()?;
        Ok(Helpers { device, functions, sums: device.memory(SUMS)?, elem, out })
    }

    /// Launches one of them.
    pub(super) fn launch(&self, name: &str, grid: [u32; 3], arguments: &[u64]) -> Result {
        let arguments: Vec<Argument> = arguments.iter().copied().map(Argument::word).collect();
        let (_, function) = self.functions.iter().find(|known| known.0 == name).expect("all are compiled");
        // SAFETY: the methods below pass what `helpers.cu` declares, and nothing is freed before the stream
        // has ended: the driver waits when memory is freed.
        unsafe { self.device.launch(function, grid, &arguments) }
    }

    /// Blocks that fill the device.
    pub(super) fn everywhere(&self) -> [u32; 3] {
        [8 * self.device.multiprocessors, 1, 1]
    }

    /// Random numbers between -1 and 1, or small integers, reproducible from the seed.
    pub(super) fn fill(&self, memory: &Memory, seed: u64) -> Result {
        let count = memory.bytes as u64 / u64::from(self.elem.bytes());
        self.launch("fill", self.everywhere(), &[memory.address, count, seed])
    }

    /// C(m, n) = Σ A(m, k)·B(n, k) in double precision, columns of C contiguous, product after product.
    pub(super) fn reference(&self, a: Matrix, b: Matrix, c: &Memory, sizes: [i64; 4]) -> Result {
        let [batch, m, n, k] = sizes;
        let blocks = |n: i64| n.div_euclid(64) as u32 + u32::from(n % 64 != 0);
        let ([am, ak, a_batch], [bn, bk, b_batch]) = (a.steps, b.steps);
        let (a, b) = (a.memory.address, b.memory.address);
        let sizes = [m as u64, n as u64, k as u64];
        let arguments = [[a, am, ak, a_batch].as_slice(), &[b, bn, bk, b_batch, c.address], &sizes].concat();
        self.launch("reference", [blocks(m), blocks(n), batch as u32], &arguments)
    }

    /// The error of `got` against `expected`, element by element in memory.
    pub(super) fn compare(&self, got: &Memory, expected: &Memory) -> Result<Error> {
        let count = got.bytes as u64 / u64::from(self.out.bytes());
        self.device.set(&self.sums, 0)?;
        self.launch(
            "compare",
            self.everywhere(),
            &[got.address, expected.address, count, self.sums.address],
        )?;
        let mut bytes = [0; SUMS];
        self.device.read(&self.sums, &mut bytes)?;
        let sum = |at: usize| f64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let (off, all, largest, seen) = (sum(0), sum(1), sum(2), sum(3));
        let average = (all / count.max(1) as f64).sqrt();
        Ok(Error {
            relative: if off == 0.0 { 0.0 } else { (off / all).sqrt() },
            largest: if largest == 0.0 { 0.0 } else { largest / average },
            missing: count.saturating_sub(seen as u64),
        })
    }

    /// Blocks the stream for this time.
    pub(super) fn hold(&self, seconds: f64) -> Result {
        self.launch("hold", [1; 3], &[(seconds * 1e9) as u64])
    }

    /// Peak multiply-adds per second, counted as two operations, on CUDA cores; `None` for other types.
    pub(super) fn most_operations(&self, elem: Elem) -> Result<Option<f64>> {
        let name = match elem {
            Elem::F32 => "multiply_add_f32",
            Elem::F64 => "multiply_add_f64",
            _ => return Ok(None),
        };
        let iterations = 20_000;
        let run = || self.launch(name, self.everywhere(), &[self.sums.address, iterations]);
        run()?;
        let threads = f64::from(self.everywhere()[0]) * 256.0;
        Ok(Some(threads * iterations as f64 * 16.0 * 2.0 / self.fastest(run)?))
    }

    /// Bytes read and written per second by a copy that is much larger than the cache.
    pub(super) fn most_bytes(&self) -> Result<f64> {
        let bytes = (8 * self.device.cache).max(256 << 20);
        let (from, to) = (self.device.memory(bytes)?, self.device.memory(bytes)?);
        self.fill(&from, 1)?;
        let run = || self.launch("move", self.everywhere(), &[from.address, to.address, bytes as u64 / 16]);
        run()?;
        Ok(2.0 * bytes as f64 / self.fastest(run)?)
    }

    fn fastest(&self, run: impl Fn() -> Result) -> Result<f64> {
        let times = (0..7).map(|_| self.device.time(&run)).collect::<Result<Vec<f64>>>()?;
        Ok(times.into_iter().fold(f64::INFINITY, f64::min))
    }
}

/// Their source for an operand type and a result type.
pub(super) fn source(elem: Elem, out: Elem) -> String {
    format!("#define ELEM {}\n#define OUT {}\n{SOURCE}", elem.cuda(), out.cuda())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_compile_for_every_type() {
        let Ok(nvrtc) = Nvrtc::find(&[]) else {
            println!("skipped: no NVRTC");
            return;
        };
        for (elem, out) in [
            (Elem::F32, Elem::F32),
            (Elem::F64, Elem::F64),
            (Elem::F16, Elem::F16),
            (Elem::Bf16, Elem::F32),
            (Elem::I8, Elem::I32),
            (Elem::I32, Elem::I32),
        ] {
            for arch in ["sm_80", "sm_90a"] {
                let compiled = nvrtc.compile(&source(elem, out), "helpers", arch, &[]);
                let compiled = compiled.unwrap_or_else(|why| panic!("{elem} {arch}: {why}"));
                for (name, _) in KERNELS {
                    let usage = compiled.usage_of(name).unwrap_or_else(|| panic!("{name} is not there"));
                    assert!(usage.is_clean(), "{elem} {arch}: {usage:?}");
                }
            }
        }
    }
}
