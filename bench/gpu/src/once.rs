//! Kernels launched once, unmeasured: for profilers and sanitizers.

use std::rc::Rc;

use tilewright::kernels;
use tilewright_codegen::definition::Generated;
use tilewright_codegen::launch::{Given, Tensor};
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::nvrtc::Nvrtc;

use super::driver::Device;
use super::prepared::{Loaded, Operand, can_run};
use super::{Result, message};

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

/// Launches a kernel once and waits: the variant of an ordinary launch, or each variant that can run at this
/// size. Returns a description of the launches.
pub(crate) fn launch(
    device: &Device,
    nvrtc: &Nvrtc,
    named: &Named,
    sizes: &[(&str, i64)],
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

fn operands(device: &Device, kernel: &Generated, sizes: &[(&str, i64)]) -> Result<Vec<Operand>> {
    let reads_output = kernel.params.iter().any(|param| param.tensor.is_none());
    let updated = |at: usize| kernel.variants.iter().any(|variant| variant.program.updates(at as u32));
    let operand = |(at, given): (usize, Given)| {
        let Given::Tensor(Tensor { elem, mutable, extents, strides, len, .. }) = given else {
            return Ok(Operand::Scalar(0.5));
        };
        let memory = device.raw_memory(len as usize * elem.bytes() as usize)?;
        // A write-only result is not initialised: a sanitizer then reports reads of it. Atomic updates begin with
        // zeros.
        if updated(at) {
            device.set(&memory, 0)?;
        } else if reads_output || !mutable {
            device.set(&memory, 0x3c)?;
        }
        Ok(Operand::Tensor { memory: Rc::new(memory), first: 0, extents, strides })
    };
    let given = tilewright_cli::placed_with(kernel, sizes).map_err(message)?;
    given.into_iter().enumerate().map(operand).collect()
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
            let given = tilewright_cli::placed_with(kernel, &[("M", 100), ("N", 77), ("K", 33)]).unwrap();
            for given in given {
                if let Given::Tensor(Tensor { extents, strides, len, .. }) = given {
                    assert_eq!(
                        len as i64,
                        extents.iter().product::<i64>(),
                        "{name}: {extents:?} {strides:?}"
                    );
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
