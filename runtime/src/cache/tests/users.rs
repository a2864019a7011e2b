//! Folders that others own, may write to, or that are links elsewhere. Only root can create files of another
//! user.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use super::*;

const OTHER: u32 = 65534;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives it to another user, if this process may.
fn give(path: &Path) -> bool {
    chown(path, Some(OTHER), None).is_ok()
}

/// A folder in which a cache has one kernel.
fn kept(name: &str) -> (Folder, Cache, PathBuf) {
    let folder = Folder::new(name);
    let cache = Cache::at(folder.0.join("a/b/cache"), 1 << 20);
    cache.put(&request("a"), VERSION, &compiled(10)).unwrap();
    let path = cache.list().remove(0).path;
    (folder, cache, path)
}

fn serves(cache: &Cache) -> bool {
    let result = [Some(VERSION), None].map(|version| cache.get(&request("a"), version).is_some());
    assert_eq!(result[0], result[1], "with a compiler and without one");
    assert_eq!(result[0], !cache.list().is_empty());
    result[0]
}

/// The cache is not used, and every message names this reason.
#[track_caller]
fn refused(cache: &Cache, why: &str, help: &str) {
    assert!(!serves(cache), "{why}");
    let folder = cache.folder().unwrap().display();
    let expected = format!(
        "compiled kernels are neither kept in {folder} nor loaded from it: {why}\nhelp: {help}set \
         TILEWRIGHT_CACHE_DIR to a folder of your own"
    );
    let note = cache.put(&request("b"), VERSION, &compiled(10)).unwrap_err();
    assert_eq!(note.to_string(), expected);
    assert_eq!(cache.check(), Err(note));
    let absent = nvrtc::Error::Absent(nvrtc::Absent { tried: vec![] });
    let reported = cache.compile(Err(&absent), &request("a")).unwrap_err().to_string();
    let expected = format!("  {folder}: kernels that were compiled before are not loaded: {why}\n");
    assert!(reported.starts_with("NVRTC was not found.\n") && reported.contains(&expected), "{reported}");
}

#[test]
fn folders_that_others_may_write_to() {
    let (folder, cache, _) = kept("written");
    for name in ["a/b/cache", "a/b", "a"] {
        let path = folder.0.join(name);
        let before = fs::metadata(&path).unwrap().mode() & 0o7777;
        for open in [0o777, 0o770, 0o702, 0o1777, 0o720] {
            mode(&path, open);
            // In a sticky folder of root nobody can replace files of others, and everybody can create files.
            let is_root = fs::metadata(&path).unwrap().uid() == 0;
            if open == 0o1777 && is_root && name != "a/b/cache" {
                assert!(serves(&cache));
                continue;
            }
            let (path, why) = (path.display(), format!("other users may write to {}", path.display()));
            let why = format!("{why}, whose mode is {open:o}");
            refused(&cache, &why, &format!("`chmod go-w {path}`, or "));
        }
        mode(&path, before);
        assert!(serves(&cache));
    }
}

#[test]
fn folders_and_files_of_other_users() {
    let (folder, cache, path) = kept("owned");
    for name in ["a/b/cache", "a/b", "a"] {
        let entry = folder.0.join(name);
        if !give(&entry) {
            println!("skipped: only a superuser gives files away");
            return;
        }
        let why = format!("{} belongs to another user, number {OTHER}", entry.display());
        refused(&cache, &why, "");
        chown(&entry, Some(0), None).unwrap();
        assert!(serves(&cache));
    }
    assert!(give(&path));
    assert!(!serves(&cache), "a file of another user");
    // A binary that this user compiles replaces it.
    cache.put(&request("a"), VERSION, &compiled(10)).unwrap();
    assert!(serves(&cache));
}

#[test]
fn files_that_others_may_write_to() {
    let (_folder, cache, path) = kept("file");
    for (open, serve) in [(0o666, false), (0o620, false), (0o602, false), (0o644, true), (0o400, true)] {
        mode(&path, open);
        assert_eq!(serves(&cache), serve, "{open:o}");
    }
}

#[test]
fn links_lead_where_nobody_else_writes() {
    let (folder, cache, _) = kept("links");
    let at = |name: &str| Cache::at(folder.0.join(name), 1 << 20);
    let link = |target: &str, name: &str| symlink(target, folder.0.join(name)).unwrap();
    link("a/b", "relative");
    link("a/../relative/cache", "twice");
    symlink(folder.0.join("a"), folder.0.join("absolute")).unwrap();
    link("round", "round");
    for name in ["relative/cache", "twice", "absolute/b/cache", "a/b/../b/cache/."] {
        assert!(serves(&at(name)), "{name}");
    }
    let circle = at("round/cache");
    refused(&circle, &format!("{} is a link that leads nowhere", circle.folder().unwrap().display()), "");
    // Folders along the path are checked.
    let open = folder.0.join("a/b");
    mode(&open, 0o777);
    let why = format!("other users may write to {}, whose mode is 777", open.display());
    for name in ["relative/cache", "twice", "absolute/b/cache"] {
        refused(&at(name), &why, &format!("`chmod go-w {}`, or ", open.display()));
    }
    mode(&open, 0o755);
    // A link in a folder that others can write to can be replaced, wherever it leads.
    fs::create_dir(folder.0.join("open")).unwrap();
    symlink(cache.folder().unwrap(), folder.0.join("open/link")).unwrap();
    assert!(serves(&at("open/link")));
    mode(&folder.0.join("open"), 0o777);
    assert!(!serves(&at("open/link")));
    // So can a link that belongs to another user, in a sticky folder.
    mode(&folder.0.join("open"), 0o1777);
    let link = folder.0.join("open/link");
    if std::os::unix::fs::lchown(&link, Some(OTHER), None).is_ok() {
        refused(&at("open/link"), &format!("{} belongs to another user, number {OTHER}", link.display()), "");
    }
}

#[test]
fn an_entry_that_is_no_file_is_none() {
    let (folder, cache, path) = kept("kinds");
    let real = folder.0.join("real");
    fs::rename(&path, &real).unwrap();
    symlink(&real, &path).unwrap();
    assert!(!serves(&cache), "a link");
    fs::remove_file(&path).unwrap();
    if Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()) {
        assert!(!serves(&cache), "a pipe, which nobody writes to");
    }
}
