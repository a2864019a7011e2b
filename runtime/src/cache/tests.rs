//! Tests of caches that are damaged, contended, too small or forbidden.

use std::process::{Child, Command, Stdio};
use std::thread;

use super::*;

#[cfg(unix)]
mod users;

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("tilewright-cache-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
    }

    fn cache(&self) -> Cache {
        Cache::at(&self.0, 1 << 20)
    }

    fn names(&self) -> Vec<String> {
        files(&self.0).map(|file| file.name).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const VERSION: (i32, i32) = (13, 0);
const LOG: &str = "ptxas info    : Compiling entry function 'f' for 'sm_90a'\n\
                   ptxas info    : Used 30 registers, used 1 barriers\n";

fn request(source: &str) -> Request<'_> {
    Request { source, name: "f", arch: "sm_90a", options: &[] }
}

fn compiled(bytes: usize) -> Compiled {
    let cubin = (0..bytes).map(|n| (n * 7 + n / 251) as u8).collect();
    Compiled::new(cubin, LOG.into(), Duration::ZERO)
}

/// The cache returns the right binary, or none.
fn sound(cached: &Option<Compiled>, right: &Compiled) -> bool {
    cached.as_ref().is_none_or(|cached| {
        (&cached.cubin, &cached.log, &cached.usage) == (&right.cubin, &right.log, &right.usage)
    })
}

#[test]
fn what_was_put_is_got() {
    let folder = Folder::new("put");
    let cache = folder.cache();
    let right = compiled(1000);
    assert!(cache.get(&request("a"), Some(VERSION)).is_none());
    cache.put(&request("a"), VERSION, &right).unwrap();
    let cached = cache.get(&request("a"), Some(VERSION));
    assert!(cached.is_some() && sound(&cached, &right));
    assert_eq!(cached.unwrap().usage_of("f").unwrap().registers, 30);

    let all = cache.list();
    let [entry] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&*entry.name, &*entry.arch, entry.nvrtc), ("f", "sm_90a", VERSION));
    assert_eq!(entry.bytes, fs::metadata(&entry.path).unwrap().len());
    assert_eq!(folder.names().len(), 1, "nothing temporary is left");
}

#[test]
fn requests_that_differ_share_no_entry() {
    let one = Request { source: "ab", name: "c", arch: "sm_80", options: &["-x", "-y"] };
    let others = [
        Request { source: "a", name: "bc", ..one },
        Request { source: "abc", name: "", ..one },
        Request { source: "ab ", ..one },
        Request { name: "C", ..one },
        Request { arch: "sm_80a", ..one },
        Request { options: &["-x"], ..one },
        Request { options: &["-y", "-x"], ..one },
        Request { options: &["-x-y"], ..one },
        Request { options: &["-x", "-y", ""], ..one },
    ];
    let mut keys: Vec<String> = others.iter().chain([&one]).map(entry::key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), others.len() + 1);
}

#[test]
fn versions_are_apart_and_without_one_the_newest_serves() {
    let folder = Folder::new("versions");
    let cache = folder.cache();
    for (version, bytes) in [((12, 9), 10), ((13, 0), 20), ((9, 10), 30)] {
        cache.put(&request("a"), version, &compiled(bytes)).unwrap();
    }
    let len = |version| cache.get(&request("a"), version).map(|cached| cached.cubin.len());
    assert_eq!(len(Some((12, 9))), Some(10));
    assert_eq!(len(Some((13, 1))), None);
    assert_eq!(len(None), Some(20));
    // A damaged entry is skipped.
    let newest = cache.list().into_iter().find(|entry| entry.nvrtc == (13, 0)).unwrap();
    fs::write(newest.path, "x").unwrap();
    assert_eq!(len(None), Some(10));
}

#[test]
fn without_nvrtc_what_is_there_serves() {
    let folder = Folder::new("absent");
    let cache = folder.cache();
    let absent = nvrtc::Error::Failed { doing: "looking", message: "there is none".into() };
    let failure = cache.compile(Err(&absent), &request("a")).unwrap_err().to_string();
    assert_eq!(failure, "NVRTC failed while looking: there is none");
    cache.put(&request("a"), VERSION, &compiled(100)).unwrap();
    let cached = cache.compile(Err(&absent), &request("a")).unwrap();
    assert!(cached.hit && cached.note.is_none() && cached.compiled.cubin.len() == 100);
}

#[test]
fn no_byte_can_be_altered() {
    let folder = Folder::new("altered");
    let cache = folder.cache();
    let right = compiled(300);
    cache.put(&request("a"), VERSION, &right).unwrap();
    let path = cache.list().remove(0).path;
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        // One bit, a letter's case, all bits: text is compared to the letter.
        for mask in [0x01, 0x20, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            fs::write(&path, bytes).unwrap();
            assert!(cache.get(&request("a"), Some(VERSION)).is_none(), "byte {at} with {mask:#x}");
            assert!(!path.exists(), "what is damaged is removed");
        }
    }
    fs::write(&path, &whole).unwrap();
    assert!(cache.get(&request("a"), Some(VERSION)).is_some());
}

#[test]
fn entries_cannot_be_cut_off_or_extended() {
    let folder = Folder::new("cut");
    let cache = folder.cache();
    cache.put(&request("a"), VERSION, &compiled(300)).unwrap();
    let path = cache.list().remove(0).path;
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        let _ = cache.list();
        assert!(cache.get(&request("a"), Some(VERSION)).is_none(), "{len} bytes");
    }
    for more in [&b"\n"[..], b"\0", &whole] {
        fs::write(&path, [&whole, more].concat()).unwrap();
        assert!(cache.get(&request("a"), Some(VERSION)).is_none());
    }
}

#[test]
fn a_file_under_anothers_name_is_not_taken() {
    let folder = Folder::new("renamed");
    let cache = folder.cache();
    cache.put(&request("a"), VERSION, &compiled(10)).unwrap();
    let path = cache.list().remove(0).path;
    for (source, version) in [("b", VERSION), ("a", (13, 1))] {
        fs::copy(&path, folder.0.join(entry::file_name(&entry::key(&request(source)), version))).unwrap();
        assert_eq!(cache.list().len(), 1, "it is not shown either");
        assert!(cache.get(&request(source), Some(version)).is_none());
    }
    assert!(cache.get(&request("a"), Some(VERSION)).is_some());
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let folder = Folder::new("room");
    folder.cache().put(&request("measure"), VERSION, &compiled(1000)).unwrap();
    let one = folder.cache().list().remove(0).bytes;
    folder.cache().clear().unwrap();

    let cache = Cache::at(&folder.0, 3 * one);
    let put = |source: &str| {
        cache.put(&request(source), VERSION, &compiled(1000)).unwrap();
        thread::sleep(Duration::from_millis(10));
    };
    let has = |source: &str| {
        let key = entry::key(&request(source));
        cache.folder().unwrap().join(entry::file_name(&key, VERSION)).exists()
    };
    ["a", "b", "c"].into_iter().for_each(put);
    assert!(has("a") && has("b") && has("c"));
    // Used again, so that `b` is the least recently used.
    assert!(cache.get(&request("a"), Some(VERSION)).is_some());
    put("d");
    assert!(has("a") && !has("b") && has("c") && has("d"));
    let names: Vec<_> = cache.list().into_iter().map(|entry| entry.bytes).collect();
    assert_eq!(names, [one; 3]);

    let failure = cache.put(&request("large"), VERSION, &compiled(4000)).unwrap_err().to_string();
    assert!(failure.contains("bytes, and the cache holds"), "{failure}");
    assert!(has("a"), "nothing makes room for what never fits");
}

#[test]
fn only_its_own_files_are_removed() {
    let folder = Folder::new("own");
    let cache = folder.cache();
    cache.put(&request("a"), VERSION, &compiled(10)).unwrap();
    let key = entry::key(&request("a"));
    let foreign = [
        "thesis.tex".to_string(),
        "x.kernel".to_string(),
        "notes.tmp".to_string(),
        format!("{}-13.0.kernel", "z".repeat(64)),
        format!("{key}-013.0.kernel"),
        format!("{key}-13.0.kernel.bak"),
    ];
    for name in &foreign {
        fs::write(folder.0.join(name), "mine").unwrap();
    }
    fs::create_dir(folder.0.join(format!("{key}-14.0.kernel"))).unwrap();
    fs::write(folder.0.join(temporary_name(&key)), "half").unwrap();
    assert_eq!(cache.clear().unwrap(), 1);
    let mut left = folder.names();
    left.sort();
    let mut expected = foreign.to_vec();
    expected.sort();
    assert_eq!(left, expected);
    assert_eq!(cache.clear().unwrap(), 0);
}

#[test]
fn what_a_killed_process_left_goes_in_time() {
    let folder = Folder::new("stale");
    let cache = folder.cache();
    cache.put(&request("a"), VERSION, &compiled(10)).unwrap();
    let (old, fresh) = (folder.0.join(temporary_name("old")), folder.0.join(temporary_name("fresh")));
    for (path, age) in [(&old, STALE * 2), (&fresh, Duration::ZERO)] {
        fs::write(path, "half").unwrap();
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
    cache.put(&request("b"), VERSION, &compiled(10)).unwrap();
    assert!(!old.exists() && fresh.exists());
}

/// A writer that fails after some bytes, as a full file system does.
struct Full {
    file: File,
    left: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let n = bytes.len().min(self.left);
        self.left -= n;
        self.file.write(&bytes[..n])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[test]
fn a_full_disk_is_a_note() {
    let folder = Folder::new("full");
    let cache = folder.cache();
    let right = compiled(300);
    for left in 0..600 {
        let create = |path: &Path| Ok(Full { file: File::create_new(path)?, left });
        let note = cache.put_through(&request("a"), VERSION, &right, create).unwrap_err();
        let failure = note.to_string();
        assert!(
            failure.starts_with("compiled kernels are not kept: writing ") && failure.contains("failed: "),
            "{failure}"
        );
        assert!(
            failure.ends_with("help: set TILEWRIGHT_CACHE_DIR to a folder that can be written to"),
            "{failure}"
        );
        assert_eq!(folder.names(), [""; 0], "nothing half written is left");
    }
    // Older entries stay.
    cache.put(&request("a"), VERSION, &right).unwrap();
    let create = |path: &Path| Ok(Full { file: File::create_new(path)?, left: 100 });
    cache.put_through(&request("a"), VERSION, &right, create).unwrap_err();
    assert!(cache.get(&request("a"), Some(VERSION)).is_some());
}

#[test]
fn a_folder_that_cannot_be_is_a_note() {
    let folder = Folder::new("forbidden");
    fs::create_dir_all(&folder.0).unwrap();
    let file = folder.0.join("file");
    fs::write(&file, "not a folder").unwrap();
    for path in [file.clone(), file.join("below")] {
        let cache = Cache::at(&path, 1 << 20);
        let failure = cache.put(&request("a"), VERSION, &compiled(10)).unwrap_err().to_string();
        assert!(failure.contains("making the folder ") && failure.contains("failed: "), "{failure}");
        assert!(cache.get(&request("a"), Some(VERSION)).is_none());
        assert!(cache.check().is_err() && cache.list().is_empty() && cache.clear() == Ok(0));
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "not a folder");
    assert!(Cache::off().put(&request("a"), VERSION, &compiled(10)).is_ok());
}

#[test]
#[cfg(unix)]
fn a_folder_that_is_only_readable_serves() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("readable");
    let cache = folder.cache();
    cache.put(&request("a"), VERSION, &compiled(10)).unwrap();
    let path = cache.list().remove(0).path;
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
    mode(&path, 0o400);
    mode(&folder.0, 0o500);
    // Root may write all the same.
    let may_write = cache.check().is_ok();
    assert_eq!(cache.put(&request("b"), VERSION, &compiled(10)).is_ok(), may_write);
    assert!(cache.get(&request("a"), Some(VERSION)).is_some());
    mode(&folder.0, 0o700);
}

/// A process of this test's program that does one `part`.
fn child(part: &str, folder: &Folder, number: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cache::tests::part_of_another_process", "--ignored", "--nocapture"]);
    command.env("PART", part).env("FOLDER", &folder.0).env("NUMBER", number.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

#[test]
#[ignore = "the other tests run it in processes of its own"]
fn part_of_another_process() {
    let Ok(part) = std::env::var("PART") else { return };
    let folder = PathBuf::from(std::env::var_os("FOLDER").unwrap());
    let number: usize = std::env::var("NUMBER").unwrap().parse().unwrap();
    match &*part {
        // All want one kernel at once, and others in between.
        "race" => {
            let cache = Cache::at(folder, 1 << 30);
            for iteration in 0..4 {
                for source in ["the one".to_string(), format!("{}", (number + iteration) % 7)] {
                    let right = compiled(30_000 + source.len());
                    let cached = cache.get(&request(&source), Some(VERSION));
                    assert!(sound(&cached, &right), "torn");
                    if cached.is_none() {
                        println!("compiled {source}");
                        cache.put(&request(&source), VERSION, &right).unwrap();
                    }
                    let again = cache.get(&request(&source), Some(VERSION));
                    assert!(again.is_some() && sound(&again, &right), "lost");
                }
            }
        }
        // The folder has room for three kernels, and all processes evict at once.
        "crowd" => {
            let cache = Cache::at(folder, 100_000);
            println!("is here");
            for iteration in 0..10 {
                let source = format!("{}", (number + iteration) % 10);
                let right = compiled(30_000);
                assert!(sound(&cache.get(&request(&source), Some(VERSION)), &right), "torn");
                cache.put(&request(&source), VERSION, &right).unwrap();
            }
        }
        "write until killed" => {
            println!("begins");
            for iteration in 0.. {
                let source = format!("{}", iteration % 3);
                Cache::at(&folder, 1 << 30).put(&request(&source), VERSION, &compiled(500_000)).unwrap();
            }
        }
        // The parent limits files to a few kilobytes.
        "no space" => {
            let cache = Cache::at(folder, 1 << 30);
            let printed = cache.put(&request("a"), VERSION, &compiled(500_000)).unwrap_err().to_string();
            assert!(cache.get(&request("a"), Some(VERSION)).is_none());
            println!("{printed}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn two_hundred_processes_race_for_one_kernel() {
    let folder = Folder::new("race");
    let children: Vec<Child> = (0..200).map(|n| child("race", &folder, n).spawn().unwrap()).collect();
    let printed: Vec<String> = children.into_iter().map(finish).collect();
    let compiled_by = printed.iter().filter(|printed| printed.contains("compiled the one")).count();
    assert!((1..=200).contains(&compiled_by));
    let cache = Cache::at(&folder.0, 1 << 30);
    assert_eq!((cache.list().len(), folder.names().len()), (8, 8), "eight kernels, nothing temporary");
    assert!(cache.get(&request("the one"), Some(VERSION)).is_some());
}

#[test]
fn many_processes_make_room_at_once() {
    let folder = Folder::new("crowd");
    let children: Vec<Child> = (0..40).map(|n| child("crowd", &folder, n).spawn().unwrap()).collect();
    for child in children {
        assert!(finish(child).contains("is here"));
    }
    let cache = Cache::at(&folder.0, 100_000);
    cache.put(&request("last"), VERSION, &compiled(30_000)).unwrap();
    let bytes: u64 = cache.list().iter().map(|entry| entry.bytes).sum();
    assert!((1..=100_000).contains(&bytes), "{bytes}");
    for entry in cache.list() {
        let (key, version) = entry::parse_name(entry.path.file_name().unwrap().to_str().unwrap()).unwrap();
        assert!(entry::decode(&fs::read(&entry.path).unwrap(), &key, version).is_some());
    }
}

#[test]
fn a_process_killed_while_it_writes_leaves_no_torn_entry() {
    let folder = Folder::new("killed");
    let mut seen = 0;
    // Longer pauses are for a machine that is busy.
    let pauses = (0..8).map(|n| 40 + 7 * n).chain([200, 400, 800, 1600, 3200]);
    for (at, pause) in pauses.enumerate() {
        if at >= 8 && seen > 0 {
            break;
        }
        let mut child = child("write until killed", &folder, 0).spawn().unwrap();
        thread::sleep(Duration::from_millis(pause));
        child.kill().unwrap();
        child.wait().unwrap();
        let cache = Cache::at(&folder.0, 1 << 30);
        for source in ["0", "1", "2"] {
            let path = folder.0.join(entry::file_name(&entry::key(&request(source)), VERSION));
            let cached = cache.get(&request(source), Some(VERSION));
            assert!(sound(&cached, &compiled(500_000)) && cached.is_some() == path.exists(), "torn");
            seen += usize::from(cached.is_some());
        }
    }
    assert!(seen > 0, "the processes wrote something");
}

#[test]
#[cfg(unix)]
fn a_write_that_the_system_refuses_half_way_is_a_note() {
    let folder = Folder::new("space");
    let inner = child("no space", &folder, 0);
    let mut outer = Command::new("sh");
    // With the signal ignored, a write past the limit is an error as on a full disk.
    outer.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"]);
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        outer.env(name, value.unwrap_or_default());
    }
    let printed = finish(outer.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert!(printed.contains("compiled kernels are not kept: writing "), "{printed}");
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn without_nvrtc_no_entry_newer_than_the_driver_serves() {
    let folder = Folder::new("driver");
    let cache = folder.cache();
    for (version, bytes) in [((12, 9), 10), ((13, 1), 20), ((99, 9), 30)] {
        cache.put(&request("a"), version, &compiled(bytes)).unwrap();
    }
    let len = |cuda| {
        let cache = folder.cache().for_driver(cuda);
        cache.get(&request("a"), None).map(|cached| cached.cubin.len())
    };
    assert_eq!(len((13, 0)), Some(20));
    assert_eq!(len((12, 8)), Some(10));
    assert_eq!(len((11, 8)), None);
    assert_eq!(len((99, 0)), Some(30));
}
