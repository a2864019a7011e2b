//! Bundles: files with kernels and their binaries for some architectures. A program with a bundle neither generates nor compiles
//! these kernels.
//!
//! [`write()`], or `tilewright export --bundle`, makes a bundle. [`add`] takes one that is embedded in the program, [`load`] reads
//! a file. Launches look there first, and then in the cache. A kernel counts as the bundle's if its definition and its generated
//! code are equal to the bundle's. Other kernels are generated and compiled as without a bundle.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use tilewright_program::Generated;
use tilewright_program::definition::Variant;
use tilewright_program::kernel_def::{FORMAT, KernelDef};
use tilewright_program::launch::Refusal;
use tilewright_program::wire::{decode, encode};

use crate::cache::entry::{self, checksum};
use crate::cache::{Cache, Request};
use crate::export::{Error, Target, targets};
use crate::nvrtc::{Compiled, Nvrtc};
use crate::records;

/// The first line, with the version of the encoded kernels.
fn magic() -> String {
    format!("tilewright bundle {FORMAT}.{}\n", env!("CARGO_PKG_VERSION"))
}

/// Where bytes are, behind the index: their offset and their number.
type Range = (u64, u64);
/// A version of NVRTC.
type Version = (i32, i32);

/// The contents of a bundle.
#[derive(Default)]
struct Index {
    /// A kernel's identity, a checksum of its programs, and its programs.
    kernels: Vec<(String, String, Range)>,
    /// The key of a binary as a cache has it, the compiler's version, and the entry of a cache.
    binaries: Vec<(String, Version, Range)>,
}

/// The identity of a kernel: its definition, wherever it is written, and the generated code. Another generator makes other code.
fn identity(def: &KernelDef) -> String {
    let definition = def.encoded_without_spans().unwrap_or_default();
    checksum(&[&(definition.len() as u64).to_le_bytes(), &definition[..], def.source().as_bytes()].concat())
}

/// A bundle of kernels for some architectures, `sm_90` or `sm_80`. All variants that run there are compiled.
///
/// ```no_run
/// # fn show(softmax: &impl tilewright_program::kernel_value::Kernel) -> Result<(), Box<dyn std::error::Error>> {
/// let bytes = tilewright_runtime::bundle::make(&[softmax.def()], &["sm_90", "sm_80"])?;
/// println!("{} bytes", bytes.len());
/// # Ok(())
/// # }
/// ```
pub fn make(kernels: &[&KernelDef], architectures: &[&str]) -> Result<Vec<u8>, Error> {
    let targets = targets(architectures)?;
    if let Some((_, text)) = targets.iter().zip(architectures).find(|(target, _)| target.ptx) {
        let message = format!("a bundle has binaries, and {text} is PTX");
        return Err(Refusal::new(message).help("name architectures of devices, such as sm_90").into());
    }
    let nvrtc = Nvrtc::find(&[])?;
    let (mut index, mut blobs) = (Index::default(), Vec::new());
    for def in kernels {
        let generated = records::consulted(def.generate()?)?;
        let programs = KernelDef::programs(&generated);
        let sum = checksum(&programs);
        index.kernels.push((identity(def), sum, append(&mut blobs, &programs)));
        for kernel in [&generated].into_iter().chain(generated.packs.iter().map(|pack| &pack.kernel)) {
            for variant in &kernel.variants {
                for target in targets.iter().filter(|target| target.serves(&variant.program)) {
                    let binary = compile(&nvrtc, &kernel.name, variant, *target)?;
                    let (key, bytes) = binary;
                    index.binaries.push((key, nvrtc.version(), append(&mut blobs, &bytes)));
                }
            }
        }
    }
    let index = encode(&(index.kernels, index.binaries));
    let length = (index.len() as u64).to_le_bytes();
    Ok([magic().as_bytes(), checksum(&index).as_bytes(), &length, &index, &blobs].concat())
}

/// Appends bytes, and returns where they are.
fn append(blobs: &mut Vec<u8>, bytes: &[u8]) -> Range {
    blobs.extend_from_slice(bytes);
    ((blobs.len() - bytes.len()) as u64, bytes.len() as u64)
}

/// The binary of a variant: its key, and the entry of a cache.
fn compile(nvrtc: &Nvrtc, name: &str, variant: &Variant, target: Target) -> Result<(String, Vec<u8>), Error> {
    let arch = target.of_program(&variant.program);
    let request = Request { source: &variant.source, name, arch: &arch, options: &[] };
    let compiled = Cache::open().compile(Ok(nvrtc), &request)?.compiled;
    let key = entry::key(&request);
    let bytes = entry::encode(&key, &request, nvrtc.version(), &compiled);
    Ok((key, bytes))
}

/// Makes a bundle and writes it to a file: for a `build.rs`.
///
/// ```no_run
/// # fn show(softmax: &impl tilewright_program::kernel_value::Kernel) -> Result<(), Box<dyn std::error::Error>> {
/// // build.rs
/// let path = std::path::Path::new(&std::env::var("OUT_DIR")?).join("kernels.bundle");
/// tilewright_runtime::bundle::write(&[softmax.def()], &["sm_90"], path)?;
/// # Ok(())
/// # }
/// ```
pub fn write(kernels: &[&KernelDef], architectures: &[&str], path: impl AsRef<Path>) -> Result<u64, Error> {
    let (bytes, path) = (make(kernels, architectures)?, path.as_ref());
    std::fs::write(path, &bytes).map_err(|why| Error::File(path.into(), why.to_string()))?;
    Ok(bytes.len() as u64)
}

/// What launches look in.
#[derive(Default)]
struct Added {
    kernels: HashMap<String, (String, &'static [u8])>,
    binaries: HashMap<String, (Version, &'static [u8])>,
}

static ADDED: RwLock<Option<Added>> = RwLock::new(None);

/// Adds a bundle, such as `include_bytes!("../kernels.bundle")`. Returns the number of its kernels.
///
/// A damaged bundle and one of another version are refused as a whole.
///
/// ```
/// // SAFETY: this is no bundle.
/// let refusal = unsafe { tilewright_runtime::bundle::add(b"text") }.unwrap_err().to_string();
/// assert!(refusal.starts_with("this is no bundle of this version of tilewright"), "{refusal}");
/// ```
///
/// # Safety
/// [`make`] has made the bytes, of kernels that this program may launch: launches check arguments against the facts in them,
/// and run the binaries in them.
pub unsafe fn add(bytes: &'static [u8]) -> Result<usize, Refusal> {
    let (index, blobs) = read(bytes)?;
    let at = |(begin, length): Range| {
        let begin = usize::try_from(begin).ok()?;
        blobs.get(begin..begin.checked_add(usize::try_from(length).ok()?)?)
    };
    let cut = || Refusal::new("the bundle is shorter than its index says").help("make it again");
    let mut added = Added::default();
    for (identity, sum, range) in index.kernels {
        added.kernels.insert(identity, (sum, at(range).ok_or_else(cut)?));
    }
    for (key, version, range) in index.binaries {
        added.binaries.insert(key, (version, at(range).ok_or_else(cut)?));
    }
    let count = added.kernels.len();
    let mut all = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    all.kernels.extend(added.kernels);
    all.binaries.extend(added.binaries);
    Ok(count)
}

/// Adds the bundle in a file, whose contents stay in memory. Returns the number of its kernels.
///
/// # Safety
/// As for [`add`].
pub unsafe fn load(path: impl AsRef<Path>) -> Result<usize, Refusal> {
    let path = path.as_ref();
    let named = |why: &dyn std::fmt::Display| Refusal::new(format!("{}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|why| named(&why))?;
    // SAFETY: the caller's.
    unsafe { add(bytes.leak()) }.map_err(|why| named(&why))
}

/// The index, and what is behind it.
fn read(bytes: &'static [u8]) -> Result<(Index, &'static [u8]), Refusal> {
    let other = || Refusal::new("this is no bundle of this version of tilewright").help("make it again");
    let rest = bytes.strip_prefix(magic().as_bytes()).ok_or_else(other)?;
    let damaged = || Refusal::new("the bundle is damaged").help("make it again");
    let index = || {
        let (sum, rest) = rest.split_at_checked(entry::DIGITS)?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (index, blobs) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let (kernels, binaries) = decode(index).filter(|_| checksum(index).as_bytes() == sum)?;
        Some((Index { kernels, binaries }, blobs))
    };
    index().ok_or_else(damaged)
}

/// A kernel of the bundles, instead of what its generator makes. `None` if no bundle has it, or if its bytes are damaged.
pub(crate) fn kernel(def: &KernelDef) -> Option<Generated> {
    let all = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let (sum, programs) = all.as_ref()?.kernels.get(&identity(def))?;
    if checksum(programs) != *sum {
        return None;
    }
    // SAFETY: `make` has made the bytes, as who added the bundle promised.
    unsafe { def.clone().with_programs(programs) }.generate().ok()
}

/// A binary of the bundles for the first of some architectures that there is, if its compiler is not newer than `newest`.
pub(crate) fn binary(
    request: &Request<'_>,
    architectures: &[String],
    newest: i32,
) -> Option<(String, Compiled)> {
    let all = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let binaries = &all.as_ref()?.binaries;
    architectures.iter().find_map(|arch| {
        let key = entry::key(&Request { arch, ..*request });
        let (version, bytes) = binaries.get(&key).filter(|(version, _)| version.0 <= newest)?;
        Some((arch.clone(), entry::decode(bytes, &key, *version)?))
    })
}
