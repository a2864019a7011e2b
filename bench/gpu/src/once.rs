//! Kernels launched once, unmeasured: for profilers and sanitizers.

use std::rc::Rc;

use tilewright::kernels;
use tilewright_codegen::definition::Generated;
use tilewright_codegen::thread::Param;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_layout::{Symbol, Value};
use tilewright_runtime::nvrtc::Nvrtc;

use super::Result;
use super::driver::Device;
use super::prepared::{Loaded, Operand, can_run};

/// A kernel and its name.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) kernel: Generated,
}

/// Shipped kernels, and products of the family: the named ones, or all.
pub(crate) fn kernels(names: &[&str]) -> Result<Vec<Named>> {
    if names.is_empty() {
        let shipped = kernels::all().into_iter().map(|shipped| shipped.name.to_owned());
        let products = kernels::PRODUCTS.iter().map(|keys| (*keys).to_owned());
        return shipped.chain(products).map(|name| named(&name)).collect();
    }
    names.iter().map(|name| named(name)).collect()
}

/// The kernel of a name: a shipped one, or keys of `matmul_kernel!`.
fn named(name: &str) -> Result<Named> {
    let kernel = match kernels::named(name) {
        Some(shipped) => shipped.def.generate().map_err(|why| why.to_string())?,
        None if name.contains('=') => {
            Words::read(name).map_err(|why| why.to_string())?.matmul().map_err(|why| why.to_string())?
        }
        None => {
            let known: Vec<&str> = kernels::all().iter().map(|shipped| shipped.name).collect();
            return Err(format!(
                "there is no kernel `{name}`; write one of {}, or keys such as bm=64",
                known.join(", ")
            ));
        }
    };
    Ok(Named { name: name.to_owned(), kernel })
}

/// The values of all symbols: extents from the user, and leading dimensions without gaps.
pub(crate) struct Sizes {
    /// M, N, K, and L where there are batches.
    pub(crate) extents: [(&'static str, i64); 4],
}

impl Sizes {
    pub(crate) fn new(m: i64, n: i64, k: i64) -> Sizes {
        Sizes { extents: [("M", m), ("N", n), ("K", k), ("L", 2)] }
    }

    fn lookup(&self, symbol: Symbol) -> Option<i64> {
        self.extents.iter().find(|(name, _)| *name == symbol.name()).map(|known| known.1)
    }
}

/// Extents and strides of a parameter: the contiguous mode first, the others after it in their order.
pub(crate) fn shape(
    kernel: &Generated,
    param: &Param,
    sizes: &Sizes,
) -> Result<Option<(Vec<i64>, Vec<i64>)>> {
    let Param::Pointer { name, shape, stride, .. } = param else { return Ok(None) };
    // Extents that the kernel computes follow from the others.
    let computed = |symbol: Symbol| {
        let require = kernel.requires.iter().find(|require| require.of == Some(symbol))?;
        Some(require.computed(&|of| sizes.lookup(of))?.1)
    };
    let known = |value: &Value| value.evaluate(&|symbol| sizes.lookup(symbol).or_else(|| computed(symbol)));
    let extents: Option<Vec<i64>> = shape.iter().map(known).collect();
    let extents =
        extents.ok_or_else(|| format!("`{name}` has extents other than M, N, K and L: {shape:?}"))?;
    let contiguous = stride.iter().position(|step| step.int() == Some(1));
    let order = contiguous.into_iter().chain((0..extents.len()).filter(|mode| Some(*mode) != contiguous));
    let (mut strides, mut step) = (vec![0; extents.len()], 1);
    for mode in order {
        strides[mode] = known(&stride[mode]).unwrap_or(step);
        step *= extents[mode];
    }
    Ok(Some((extents, strides)))
}

/// The length of a tensor in elements.
pub(crate) fn length(extents: &[i64], strides: &[i64]) -> i64 {
    extents.iter().zip(strides).map(|(n, step)| (n - 1) * step).sum::<i64>() + 1
}

/// Launches a kernel once and waits: the variant of an ordinary launch, or each variant that can run at this
/// size. Returns a description of the launches.
pub(crate) fn launch(
    device: &Device,
    nvrtc: &Nvrtc,
    named: &Named,
    sizes: &Sizes,
    every_variant: bool,
) -> Result<Vec<String>> {
    let blame = |why: String| format!("{}: {why}", named.name);
    let operands = operands(device, &named.kernel, sizes).map_err(blame)?;
    let mut loaded = Loaded::new(&named.kernel);
    let mut run = |variant: Option<usize>| {
        let prepared = loaded.prepare(device, nvrtc, &operands, variant)?;
        prepared.begin(device)?;
        device.finish()?;
        Ok(prepared.note.clone())
    };
    if !every_variant {
        return run(None).map(|note| vec![note]).map_err(blame);
    }
    let those =
        (0..named.kernel.variants.len()).filter(|&one| can_run(device, &named.kernel, &operands, one));
    those.map(|one| run(Some(one)).map_err(blame)).collect()
}

fn operands(device: &Device, kernel: &Generated, sizes: &Sizes) -> Result<Vec<Operand>> {
    let reads_output = kernel.params.iter().any(|param| param.tensor.is_none());
    // Parameters begin with the arguments, in order.
    let pairs = kernel.params.iter().zip(&kernel.variants[0].program.params);
    let updated = |at: usize| kernel.variants.iter().any(|variant| variant.program.updates(at as u32));
    let operand = |(at, (argument, param)): (usize, (&tilewright_codegen::definition::Param, &Param))| {
        let Some((extents, strides)) = shape(kernel, param, sizes)? else { return Ok(Operand::Scalar(0.5)) };
        let bytes = length(&extents, &strides) as usize * argument.elem.bytes() as usize;
        let memory = device.raw_memory(bytes)?;
        // A write-only result is not initialised: a sanitizer then reports reads of it. Atomic updates begin with
        // zeros.
        if updated(at) {
            device.set(&memory, 0)?;
        } else if reads_output || argument.tensor.is_some_and(|(written, _)| !written) {
            device.set(&memory, 0x3c)?;
        }
        Ok(Operand::Tensor { memory: Rc::new(memory), first: 0, extents, strides })
    };
    pairs.enumerate().map(operand).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_atomic_updates_are_zeroed() {
        let program = |name: &str| named(name).unwrap().kernel.variants[0].program.clone();
        let (histogram, gather) = (program("histogram"), program("gather_rows"));
        assert!(!histogram.updates(0) && histogram.updates(1));
        assert!((0..3).all(|param| !gather.updates(param)));
    }

    #[test]
    fn every_kernel_has_operands() {
        let all = kernels(&[]).unwrap();
        assert!(all.len() > 12, "{}", all.len());
        for Named { name, kernel } in &all {
            for variant in &kernel.variants {
                for param in &variant.program.params {
                    if let Some((extents, strides)) = shape(kernel, param, &Sizes::new(100, 77, 33)).unwrap()
                    {
                        let size: i64 = extents.iter().product();
                        assert_eq!(length(&extents, &strides), size, "{name}: {extents:?} {strides:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn mistakes_are_named() {
        let message = kernels(&["sofmax"]).err().unwrap_or_default();
        assert!(
            message.starts_with("there is no kernel `sofmax`; write one of tutorial, naive,"),
            "{message}"
        );
        assert!(kernels(&["bmm=64"]).err().unwrap_or_default().contains("did you mean `bm`?"));
    }
}
