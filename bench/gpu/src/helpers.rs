//! Auxiliary kernels of benchmarks: random data, an oracle in double precision, comparison, and a kernel
//! that blocks the stream.
#![allow(unsafe_code)]

use tilewright_codegen::Elem;
use tilewright_codegen::narrow::Int4;
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_runtime::raw::Shape;

use super::Result;
use super::driver::{Argument, Device, Function, Memory};
use super::form::{Activation, Extents};

const SOURCE: &str = include_str!("helpers.cu");

/// The compiled helpers.
pub(crate) struct Helpers<'d> {
    device: &'d Device,
    functions: Vec<(&'static str, Function)>,
    sums: std::rc::Rc<Memory>,
}

/// Their names, and the threads of their blocks.
const KERNELS: [(&str, u32); 5] =
    [("fill", 256), ("reference", 256), ("finish", 256), ("compare", 256), ("hold", 1)];
const SUMS: usize = 4 * 8;

/// A matrix in memory, in elements: its row stride, its K stride, and its batch stride.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'m> {
    pub(crate) memory: &'m Memory,
    pub(crate) elem: Elem,
    /// The 4-bit type, if each element has two numbers of it.
    pub(crate) packed: Option<Int4>,
    pub(crate) steps: [u64; 3],
    /// Scales of its blocks.
    pub(crate) scales: Option<Scales<'m>>,
}

/// Scales of a matrix's blocks, and their zero points.
#[derive(Clone, Copy)]
pub(crate) struct Scales<'m> {
    pub(crate) memory: &'m Memory,
    pub(crate) zeros: Option<&'m Memory>,
    pub(crate) elem: Elem,
    /// Rows of a block, the stride from block to block along them; elements of a block along K, the stride along K.
    pub(crate) steps: [u64; 4],
}

/// The epilogue of a product whose columns are contiguous.
pub(crate) struct Epilogue<'m> {
    /// A factor for each index of a mode of the result, 0 or 1.
    pub(crate) scale: Option<(&'m Memory, Elem, u64)>,
    /// A number that is added, for each index of a mode of the result, 0 or 1.
    pub(crate) bias: Option<(&'m Memory, Elem, u64)>,
    /// A matrix that is added, with the layout of the result, and whether it is added after the function.
    pub(crate) residual: Option<(&'m Memory, Elem, bool)>,
    pub(crate) activation: Activation,
}

/// The error of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Error {
    /// The norm of the difference divided by the norm of the expected result.
    pub(crate) relative: f64,
    /// The largest difference, relative to the average magnitude of an element.
    pub(crate) largest: f64,
    /// Unwritten elements and NaN.
    pub(crate) missing: u64,
}

impl<'d> Helpers<'d> {
    pub(crate) fn compile(device: &'d Device, nvrtc: &Nvrtc) -> Result<Helpers<'d>> {
        Helpers::with(device, nvrtc, "", &[])
    }

    /// The helpers with further kernels, whose blocks have 256 threads: their source, which can use the
    /// helpers, and their names.
    pub(crate) fn with(
        device: &'d Device,
        nvrtc: &Nvrtc,
        more: &str,
        names: &[&'static str],
    ) -> Result<Helpers<'d>> {
        let compiled = nvrtc
            .compile(&(source() + more), "helpers", &device.architecture(), &[])
            .map_err(|error| error.to_string())?;
        let function = |(name, threads)| {
            let shape = Shape { grid: [0; 3], cluster: [1; 3], threads, shared_bytes: 0, overlaps: false };
            Ok((name, device.function(&compiled.cubin, name, shape)?))
        };
        let more = names.iter().map(|name| (*name, 256));
        let functions = KERNELS.into_iter().chain(more).map(function).collect::<Result<_>>()?;
        Ok(Helpers { device, functions, sums: device.memory(SUMS)? })
    }

    /// Launches one of them.
    pub(crate) fn launch(&self, name: &str, grid: [u32; 3], arguments: &[Argument]) -> Result {
        let (_, function) = self.functions.iter().find(|known| known.0 == name).expect("all are compiled");
        // SAFETY: the methods below pass the arguments that `helpers.cu` declares, and memory is freed
        // after the stream has ended: the driver waits when memory is freed.
        unsafe { self.device.launch(function, grid, arguments) }
    }

    /// Blocks that fill the device.
    pub(crate) fn everywhere(&self) -> [u32; 3] {
        [8 * self.device.multiprocessors, 1, 1]
    }

    /// Random numbers between -1 and 1, or integers, of at most 8 bits, reproducible from the seed.
    pub(crate) fn fill(&self, memory: &Memory, elem: Elem, seed: u64) -> Result {
        let count = memory.bytes as u64 / u64::from(elem.bytes());
        let arguments = [Argument::array(memory, elem), Argument::word(count), Argument::word(seed)];
        self.launch("fill", self.everywhere(), &arguments)
    }

    /// C(m, n) = Σ A(m, k)·B(n, k) in double precision, columns of C contiguous, product after product.
    pub(crate) fn reference(&self, a: Matrix, b: Matrix, c: &Memory, sizes: Extents) -> Result {
        let Extents { batch, m, n, k } = sizes;
        let blocks = |n: i64| n.div_euclid(64) as u32 + u32::from(n % 64 != 0);
        let matrix = |of: Matrix| {
            let [row, k, batch] = of.steps.map(Argument::word);
            let array = match of.packed {
                Some(pairs) => Argument::int4(of.memory, pairs),
                None => Argument::array(of.memory, of.elem),
            };
            let array_of = |memory: Option<&Memory>, elem: Elem| {
                memory.map_or(Argument::no_array(), |memory| Argument::array(memory, elem))
            };
            let (scales, zeros, steps) = match of.scales {
                Some(Scales { memory, zeros, elem, steps }) => {
                    (array_of(Some(memory), elem), array_of(zeros, elem), steps)
                }
                None => (Argument::no_array(), Argument::no_array(), [1; 4]),
            };
            let [rows, along_rows, block, along_k] = steps.map(Argument::word);
            [array, row, k, batch, scales, zeros, rows, along_rows, block, along_k]
        };
        let others = [c.address, m as u64, n as u64, k as u64].map(Argument::word);
        let arguments = [&matrix(a)[..], &matrix(b), &others].concat();
        self.launch("reference", [blocks(m), blocks(n), batch as u32], &arguments)
    }

    /// Applies an epilogue to a reference whose columns have `m` elements.
    pub(crate) fn finish(&self, c: &Memory, m: i64, n: i64, epilogue: &Epilogue) -> Result {
        let vector = |of: &Option<(&Memory, Elem, u64)>| match of {
            Some((memory, elem, mode)) => [Argument::array(memory, *elem), Argument::word(*mode)],
            None => [Argument::no_array(), Argument::word(0)],
        };
        let [scale, scale_mode] = vector(&epilogue.scale);
        let [bias, bias_mode] = vector(&epilogue.bias);
        let [c, m, n, count, function] =
            [c.address, m as u64, n as u64, c.bytes as u64 / 8, epilogue.activation.number()]
                .map(Argument::word);
        let (residual, after) = match epilogue.residual {
            Some((memory, elem, after)) => (Argument::array(memory, elem), Argument::word(after.into())),
            None => (Argument::no_array(), Argument::word(0)),
        };
        let arguments = [c, m, n, count, scale, scale_mode, bias, bias_mode, residual, after, function];
        self.launch("finish", self.everywhere(), &arguments)
    }

    /// The error of `got` against `expected`, element by element in memory. The expected magnitude is at least `least`: a sum of
    /// random numbers may be much smaller than its rounding errors usually are.
    pub(crate) fn compare(&self, got: &Memory, elem: Elem, expected: &Memory, least: f64) -> Result<Error> {
        let count = got.bytes as u64 / u64::from(elem.bytes());
        self.device.set(&self.sums, 0)?;
        self.launch(
            "compare",
            self.everywhere(),
            &[
                Argument::array(got, elem),
                Argument::word(expected.address),
                Argument::word(count),
                Argument::word(self.sums.address),
            ],
        )?;
        let mut bytes = [0; SUMS];
        self.device.read(&self.sums, &mut bytes)?;
        let sum = |at: usize| f64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let (off, all, largest, seen) = (sum(0), sum(1), sum(2), sum(3));
        let root_mean = |sum: f64| (sum / count.max(1) as f64).sqrt();
        let average = root_mean(all).max(least);
        Ok(Error {
            relative: if off == 0.0 { 0.0 } else { root_mean(off) / average },
            largest: if largest == 0.0 { 0.0 } else { largest / average },
            missing: count.saturating_sub(seen as u64),
        })
    }

    /// Blocks the stream for this time.
    pub(crate) fn hold(&self, seconds: f64) -> Result {
        self.launch("hold", [1; 3], &[Argument::word((seconds * 1e9) as u64)])
    }
}

/// Their source: the names of types and activations, and the kernels.
pub(crate) fn source() -> String {
    let names = |name: &str, of: Vec<&str>| {
        let all: Vec<String> = of.iter().map(|one| format!("{}_{one}", name.to_uppercase())).collect();
        format!("enum {name} {{ {} }};\n", all.join(", "))
    };
    let activations = Activation::ALL.iter().map(|row| row.0).collect();
    names("Type", Elem::all().map(Elem::name).chain(Int4::ALL.map(Int4::name)).collect())
        + &names("Function", activations)
        + SOURCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let text = source();
        assert!(text.starts_with("enum Type { TYPE_f64, TYPE_f32, TYPE_f16, TYPE_bf16, TYPE_i32,"), "{text}");
        assert!(text.contains("enum Function { FUNCTION_none, FUNCTION_relu, FUNCTION_gelu,"), "{text}");
        assert!(Elem::all().enumerate().all(|(position, elem)| elem as usize == position));
    }

    #[test]
    fn helpers_compile_for_every_architecture() {
        let Ok(nvrtc) = Nvrtc::find(&[]) else {
            println!("skipped: no NVRTC");
            return;
        };
        for arch in ["sm_80", "sm_90a", "sm_120"] {
            let compiled = nvrtc.compile(&source(), "helpers", arch, &[]);
            let compiled = compiled.unwrap_or_else(|why| panic!("{arch}: {why}"));
            for (name, _) in KERNELS {
                let usage = compiled.usage_of(name).unwrap_or_else(|| panic!("{name} is not there"));
                assert!(usage.is_clean(), "{name} {arch}: {usage:?}");
            }
        }
    }
}
