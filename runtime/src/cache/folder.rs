//! Where a user's cache is, by the conventions of the platform.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names the folder.
pub(super) const VARIABLE: &str = "TILEWRIGHT_CACHE_DIR";
const OURS: &str = "tilewright";

/// The folder of this user, if there is one.
pub(super) fn usual() -> Option<PathBuf> {
    choose(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from), env::home_dir())
}

/// `variable` looks up the environment: a test passes another.
fn choose(variable: impl Fn(&str) -> Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    if let Some(folder) = variable(VARIABLE) {
        return Some(folder);
    }
    // By convention a relative path is ignored.
    let absolute = |folder: PathBuf| folder.is_absolute().then_some(folder);
    let home = home.and_then(absolute);
    let parent = if cfg!(windows) {
        variable("LOCALAPPDATA").and_then(absolute)
    } else if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library/Caches"))
    } else {
        variable("XDG_CACHE_HOME").and_then(absolute).or_else(|| home.map(|home| home.join(".cache")))
    };
    Some(parent?.join(OURS))
}

/// Creates the folder if it does not exist. Its files are loaded onto a device: no other user may write
/// there.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], home: Option<&str>, expected: Option<&str>) {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
        };
        assert_eq!(choose(variable, home.map(PathBuf::from)), expected.map(PathBuf::from));
    }

    #[test]
    fn the_variable_wins() {
        check(&[(VARIABLE, "/a/b"), ("XDG_CACHE_HOME", "/c")], Some("/home/u"), Some("/a/b"));
        // An explicit folder is taken as it is.
        check(&[(VARIABLE, "here")], Some("/home/u"), Some("here"));
    }

    #[test]
    #[cfg(all(unix, not(target_os = "macos")))]
    fn the_platform_decides_else() {
        check(&[("XDG_CACHE_HOME", "/c")], Some("/home/u"), Some("/c/tilewright"));
        check(&[], Some("/home/u"), Some("/home/u/.cache/tilewright"));
        check(&[("XDG_CACHE_HOME", "relative")], Some("/home/u"), Some("/home/u/.cache/tilewright"));
        check(&[], None, None);
        check(&[], Some(""), None);
    }
}
