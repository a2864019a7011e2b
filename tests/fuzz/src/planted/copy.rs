//! A copy of the workspace with the crates that random kernels need.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Copies the crates, with these files changed.
pub(super) fn crates(root: &Path, folder: &Path, changed: &[(&str, String)]) -> Result<(), String> {
    let members = members(root)?;
    let changed: Vec<(PathBuf, &str)> =
        changed.iter().map(|(file, text)| (root.join(file), text.as_str())).collect();
    for member in &members {
        copy(&root.join(member), &folder.join(member), &changed)?;
    }
    write(&folder.join("Cargo.toml"), manifest(root, &members)?.as_bytes())?;
    let lock = root.join("Cargo.lock");
    let bytes = fs::read(&lock).map_err(|why| format!("{}: {why}", lock.display()))?;
    write(&folder.join("Cargo.lock"), &bytes)
}

/// The folders of this crate and of the crates that it and its dependencies depend on.
fn members(root: &Path) -> Result<BTreeSet<String>, String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(["metadata", "--no-deps", "--format-version=1"]).current_dir(root);
    let output = command.output().map_err(|why| format!("cannot start cargo: {why}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|why| format!("cargo metadata: {why}\n{}", String::from_utf8_lossy(&output.stderr)))?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let folder = |path: &Value| Some(Path::new(path.as_str()?).to_owned());
    let packages: Vec<(PathBuf, Vec<PathBuf>)> = list(&metadata["packages"])
        .iter()
        .filter_map(|package| {
            let needed = list(&package["dependencies"]).iter().filter_map(|of| folder(&of["path"])).collect();
            Some((folder(&package["manifest_path"])?.parent()?.to_owned(), needed))
        })
        .collect();
    let (mut members, mut next) = (BTreeSet::new(), vec![PathBuf::from(env!("CARGO_MANIFEST_DIR"))]);
    while let Some(member) = next.pop() {
        let name = member.strip_prefix(root).map_err(|why| format!("{}: {why}", member.display()))?;
        if members.insert(name.to_string_lossy().into_owned()) {
            next.extend(
                packages
                    .iter()
                    .filter(|(folder, _)| *folder == member)
                    .flat_map(|(_, needed)| needed.clone()),
            );
        }
    }
    Ok(members)
}

/// Optimisation of the crates in which a run spends its time; a build of the others has to be quick.
const PROFILE: &str = r#"
[profile.planted]
inherits = "dev"
opt-level = 1
debug = false
incremental = true

[profile.planted.package.tilewright-layout]
opt-level = 2

[profile.planted.package.tilewright-sim]
opt-level = 3

[profile.planted.package.tilewright-fuzz]
opt-level = 2
"#;

/// The workspace of the copy: our shared tables, and a profile.
fn manifest(root: &Path, members: &BTreeSet<String>) -> Result<String, String> {
    let file = root.join("Cargo.toml");
    let text = fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
    let begin = text.find("[workspace.package]").ok_or("no [workspace.package] in Cargo.toml")?;
    let end = text.find("\n[package]").ok_or("no [package] in Cargo.toml")?;
    let members: Vec<&String> = members.iter().collect();
    let tables = &text[begin..end];
    Ok(format!("[workspace]\nmembers = {members:?}\nresolver = \"3\"\n\n{tables}\n{PROFILE}"))
}

/// Copies a folder. Files with the same bytes are kept, so that they are not rebuilt, and stale files are removed.
fn copy(from: &Path, to: &Path, changed: &[(PathBuf, &str)]) -> Result<(), String> {
    let error = |path: &Path, why: std::io::Error| format!("{}: {why}", path.display());
    fs::create_dir_all(to).map_err(|why| error(to, why))?;
    for entry in fs::read_dir(to).map_err(|why| error(to, why))?.flatten() {
        let path = entry.path();
        if !from.join(entry.file_name()).exists() {
            let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone.map_err(|why| error(&path, why))?;
        }
    }
    for entry in fs::read_dir(from).map_err(|why| error(from, why))? {
        let entry = entry.map_err(|why| error(from, why))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            if entry.file_name() != "target" {
                copy(&path, &target, changed)?;
            }
            continue;
        }
        match changed.iter().find(|(file, _)| *file == path) {
            Some((_, text)) => write(&target, text.as_bytes())?,
            None => write(&target, &fs::read(&path).map_err(|why| error(&path, why))?)?,
        }
    }
    Ok(())
}

/// Writes a file that has other bytes.
fn write(file: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(file).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::write(file, bytes).map_err(|why| format!("{}: {why}", file.display()))
}
