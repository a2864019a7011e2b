//! Binaries that were compiled before, on disk: a program's second run compiles nothing, and works without NVRTC.
//!
//! A cache helps or does nothing. An entry that is torn, altered or not readable is compiled again; a folder that is
//! full or cannot be written to is a [`Note`], never a reason why a kernel does not run. Many processes may use one
//! folder at once: an entry appears whole, by renaming, or not at all.
//!
//! What is taken from a cache is run on a device. A folder into which other users can put files, or in whose place they can put
//! another, is therefore not used, and a note says which one and why; neither are files of other users.

mod entry;
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

/// How many bytes a cache holds unless told otherwise: thousands of kernels.
const USUAL_LIMIT: u64 = 512 << 20;
/// What is left of a process that was killed while it wrote is removed after this time.
const STALE: Duration = Duration::from_secs(3600);

/// What a binary is made from. Two requests that differ in anything never share an entry.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// CUDA C.
    pub source: &'a str,
    /// The name that stands in messages.
    pub name: &'a str,
    /// The architecture, such as `sm_90a`.
    pub arch: &'a str,
    /// Options beyond those that every compilation gets.
    pub options: &'a [&'a str],
}

/// Binaries in a folder.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
    limit: u64,
    /// The newest version of NVRTC whose binaries are of use; see [`Cache::for_driver`].
    newest: i32,
}

/// One binary of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kernel.
    pub name: String,
    /// What it was compiled for.
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

/// A binary, and how it was come by.
#[derive(Clone, Debug)]
pub struct Cached {
    /// The binary.
    pub compiled: Compiled,
    /// Was it there already?
    pub hit: bool,
    /// Why it could not be kept for the next time.
    pub note: Option<Note>,
}

impl Cache {
    /// The user's cache: the folder that `TILEWRIGHT_CACHE_DIR` names, else `tilewright` where the platform keeps what
    /// can be made again (`$XDG_CACHE_HOME`, `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`). The folder is made when
    /// something is put there; a user without a home has no cache. A folder that other users may write to, or exchange, is not
    /// used.
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

    /// A cache of at most `limit` bytes in a folder of one's choice.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// let cache = Cache::at(std::env::temp_dir().join("kernels of mine"), 16 << 20);
    /// assert!(cache.list().is_empty());
    /// ```
    pub fn at(folder: impl Into<PathBuf>, limit: u64) -> Cache {
        Cache { folder: Some(folder.into()), limit, newest: i32::MAX }
    }

    /// No cache: nothing is found, and nothing is kept.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// assert_eq!(Cache::off().folder(), None);
    /// ```
    pub fn off() -> Cache {
        Cache { folder: None, limit: 0, newest: i32::MAX }
    }

    /// The same cache for a driver that is made for a version of CUDA: where there is no compiler, binaries of newer ones,
    /// which the driver does not load, are passed over.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// let cache = Cache::open().for_driver((13, 0));
    /// ```
    #[must_use]
    pub fn for_driver(self, cuda: (i32, i32)) -> Cache {
        Cache { newest: cuda.0, ..self }
    }

    /// Where it is, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// From the cache, or compiled now and kept for the next time. NVRTC may be missing: then whatever version compiled
    /// the request before serves, and its absence is an error only if there is none.
    ///
    /// ```no_run
    /// use tilewright_runtime::{cache::{Cache, Request}, nvrtc::Nvrtc};
    ///
    /// let source = r#"extern "C" __global__ void f(int* p) { *p = 1; }"#;
    /// let request = Request { source, name: "f", arch: "sm_90a", options: &[] };
    /// let found = Cache::open().compile(Nvrtc::find(&[]).as_ref(), &request)?;
    /// println!("{} bytes, {} registers", found.compiled.cubin.len(), found.compiled.usage[0].registers);
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
            // What would serve may lie there.
            (nvrtc::Error::Absent(absent), Err(note)) => nvrtc::Error::Absent(absent.and(note.into_tried())),
            (error, _) => error.clone(),
        })?;
        let compiled = nvrtc.compile(request.source, request.name, request.arch, request.options)?;
        let note = self.put(request, nvrtc.version(), &compiled).err();
        Ok(Cached { compiled, hit: false, note })
    }

    /// What this version of NVRTC made of a request; without a version, what the newest did that the driver knows. Nothing
    /// unless the file is whole, to the bit, and nobody else can have put it there.
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

    /// Keeps what this version of NVRTC made of a request. Entries that were not used for longest make room.
    ///
    /// ```
    /// # use tilewright_runtime::{cache::{Cache, Request}, nvrtc::Compiled};
    /// # let folder = std::env::temp_dir().join(format!("tilewright-doc-{}", std::process::id()));
    /// # let compiled = Compiled { cubin: vec![1, 2], log: String::new(), usage: vec![], notes: vec![], time: Default::default() };
    /// let cache = Cache::at(&folder, 1 << 20);
    /// let request = Request { source: "…", name: "f", arch: "sm_90a", options: &[] };
    /// cache.put(&request, (13, 0), &compiled)?;
    /// assert_eq!(cache.get(&request, Some((13, 0))).map(|found| found.cubin), Some(vec![1, 2]));
    /// assert!(cache.get(&request, Some((13, 1))).is_none());
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), tilewright_runtime::cache::Note>(())
    /// ```
    pub fn put(&self, request: &Request<'_>, nvrtc: (i32, i32), compiled: &Compiled) -> Result<(), Note> {
        let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        self.put_through(request, nvrtc, compiled, create)
    }

    /// `create` opens the file that is written first: a test gives one that fails.
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

    /// Is it there, and can nobody else have put there what is in it?
    fn trusted(&self) -> Result<bool, Note> {
        let Some(folder) = &self.folder else { return Ok(false) };
        trust::folder(folder).map_err(|why| Note::distrusted(folder, why))
    }

    /// Removes what was not used for longest, never `newest`, until the rest fits. Another process may do the same at
    /// the same time: what is gone is gone.
    fn make_room(&self, folder: &Path, newest: &Path) {
        let mut all: Vec<Found> = files(folder).filter(Found::is_ours).collect();
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

    /// What it holds, last used first; nothing where others could have put it there.
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
                let Found { path, bytes, used, .. } = file;
                Some(Entry { name, arch, nvrtc, bytes, used, path })
            })
            .collect();
        all.sort_unstable_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
        all
    }

    /// Removes everything that it holds, and nothing else that lies in its folder; how many kernels there were.
    ///
    /// ```
    /// # use tilewright_runtime::cache::Cache;
    /// assert_eq!(Cache::off().clear()?, 0);
    /// # Ok::<(), tilewright_runtime::cache::Note>(())
    /// ```
    pub fn clear(&self) -> Result<usize, Note> {
        let Some(folder) = &self.folder else { return Ok(0) };
        let mut removed = 0;
        for file in files(folder).filter(Found::is_ours) {
            match fs::remove_file(&file.path) {
                Ok(()) => removed += usize::from(!file.is_temporary()),
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(Note::failed("removing", &file.path, why)),
            }
        }
        Ok(removed)
    }

    /// Can it be written to, by this user alone? A file is made and removed.
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

/// A file of a cache's folder.
struct Found {
    name: String,
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Found {
    fn is_temporary(&self) -> bool {
        self.name.ends_with(TEMPORARY)
    }

    /// Folders are shared with who knows whom: what has not the name of an entry is not touched.
    fn is_ours(&self) -> bool {
        self.is_temporary() && self.name.starts_with(PREFIX) || entry::parse_name(&self.name).is_some()
    }
}

/// The plain files of a folder; none if it cannot be read.
fn files(folder: &Path) -> impl Iterator<Item = Found> {
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|file| {
        let about = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let name = file.file_name().into_string().ok()?;
        Some(Found { name, path: file.path(), bytes: about.len(), used })
    })
}

const PREFIX: &str = "tilewright-";
const TEMPORARY: &str = ".tmp";

/// A name that no other file has: of this process, this moment, this call.
fn temporary_name(key: &str) -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{PREFIX}{:.16}-{}-{call}-{:x}{TEMPORARY}", key, process::id(), now.as_nanos())
}

/// A plain file that nobody else has written, and its length.
fn open(path: &Path) -> Option<(File, u64)> {
    // To open what is none may wait for ever.
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let file = File::open(path).ok()?;
    let about = file.metadata().ok()?;
    trust::file(path, &about).ok()?;
    Some((file, about.len()))
}

/// What a file holds, if it is whole; it then counts as used now. If it is not, it is of no use to anybody.
fn read(path: &Path, key: &str, version: (i32, i32), limit: u64) -> Option<Compiled> {
    let (file, len) = open(path)?;
    let mut bytes = Vec::new();
    if len <= limit {
        file.take(limit).read_to_end(&mut bytes).ok()?;
    }
    let compiled = entry::decode(&bytes, key, version);
    match &compiled {
        // In a folder that is only readable the order of use is not known.
        Some(_) => {
            drop(File::options().append(true).open(path).and_then(|f| f.set_modified(SystemTime::now())))
        }
        None => drop(fs::remove_file(path)),
    }
    compiled
}

#[cfg(test)]
mod tests;
