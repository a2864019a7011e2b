//! The layers of the generator and of `program` depend on one another in one direction, in the order that ARCHITECTURE.md prints; the
//! modules of a layer have no circles. A layer is a crate, or a folder of `tile` and of `program`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A layer, and a module of it; none for items of the layer's `mod.rs`.
type Module = (String, Option<String>);

/// Paths that a source names behind `crate::`, apart from its comments and unit tests: `layer::module`, as far as it goes.
fn named(source: &str) -> Vec<Vec<String>> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String = code.lines().filter_map(|line| line.split("//").next()).collect::<Vec<_>>().join("\n");
    let mut paths = Vec::new();
    // Macros for other crates name `$crate`, whose root re-exports what they need.
    for path in code.replace("$crate::", "").split("crate::").skip(1) {
        expand(path, &[], &mut paths);
    }
    paths
}

/// `layer::{one, two::{…}}`, with lists expanded.
fn expand(path: &str, before: &[String], to: &mut Vec<Vec<String>>) {
    let path = path.trim_start();
    if let Some(list) = path.strip_prefix('{') {
        let mut depth = 0;
        let mut begin = 0;
        for (at, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                ',' if depth == 0 => {
                    expand(&list[begin..at], before, to);
                    begin = at + 1;
                }
                '}' if depth == 0 => return expand(&list[begin..at], before, to),
                '}' => depth -= 1,
                _ => {}
            }
        }
        return;
    }
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    if name.is_empty() {
        return;
    }
    let all: Vec<String> = before.iter().cloned().chain([name.to_owned()]).collect();
    match rest.strip_prefix("::") {
        Some(rest) if all.len() < 2 => expand(rest, &all, to),
        _ => to.push(all),
    }
}

fn sources(folder: &Path, to: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, to),
            false => to.push(path),
        }
    }
}

/// The name of a file or folder without its ending.
fn stem(of: &Path) -> String {
    of.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The crates of one layer, and the crates whose folders are layers.
const LAYERS: [&str; 3] = ["codegen", "front", "passes"];
const FOLDERS: [&str; 2] = ["tile", "program"];

/// Each module of the crates, with the others that it names.
fn graph() -> BTreeMap<Module, BTreeSet<Module>> {
    let folder = |name: &str| if name == "codegen" { String::new() } else { name.to_owned() };
    let root = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder(name)).join("src");
    let mut files = Vec::new();
    LAYERS.iter().chain(&FOLDERS).for_each(|name| sources(&root(name), &mut files));
    let layer_of = |file: &Path| LAYERS.into_iter().find(|name| file.starts_with(root(name)));
    let parts = |file: &PathBuf| -> Vec<String> {
        let all = LAYERS.iter().chain(&FOLDERS);
        let inside = all.clone().find_map(|name| file.strip_prefix(root(name)).ok()).unwrap();
        let own = inside.iter().map(|part| stem(Path::new(part)));
        layer_of(file).map(str::to_owned).into_iter().chain(own).collect()
    };
    let module = |parts: &[String]| {
        (parts[0].clone(), parts.get(1).filter(|module| !["mod", "lib"].contains(&module.as_str())).cloned())
    };
    let known: BTreeSet<Module> =
        files.iter().map(&parts).filter(|of| of.len() > 1).map(|of| module(&of)).collect();
    let mut graph = BTreeMap::<Module, BTreeSet<Module>>::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")) {
        let parts = parts(file);
        if parts.len() < 2 || parts.last().is_some_and(|last| last == "tests") {
            continue;
        }
        let own = module(&parts);
        for mut path in named(&fs::read_to_string(file).unwrap()) {
            // A module of the same crate.
            if let Some(layer) = layer_of(file).filter(|_| !known.iter().any(|(of, _)| *of == path[0])) {
                path.insert(0, layer.to_owned());
            }
            let of = (path[0].clone(), path.get(1).cloned());
            let of = if known.contains(&of) { of } else { (path[0].clone(), None) };
            assert!(
                known.contains(&of),
                "{} names `crate::{}`: name its layer",
                file.display(),
                path.join("::")
            );
            if of != own {
                graph.entry(own.clone()).or_default().insert(of);
            }
        }
        graph.entry(own).or_default();
    }
    graph
}

/// The layers in the order in which ARCHITECTURE.md prints them, the uppermost first.
fn printed() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md")).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with("| layer |")).skip(2);
    let name = |line: &str| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned());
    rows.map_while(name).collect()
}

#[test]
fn layers_import_downward() {
    let printed = printed();
    let layers: BTreeSet<String> = graph().into_keys().map(|(layer, _)| layer).collect();
    assert_eq!(layers, printed.iter().cloned().collect(), "the table of ARCHITECTURE.md has other layers");
    let height = |layer: &String| printed.iter().position(|of| of == layer).unwrap();
    for ((layer, module), names) in graph() {
        for (of, what) in names {
            let upward = height(&of) < height(&layer);
            assert!(!upward, "`{layer}::{module:?}` uses `{of}::{what:?}` of a layer above it");
        }
    }
}

#[test]
fn modules_of_a_layer_have_no_circles() {
    let mut graph = graph();
    // Modules whose dependencies are all removed are removed, until none is left.
    while !graph.is_empty() {
        let left: BTreeSet<Module> = graph.keys().cloned().collect();
        graph.retain(|_, named| named.iter().any(|of| left.contains(of)));
        assert!(graph.len() < left.len(), "a circle of modules is among these: {graph:#?}");
    }
}
