//! Compiled binaries on disk: the second run of a program does not compile, and works without NVRTC.
//!
//! A cache never makes a kernel fail. A truncated, modified or unreadable entry is compiled again; a full or
//! read-only folder is a [`Note`]. Many processes may use one folder at once: an entry appears complete, by
//! renaming, or not at all.
//!
//! Cached binaries run on a device. So a folder that other users can write to, or replace by another, is
//! not used, and a note says which one and why. Files of other users are not used either.

pub(crate) mod entry;
mod folder;
mod note;
mod trust;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::nvrtc::{self, Compiled, Nvrtc};
pub use note::Note;

/// The default limit of a cache in bytes: thousands of kernels.
const USUAL_LIMIT: u64 = 512 << 20;
/// Temporary files of killed processes are removed after this time.
const STALE: Duration = Duration::from_secs(3600);

/// The input of a compilation. Different requests never share an entry.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// CUDA C.
    pub source: &'a str,
    /// The name for messages.
    pub name: &'a str,
    /// The architecture, such as `sm_90a`.
    pub arch: &'a str,
    /// Options in addition to the options of every compilation.
    pub options: &'a [&'a str],
}

/// Binaries in a folder.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
    limit: u64,
    /// The newest NVRTC version whose binaries the driver loads; see [`Cache::for_driver`].
    newest: i32,
}

/// One binary of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kernel.
    pub name: String,
    /// The architecture that it was compiled for.
    pub arch: String,
    /// The version of NVRTC that compiled it.
    pub nvrtc: (i32, i32),
    /// Bytes of the file.
    pub bytes: u64,
    /// When it was last taken from the cache, or put there.
    pub used: SystemTime,
    /// The file.
    pub path: PathBuf,
}

/// A binary, and whether it was in the cache.
#[derive(Clone, Debug)]
pub struct Cached {
    /// The binary.
    pub compiled: Compiled,
    /// Was it in the cache?
    pub hit: bool,
    /// Why it could not be stored.
    pub note: Option<Note>,
}

impl Cache {
    /// The user's cache: the folder that `TILEWRIGHT_CACHE_DIR` names, otherwise `tilewright` in the
    /// platform's cache folder (`$XDG_CACHE_HOME`, `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`). The
    /// folder is created by the first store; a user without a home has no cache. A folder that other users
    /// may write to or replace is not used.
    ///
    /// ```
    /// use tilewright_runtime::cache::Cache;
    ///
    /// let cache = Cache::open();
    /// match cache.folder() {
    ///     Some(folder) => println!("{} kernels in {}", cache.list().len(), folder.display()),
    ///     None => println!("no cache"),
    /// }
    /// ```
    pub fn open() -> Cache {
        Cache { folder: folder::usual(), limit: USUAL_LIMIT, newest: i32::MAX }
    }

    /// A cache of at most `limit` bytes in the given folder.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// let cache = Cache::at(std::env::temp_dir().join("kernels of mine"), 16 << 20);
    /// assert!(cache.list().is_empty());
    /// ```
    pub fn at(folder: impl Into<PathBuf>, limit: u64) -> Cache {
        Cache { folder: Some(folder.into()), limit, newest: i32::MAX }
    }

    /// No cache: every lookup misses, and no entry is stored.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// assert_eq!(Cache::off().folder(), None);
    /// ```
    pub fn off() -> Cache {
        Cache { folder: None, limit: 0, newest: i32::MAX }
    }

    /// The same cache for a driver that supports this CUDA version: without a compiler, binaries of newer
    /// NVRTC versions, which the driver does not load, are skipped.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// let cache = Cache::open().for_driver((13, 0));
    /// ```
    #[must_use]
    pub fn for_driver(self, cuda: (i32, i32)) -> Cache {
        Cache { newest: cuda.0, ..self }
    }

    /// Its folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Looks the request up, or compiles and stores it. Without NVRTC a binary of any version is taken, and
    /// the missing NVRTC is an error only if there is no such binary.
    ///
    /// ```no_run
    /// use tilewright_runtime::{cache::{Cache, Request}, nvrtc::Nvrtc};
    ///
    /// let source = r#"extern "C" __global__ void f(int* p) { *p = 1; }"#;
    /// let request = Request { source, name: "f", arch: "sm_90a", options: &[] };
    /// let cached = Cache::open().compile(Nvrtc::find(&[]).as_ref(), &request)?;
    /// println!("{} bytes, {} registers", cached.compiled.cubin.len(), cached.compiled.usage[0].registers);
    /// # Ok::<(), tilewright_runtime::nvrtc::Error>(())
    /// ```
    pub fn compile(
        &self,
        nvrtc: Result<&Nvrtc, &nvrtc::Error>,
        request: &Request<'_>,
    ) -> Result<Cached, nvrtc::Error> {
        if let Some(compiled) = self.get(request, nvrtc.ok().map(Nvrtc::version)) {
            return Ok(Cached { compiled, hit: true, note: None });
        }
        let nvrtc = nvrtc.map_err(|error| match (error, self.trusted()) {
            // A usable entry may be there.
            (nvrtc::Error::Absent(absent), Err(note)) => nvrtc::Error::Absent(absent.and(note.into_tried())),
            (error, _) => error.clone(),
        })?;
        let compiled = nvrtc.compile(request.source, request.name, request.arch, request.options)?;
        let note = self.put(request, nvrtc.version(), &compiled).err();
        Ok(Cached { compiled, hit: false, note })
    }

    /// The binary that this version of NVRTC made of a request; without a version, the binary of the newest version
    /// that the driver loads. `None` unless the checksum matches and no other user can have written the
    /// file.
    ///
    /// ```
    /// use tilewright_runtime::cache::{Cache, Request};
    ///
    /// let request = Request { source: "…", name: "f", arch: "sm_90a", options: &[] };
    /// assert!(Cache::off().get(&request, Some((13, 0))).is_none());
    /// ```
    pub fn get(&self, request: &Request<'_>, nvrtc: Option<(i32, i32)>) -> Option<Compiled> {
        let folder = self.folder.as_ref().filter(|_| self.trusted() == Ok(true))?;
        let start = Instant::now();
        let key = entry::key(request);
        let read = |version| read(&folder.join(entry::file_name(&key, version)), &key, version, self.limit);
        let mut compiled = match nvrtc {
            Some(version) => read(version)?,
            None => {
                let mut versions: Vec<_> =
                    files(folder).filter_map(|file| entry::parse_name(&file.name)).collect();
                versions.retain(|(of, (major, _))| *of == key && *major <= self.newest);
                versions.sort_unstable_by_key(|(_, version)| std::cmp::Reverse(*version));
                versions.into_iter().find_map(|(_, version)| read(version))?
            }
        };
        compiled.time = start.elapsed();
        Some(compiled)
    }

    /// Stores the binary that this version of NVRTC made of a request. Least recently used entries are
    /// evicted.
    ///
    /// ```
    /// # use tilewright_runtime::{cache::{Cache, Request}, nvrtc::Compiled};
    /// # let folder = std::env::temp_dir().join(format!("tilewright-doc-{}", std::process::id()));
    /// # let compiled = Compiled { cubin: vec![1, 2], log: String::new(), usage: vec![], notes: vec![], time: Default::default() };
    /// let cache = Cache::at(&folder, 1 << 20);
    /// let request = Request { source: "…", name: "f", arch: "sm_90a", options: &[] };
    /// cache.put(&request, (13, 0), &compiled)?;
    /// assert_eq!(cache.get(&request, Some((13, 0))).map(|compiled| compiled.cubin), Some(vec![1, 2]));
    /// assert!(cache.get(&request, Some((13, 1))).is_none());
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), tilewright_runtime::cache::Note>(())
    /// ```
    pub fn put(&self, request: &Request<'_>, nvrtc: (i32, i32), compiled: &Compiled) -> Result<(), Note> {
        let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        self.put_through(request, nvrtc, compiled, create)
    }

    /// `create` opens the temporary file: a test passes one that fails.
    fn put_through<W: Write>(
        &self,
        request: &Request<'_>,
        nvrtc: (i32, i32),
        compiled: &Compiled,
        create: impl Fn(&Path) -> io::Result<W>,
    ) -> Result<(), Note> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let key = entry::key(request);
        let bytes = entry::encode(&key, request, nvrtc, compiled);
        if bytes.len() as u64 > self.limit {
            let why = format!("it has {} bytes, and the cache holds {}", bytes.len(), self.limit);
            return Err(Note::failed("keeping a kernel in", folder, why));
        }
        let note = |doing, path: &Path| {
            let path = path.to_path_buf();
            move |why: io::Error| Note::failed(doing, &path, why)
        };
        self.trusted()?;
        folder::make(folder).map_err(note("making the folder", folder))?;
        self.trusted()?;
        let (path, temporary) =
            (folder.join(entry::file_name(&key, nvrtc)), folder.join(temporary_name(&key)));
        let written = create(&temporary).and_then(|mut file| {
            file.write_all(&bytes)?;
            file.flush()
        });
        let kept = written.and_then(|()| fs::rename(&temporary, &path));
        if let Err(why) = kept {
            let _ = fs::remove_file(&temporary);
            return Err(note("writing", &path)(why));
        }
        self.make_room(folder, &path);
        Ok(())
    }

    /// Does the folder exist, and can no other user have written its contents?
    fn trusted(&self) -> Result<bool, Note> {
        let Some(folder) = &self.folder else { return Ok(false) };
        trust::folder(folder).map_err(|why| Note::distrusted(folder, why))
    }

    /// Evicts least recently used entries, never `newest`, until the rest fits. Another process may do the
    /// same at the same time: a missing file is not an error.
    fn make_room(&self, folder: &Path, newest: &Path) {
        let mut all: Vec<CachedFile> = files(folder).filter(CachedFile::is_ours).collect();
        let now = SystemTime::now();
        all.retain(|file| {
            let stale = file.is_temporary()
                && now.duration_since(file.used).is_ok_and(|age| age > STALE)
                && fs::remove_file(&file.path).is_ok();
            !stale
        });
        let mut total: u64 = all.iter().map(|file| file.bytes).sum();
        all.retain(|file| !file.is_temporary() && file.path != newest);
        all.sort_unstable_by_key(|file| file.used);
        for file in all {
            if total <= self.limit {
                return;
            }
            let _ = fs::remove_file(&file.path);
            total -= file.bytes;
        }
    }

    /// Its entries, most recently used first; none if other users could have written them.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// for entry in Cache::open().list() {
    ///     println!("{} for {}: {} bytes", entry.name, entry.arch, entry.bytes);
    /// }
    /// ```
    pub fn list(&self) -> Vec<Entry> {
        let Some(folder) = self.folder.as_ref().filter(|_| self.trusted() == Ok(true)) else {
            return Vec::new();
        };
        let mut all: Vec<Entry> = files(folder)
            .filter_map(|file| {
                let (key, nvrtc) = entry::parse_name(&file.name)?;
                let (name, arch) = entry::about(open(&file.path)?.0, &key, nvrtc)?;
                let CachedFile { path, bytes, used, .. } = file;
                Some(Entry { name, arch, nvrtc, bytes, used, path })
            })
            .collect();
        all.sort_unstable_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
        all
    }

    /// Removes all entries, but no other file of the folder; returns their number.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// assert_eq!(Cache::off().clear()?, 0);
    /// # Ok::<(), tilewright_runtime::cache::Note>(())
    /// ```
    pub fn clear(&self) -> Result<usize, Note> {
        let Some(folder) = &self.folder else { return Ok(0) };
        let mut removed = 0;
        for file in files(folder).filter(CachedFile::is_ours) {
            match fs::remove_file(&file.path) {
                Ok(()) => removed += usize::from(!file.is_temporary()),
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(Note::failed("removing", &file.path, why)),
            }
        }
        Ok(removed)
    }

    /// Can this user, and no other, write to it? A file is created and removed.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// if let Err(note) = Cache::open().check() {
    ///     println!("{note}");
    /// }
    /// ```
    pub fn check(&self) -> Result<(), Note> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(temporary_name("check"));
        self.trusted()?;
        let made = folder::make(folder);
        self.trusted()?;
        let tried = made.and_then(|()| fs::write(&path, "x"));
        let _ = fs::remove_file(&path);
        tried.map_err(|why| Note::failed("writing to", folder, why))
    }
}

/// A file of the cache folder.
struct CachedFile {
    name: String,
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl CachedFile {
    fn is_temporary(&self) -> bool {
        self.name.ends_with(TEMPORARY)
    }

    /// The folder may contain foreign files: a file without an entry's name is not touched.
    fn is_ours(&self) -> bool {
        self.is_temporary() && self.name.starts_with(PREFIX) || entry::parse_name(&self.name).is_some()
    }
}

/// The plain files of a folder; none if it cannot be read.
fn files(folder: &Path) -> impl Iterator<Item = CachedFile> {
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|file| {
        let about = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let name = file.file_name().into_string().ok()?;
        Some(CachedFile { name, path: file.path(), bytes: about.len(), used })
    })
}

const PREFIX: &str = "tilewright-";
const TEMPORARY: &str = ".tmp";

/// A unique name: process, time and a counter.
fn temporary_name(key: &str) -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{PREFIX}{:.16}-{}-{call}-{:x}{TEMPORARY}", key, process::id(), now.as_nanos())
}

/// A plain file that no other user has written, and its length.
fn open(path: &Path) -> Option<(File, u64)> {
    // Opening a pipe could block for ever.
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let file = File::open(path).ok()?;
    let about = file.metadata().ok()?;
    trust::file(path, &about).ok()?;
    Some((file, about.len()))
}

/// The contents of a file, if it is complete; reading it marks it as used now. A damaged file is removed.
fn read(path: &Path, key: &str, version: (i32, i32), limit: u64) -> Option<Compiled> {
    let (file, len) = open(path)?;
    let mut bytes = Vec::new();
    if len <= limit {
        file.take(limit).read_to_end(&mut bytes).ok()?;
    }
    let compiled = entry::decode(&bytes, key, version);
    match &compiled {
        // In a read-only folder the order of use is not updated.
        Some(_) => {
            drop(File::options().append(true).open(path).and_then(|f| f.set_modified(SystemTime::now())))
        }
        None => drop(fs::remove_file(path)),
    }
    compiled
}

#[cfg(test)]
mod tests;
