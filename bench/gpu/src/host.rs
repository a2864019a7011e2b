//! The host's time for launches through the runtime, by part, beside the driver's call alone. No result is checked.

use std::time::Instant;

use serde_json::{Value, json};
use tilewright::{bf16, kernels};
use tilewright_codegen::element::Element;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_runtime::raw::{Part, Watch, watched};
use tilewright_runtime::{DeviceTensor, Stored, Stream};

use super::Result;
use super::driver::Device;
use super::jit::middle;
use super::prepared::{Loaded, Operand};

/// Products with few programs and with many.
const KERNELS: [&str; 2] = ["schedule=(vec=4) bk=16 stages=3", "dtype=bf16 arch=90 a=k_major b=k_major"];

/// M, N, K.
const SIZES: [usize; 3] = [128, 128, 64];
/// Other values of M: more shapes than are remembered.
const SHAPES: usize = 200;
/// Launches that are submitted before the device is waited for.
const QUEUED: usize = 20;
const ROUNDS: usize = 20;

/// Seconds of the host for launches of a kernel.
pub(crate) struct Launches {
    keys: &'static str,
    programs: usize,
    /// The first launch: generate, compile or find in the cache, load, check, launch.
    first: f64,
    /// The driver's call alone.
    bare: f64,
    /// A shape that was launched before.
    again: f64,
    /// The parts of such a launch, with two readings of the clock for each.
    parts: [f64; PARTS.len()],
    /// A shape that was not launched before, of a kernel that is compiled.
    new_shape: f64,
}

const PARTS: [(Part, &str); 4] =
    [(Part::Checks, "checks"), (Part::Plan, "plan"), (Part::Order, "order"), (Part::Driver, "driver")];

/// The time of each part of a launch.
struct Clock {
    last: Instant,
    parts: [f64; PARTS.len()],
}

impl Watch for Clock {
    fn end(&mut self, part: Part) {
        let now = Instant::now();
        if let Some(index) = PARTS.iter().position(|(known, _)| *known == part) {
            self.parts[index] += (now - self.last).as_secs_f64();
        }
        self.last = now;
    }
}

/// Launches kernels as programs do. Empty without a device.
pub(crate) fn launches(nvrtc: &Nvrtc) -> Result<Vec<Launches>> {
    if tilewright_runtime::Device::open(0).is_err() {
        return Ok(Vec::new());
    }
    let device = Device::open()?;
    Ok(vec![one::<f32>(&device, nvrtc, KERNELS[0])?, one::<bf16>(&device, nvrtc, KERNELS[1])?])
}

fn one<T: Stored<Elem = T> + Element>(
    device: &Device,
    nvrtc: &Nvrtc,
    keys: &'static str,
) -> Result<Launches> {
    let def = Words::specialize(kernels::MATMUL.def(), keys).map_err(|why| why.to_string())?;
    let stream = tilewright_runtime::Device::open(0).and_then(|device| device.stream());
    let product = stream.and_then(|stream| Product::<T>::new(def, keys.contains("k_major"), stream));
    let measured = product.and_then(|mut product| {
        let again = [SIZES[0]];
        let first = product.launch(SIZES[0], &mut ())?;
        let mut clocks = Vec::new();
        for _ in 0..ROUNDS * QUEUED {
            let mut clock = Clock { last: Instant::now(), parts: [0.0; PARTS.len()] };
            product.launch(SIZES[0], &mut clock)?;
            clocks.push(clock.parts);
        }
        let parts = std::array::from_fn(|part| middle(clocks.iter().map(|parts| parts[part]).collect()));
        let again = product.median(&again)?;
        let shapes: Vec<usize> = (1..=SHAPES).map(|shape| 8 * shape).collect();
        // Compiles the variants that these shapes choose.
        product.median(&shapes)?;
        Ok((first, parts, again, product.median(&shapes)?))
    });
    let (first, parts, again, new_shape) = measured.map_err(|why| why.to_string())?;
    let (programs, bare) = bare(device, nvrtc, keys)?;
    Ok(Launches { keys, programs, first, bare, again, parts, new_shape })
}

/// A product on its own tensors.
struct Product<T: Element> {
    def: KernelDef,
    rows: bool,
    stream: Stream,
    tensors: [DeviceTensor<T, 2>; 3],
}

type Seconds = std::result::Result<f64, tilewright_runtime::Error>;

impl<T: Stored<Elem = T> + Element> Product<T> {
    fn new(
        def: KernelDef,
        rows: bool,
        stream: Stream,
    ) -> std::result::Result<Product<T>, tilewright_runtime::Error> {
        let ([_, n, k], m) = (SIZES, 8 * SHAPES);
        let zeros = |extents| DeviceTensor::zeros(&stream, extents);
        let tensors = [zeros([m, k])?, zeros([n, k])?, zeros([m, n])?];
        Ok(Product { def, rows, stream, tensors })
    }

    /// The time of a launch with M rows.
    fn launch(&mut self, m: usize, watch: &mut impl Watch) -> Seconds {
        let ([_, n, k], [a, b, c]) = (SIZES, &mut self.tensors);
        let (a, b, c) = (a.view().extents([m, k]), b.view(), c.view_mut().extents([m, n]));
        let (a, b) = if self.rows { (a.row_major(), b.row_major()) } else { (a, b) };
        let arguments = &mut [a.into(), b.into(), c.into()];
        let start = Instant::now();
        watched(&self.def, &self.stream, arguments, watch)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// The median time of launches of these shapes, again and again.
    fn median(&mut self, rows: &[usize]) -> Seconds {
        let (mut times, mut rows) = (Vec::new(), rows.iter().cycle());
        for _ in 0..ROUNDS {
            for m in rows.by_ref().take(QUEUED) {
                times.push(self.launch(*m, &mut ())?);
            }
            self.stream.synchronize()?;
        }
        Ok(middle(times))
    }
}

/// The kernel's number of programs, and the time of the driver's call alone, for the one that a launch chooses.
fn bare(device: &Device, nvrtc: &Nvrtc, keys: &str) -> Result<(usize, f64)> {
    let kernel = Words::read(keys).map_err(|why| why.to_string())?.matmul().map_err(|why| why.to_string())?;
    let [m, n, k] = SIZES.map(|size| size as i64);
    let rows = keys.contains("k_major");
    let operand = |[m, n]: [i64; 2], rows: bool| {
        let strides = if rows { vec![n, 1] } else { vec![1, m] };
        let memory = device.memory((m * n) as usize * kernel.params[0].elem.bytes() as usize)?;
        Ok::<_, String>(Operand::Tensor { memory, first: 0, extents: vec![m, n], strides })
    };
    let operands = [operand([m, k], rows)?, operand([n, k], rows)?, operand([m, n], false)?];
    let prepared = Loaded::new(&kernel).prepare(device, nvrtc, &operands, None)?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        for _ in 0..QUEUED {
            let start = Instant::now();
            prepared.begin(device)?;
            times.push(start.elapsed().as_secs_f64());
        }
        device.finish()?;
    }
    Ok((kernel.variants.len(), middle(times)))
}

/// For people.
pub(crate) fn table(all: &[Launches]) -> String {
    let Some(widest) = all.iter().map(|one| one.keys.len()).max() else { return String::new() };
    let mut text = format!(
        "\nµs of the host for a launch, through the runtime and by the driver alone\n{:<widest$} {:>8} {:>11} {:>12} {:>9}",
        "product", "programs", "driver only", "first (ms)", "new shape"
    );
    text += &format!(" {:>6}", "again");
    for (_, name) in PARTS {
        text += &format!(" {name:>7}");
    }
    for one in all {
        let us = |seconds: f64| seconds * 1e6;
        text += &format!(
            "\n{:<widest$} {:>8} {:>11.2} {:>12.1} {:>9.2} {:>6.2}",
            one.keys,
            one.programs,
            us(one.bare),
            one.first * 1e3,
            us(one.new_shape),
            us(one.again)
        );
        for part in one.parts {
            text += &format!(" {:>7.2}", us(part));
        }
    }
    text + "\n`again` is a shape that was launched before; its parts are measured apart, each with readings of the clock.\n"
}

/// For programs.
pub(crate) fn json(all: &[Launches]) -> Value {
    let row = |one: &Launches| {
        let parts: serde_json::Map<String, Value> = PARTS
            .iter()
            .zip(one.parts)
            .map(|((_, name), seconds)| ((*name).to_owned(), json!(seconds)))
            .collect();
        json!({
            "kernel": one.keys,
            "programs": one.programs,
            "first_seconds": one.first,
            "driver_seconds": one.bare,
            "again_seconds": one.again,
            "new_shape_seconds": one.new_shape,
            "part_seconds": parts,
        })
    };
    all.iter().map(row).collect()
}
