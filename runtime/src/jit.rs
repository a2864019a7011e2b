//! Generated kernels, their binaries, and their functions on a device. Each is made once.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute};
use tilewright_program::cuda::{self, Instrument, Mark};
use tilewright_program::definition::Variant;
use tilewright_program::kernel_def::{KernelDef, Locations};
use tilewright_program::{Definition, Generated, thread};

use crate::absence::Absence;
use crate::bundle;
use crate::cache::{Cache, Cached, Request};
use crate::device::Device;
use crate::driver::driver;
use crate::error::{Error, While};
use crate::instrument;
use crate::launch::Plans;
use crate::nvrtc::{self, Nvrtc};
use crate::raw::{self, Shape};
use crate::records;

/// A kernel as the generator made it from its definition, in this program or in a macro. The source that a definition carries
/// is never used.
#[derive(Debug)]
pub(crate) struct Made {
    /// A unique number.
    number: u64,
    pub(crate) generated: Generated,
    /// Its packs' kernels, in their order.
    pub(crate) packs: Vec<Arc<Made>>,
    /// Was it written as an `unsafe fn`?
    pub(crate) is_unsafe: bool,
    /// What its code shows, and where the author's text is.
    instrument: Instrument,
    locations: Locations,
    /// The plans of its launches.
    pub(crate) plans: Plans,
}

/// Values by key, each made once by its first caller; other callers of that key wait for it, and only for it.
struct Once<K, V> {
    slots: Mutex<HashMap<K, Arc<Mutex<Option<V>>>>>,
}

impl<K, V> Default for Once<K, V> {
    fn default() -> Self {
        Once { slots: Mutex::new(HashMap::new()) }
    }
}

impl<K: Eq + Hash, V: Clone> Once<K, V> {
    /// A failure is not stored: the next caller tries again.
    fn get<E>(&self, key: K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.entry(key).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(value) => Ok(value.clone()),
            None => Ok(slot.insert(make()?).clone()),
        }
    }
}

/// The limit of remembered kernels: a program that tries thousands must not keep them all.
const MOST_KNOWN: usize = 1024;

/// The kernel of a definition.
pub(crate) fn made(def: &KernelDef) -> Result<Arc<Made>, Error> {
    /// Keyed by fingerprint. Collisions can be forged, so each kernel is stored and compared with its
    /// definition.
    type Known = HashMap<u128, Vec<(Cow<'static, [u8]>, Arc<Made>)>, BuildHasherDefault<Fingerprint>>;
    static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(Default::default);
    let find = |known: &Known| {
        let mut same = known.get(&def.fingerprint()).into_iter().flatten();
        // The definition of a macro is in one literal, and may be long.
        let is_it = |known: &[u8]| std::ptr::eq(known, &**def.encoded()) || known == &**def.encoded();
        same.find(|(known, _)| is_it(known)).map(|(_, made)| made.clone())
    };
    if let Some(made) = find(&KNOWN.read().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(made);
    }
    let generated = match bundle::kernel(def) {
        Some(bundled) => bundled,
        None => def.generate()?,
    };
    let generated = records::consulted(generated)?;
    let (is_unsafe, instrument) = (def.definition().as_ref().is_some_and(is_unsafe), instrument::chosen()?);
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have been faster; loaded functions are looked up by the number of the stored kernel.
    if let Some(made) = find(&known) {
        return Ok(made);
    }
    if known.len() >= MOST_KNOWN {
        known.clear();
    }
    let made = numbered(generated, is_unsafe, instrument, def.locations());
    known.entry(def.fingerprint()).or_default().push((def.encoded().clone(), made.clone()));
    Ok(made)
}

/// A fingerprint is a hash already.
#[derive(Default)]
struct Fingerprint(u64);

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }
}

/// Was the kernel written as an `unsafe fn`?
fn is_unsafe(definition: &Definition) -> bool {
    matches!(definition, Definition::Function(kernel, _) if kernel.is_unsafe)
}

/// The kernel of a definition, under a separate number.
#[cfg(feature = "generate")]
pub(crate) fn defined(definition: &Definition) -> Result<Arc<Made>, Error> {
    let name = match definition {
        Definition::Function(kernel, _) => &kernel.name.text,
        Definition::Matmul(_) => "matmul",
    };
    let made = tilewright_codegen::Generate::kernel(definition, name, &Default::default())?;
    let (made, locations) = (records::consulted(made)?, Locations::default());
    Ok(numbered(made, is_unsafe(definition), instrument::chosen()?, locations))
}

/// The kernel of a definition without records.
pub(crate) fn unrecorded(def: &KernelDef) -> Result<Arc<Made>, Error> {
    let is_unsafe = def.definition().as_ref().is_some_and(is_unsafe);
    Ok(numbered(def.generate()?, is_unsafe, instrument::chosen()?, def.locations()))
}

/// The alternative that a variant is of, as a kernel without records.
pub(crate) fn alternative(made: &Made, variant: usize) -> Arc<Made> {
    let generated = made.generated.with_alternative(variant);
    with_packs(generated, made.packs.clone(), made.is_unsafe, made.instrument, made.locations.clone())
}

/// An already generated kernel. Its number, and the functions loaded under it, are its own.
pub(crate) fn built(generated: Generated) -> Arc<Made> {
    numbered(generated, false, Instrument::default(), Locations::default())
}

fn numbered(
    generated: Generated,
    is_unsafe: bool,
    instrument: Instrument,
    locations: Locations,
) -> Arc<Made> {
    let generated = if instrument.has_probes() { generated.into_probed() } else { generated };
    let packs = generated.packs.iter().map(|pack| built(pack.kernel.clone())).collect();
    with_packs(generated, packs, is_unsafe, instrument, locations)
}

fn with_packs(
    generated: Generated,
    packs: Vec<Arc<Made>>,
    is_unsafe: bool,
    instrument: Instrument,
    locations: Locations,
) -> Arc<Made> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (number, plans) = (NUMBER.fetch_add(1, Ordering::Relaxed), Plans::of(&generated));
    Arc::new(Made { number, generated, packs, is_unsafe, instrument, locations, plans })
}

impl Made {
    /// The CUDA C of a variant, instrumented if that was chosen, and the statements of its timeline.
    fn source(&self, variant: usize) -> (Cow<'_, str>, Vec<Mark>) {
        let Variant { source, program, .. } = self.generated.variant(variant);
        if self.instrument == Instrument::default() {
            return (Cow::Borrowed(source), Vec::new());
        }
        let Locations { file, lines } = &self.locations;
        let (source, marks) = cuda::print_instrumented(program, self.instrument, file, lines);
        (Cow::Owned(source), marks)
    }
}

/// The compilation of one variant for one device.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The variant.
    pub variant: usize,
    /// Its preconditions, one line each; empty if it serves every launch.
    pub needs: Vec<String>,
    /// The target, such as `sm_90a`.
    pub arch: String,
    /// Registers, spills, stack and shared memory, as reported by ptxas.
    pub usage: nvrtc::Usage,
    /// Messages of ptxas about lost performance.
    pub slow: Vec<String>,
    /// Other messages of the compiler.
    pub notes: Vec<String>,
    /// Was it in the cache?
    pub from_cache: bool,
    /// Time to compile or to load it.
    pub time: Duration,
    /// Why it could not be stored in the cache, if so.
    pub not_kept: Option<String>,
}

impl fmt::Display for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compiled { variant, arch, usage, .. } = self;
        write!(f, "variant {}, {arch}: {} registers", variant + 1, usage.registers)?;
        match usage.spill_stores + usage.spill_loads {
            0 => f.write_str(", nothing spilled")?,
            _ => write!(f, ", {} bytes spilled", usage.spill_stores)?,
        }
        for slow in &self.slow {
            write!(f, "\n  slow: {slow}")?;
        }
        Ok(())
    }
}

/// Messages of ptxas about correct kernels that run much slower than expected.
const SLOW: [(&str, &str); 5] = [
    ("C7510", "matrix products wait for one another"),
    ("C7511", "matrix products wait for one another"),
    ("C7515", "matrix products wait for one another"),
    ("C7507", "the request for registers is ignored"),
    ("C7508", "the request for registers is ignored"),
];

fn slow(note: &str) -> Option<String> {
    let row = SLOW.iter().find(|row| note.contains(row.0))?;
    Some(format!("{} ({})", row.1, note.trim()))
}

/// A variant, compiled and loaded. It is never unloaded: running kernels need their code.
#[derive(Debug)]
pub(crate) struct Loaded {
    function: sys::CUfunction,
    pub(crate) compiled: Compiled,
}

// SAFETY: a function's handle may be used by all threads.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Loaded {
    pub(crate) fn function(&self) -> sys::CUfunction {
        self.function
    }
}

/// Functions loaded on a device, by the kernel's number and the variant.
#[derive(Default)]
pub(crate) struct Modules {
    loaded: Once<(u64, usize), Arc<Loaded>>,
}

/// The function of a variant on a device.
pub(crate) fn loaded(device: &Device, made: &Made, variant: usize) -> Result<Arc<Loaded>, Error> {
    device.modules().loaded.get((made.number, variant), || load(device, made, variant).map(Arc::new))
}

/// NVRTC, once it is loaded.
fn compiler() -> Result<&'static Nvrtc, nvrtc::Error> {
    static LOADED: OnceLock<Nvrtc> = OnceLock::new();
    match LOADED.get() {
        Some(nvrtc) => Ok(nvrtc),
        None => {
            let nvrtc = Nvrtc::find(&[])?;
            Ok(LOADED.get_or_init(|| nvrtc))
        }
    }
}

/// The architectures whose binaries of a program the device runs: the device's, for which programs are compiled, and older ones
/// with the same major version.
fn architectures(device: &Device, program: &thread::Kernel) -> Vec<String> {
    let arch = device.properties().arch();
    match program.arch_specific {
        true => vec![format!("sm_{arch}a")],
        false => (arch / 10 * 10..=arch).rev().map(|arch| format!("sm_{arch}")).collect(),
    }
}

/// The binary of a variant for a device, with its architecture: of a bundle, of the cache, or compiled.
pub(crate) fn binary(device: &Device, made: &Made, variant: usize) -> Result<(String, Cached), Error> {
    let (source, _) = made.source(variant);
    let (program, version) = (&made.generated.variant(variant).program, driver()?.version);
    let architectures = architectures(device, program);
    let (name, options) = (&made.generated.name, made.instrument.options());
    let request = Request { source: &source, name, arch: &architectures[0], options };
    Ok(match bundle::binary(&request, &architectures, version.0) {
        Some((arch, compiled)) => (arch, Cached { compiled, hit: true, note: None }),
        None => (architectures[0].clone(), compile(&request, version)?),
    })
}

fn load(device: &Device, made: &Made, variant: usize) -> Result<Loaded, Error> {
    let program = &made.generated.variant(variant).program;
    let (arch, kept) = binary(device, made, variant)?;
    let (slow, notes): (Vec<_>, Vec<_>) =
        kept.compiled.notes.iter().cloned().partition(|note| slow(note).is_some());
    let compiled = Compiled {
        variant,
        needs: cuda::needs(program),
        arch,
        usage: kept.compiled.usage_of(&cuda::entry(program)).cloned().unwrap_or_default(),
        slow: slow.iter().filter_map(|note| self::slow(note)).collect(),
        notes,
        from_cache: kept.hit,
        time: kept.compiled.time,
        not_kept: kept.note.map(|note| note.to_string()),
    };
    let (module, function) = enter(device, program, &kept.compiled.cubin)?;
    if made.instrument.has_records() {
        device.records()?.enter(module, program, &made.locations, made.source(variant).1)?;
    }
    Ok(Loaded { function, compiled })
}

/// The binary of the cache, or of NVRTC.
fn compile(request: &Request<'_>, driver: (i32, i32)) -> Result<Cached, Error> {
    let nvrtc = compiler();
    if let Ok(nvrtc) = nvrtc.as_ref().map(|nvrtc| nvrtc.version())
        && nvrtc.0 > driver.0
    {
        return Err(Absence::NewNvrtc { nvrtc, driver }.into());
    }
    Ok(Cache::open().for_driver(driver).compile(nvrtc.as_ref().map(|nvrtc| *nvrtc), request)?)
}

/// Loads a binary and prepares its function.
fn enter(
    device: &Device,
    program: &thread::Kernel,
    cubin: &[u8],
) -> Result<(sys::CUmodule, sys::CUfunction), Error> {
    const DOING: &str = "loading a kernel";
    device.context().bind_to_thread().doing(DOING)?;
    // SAFETY: the context is current, and the image comes from the compiler, or intact from the cache.
    let (module, function) =
        unsafe { raw::load_module(cubin, &cuda::entry(program), &Shape::of(program, [0; 3])) }?;
    let mut most = 0;
    // SAFETY: as above; the integer lives through the call.
    unsafe {
        let what = Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        sys::cuFuncGetAttribute(&mut most, what, function).result().doing(DOING)?;
    }
    if i64::from(most) < i64::from(program.launch.threads) {
        return Err(Error::refused(format!(
            "a block has {} threads, and as compiled at most {most} have enough registers",
            program.launch.threads
        )));
    }
    Ok((module, function))
}

/// Compiles and loads all variants that a device can run.
pub(crate) fn prepare(device: &Device, made: &Made) -> Result<Vec<Compiled>, Error> {
    let arch = device.properties().arch();
    let runs =
        |program: &thread::Kernel| program.arch <= arch && (!program.arch_specific || program.arch == arch);
    let variants = made.generated.variants.iter().enumerate().filter(|(_, variant)| runs(&variant.program));
    let compiled = variants.map(|(index, _)| Ok(loaded(device, made, index)?.compiled.clone())).collect();
    for pack in &made.packs {
        prepare(device, pack)?;
    }
    compiled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_made_once() {
        let once: Once<u32, u32> = Once::default();
        let made = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for n in 0..16u32 {
                let (once, made) = (&once, &made);
                scope.spawn(move || {
                    let value = once.get(n % 4, || {
                        made.fetch_add(1, Ordering::Relaxed);
                        Ok::<_, ()>(n % 4 + 10)
                    });
                    assert_eq!(value, Ok(n % 4 + 10));
                });
            }
        });
        assert_eq!(made.into_inner(), 4);
    }

    #[test]
    fn failures_are_tried_again() {
        let once: Once<(), u32> = Once::default();
        assert_eq!(once.get((), || Err("no")), Err("no"));
        assert_eq!(once.get((), || Ok::<_, &str>(1)), Ok(1));
        assert_eq!(once.get((), || Err("never asked")), Ok(1));
    }

    #[test]
    fn performance_messages_are_reported() {
        let note =
            "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized";
        assert!(
            slow(note).is_some_and(|message| message.starts_with("matrix products wait for one another ("))
        );
        assert_eq!(
            slow("k.cu(1): warning #177-D: variable \"unused\" was declared but never referenced"),
            None
        );
    }

    #[test]
    fn forged_carriers_do_not_matter() {
        use tilewright_codegen::{GENERATOR, Generate};
        use tilewright_program::kernel_def::Locations;
        use tilewright_program::wire::encode;
        let definition = Definition::Matmul(vec![]);
        let right = definition.def(&definition.generate().kernel.expect("a kernel"), &Locations::default());
        let bytes: &'static [u8] = Box::leak(encode(&definition).into_boxed_slice());
        let forged = KernelDef::new("other", "*(int*)0 = 1;", "", &[], bytes, b"").with_generator(GENERATOR);
        let (right, forged) = (made(&right).expect("made"), made(&forged).expect("made"));
        assert_eq!(right.number, forged.number);
        assert_eq!(forged.generated.name, "matmul");
    }
}
