//! Modules of the crate depend on one another in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that a source names as `crate::module`, apart from its comments and unit tests.
fn named(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code = code.lines().filter_map(|line| line.split("//").next());
    let paths = code.flat_map(|line| line.split("crate::").skip(1));
    // `module::…`, or `{one, two}`
    let list =
        |path: &str| path.strip_prefix('{').map(|list| list.split('}').next().unwrap_or_default().to_owned());
    let each = paths.flat_map(|path| match list(path) {
        Some(list) => list.split(',').map(|path| path.trim().to_owned()).collect(),
        None => vec![path.to_owned()],
    });
    let ident =
        |path: String| path.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().map(str::to_owned);
    each.filter_map(ident).collect()
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

/// Each module of the crate, with the others that it and its submodules name.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut graph) = (Vec::new(), BTreeMap::<String, BTreeSet<String>>::new());
    sources(&root, &mut files);
    for file in files {
        let inner = file.strip_prefix(&root).unwrap();
        if inner == Path::new("lib.rs") || inner.ends_with("tests.rs") {
            continue;
        }
        let module =
            Path::new(inner.iter().next().unwrap()).file_stem().unwrap().to_str().unwrap().to_owned();
        let mut named = named(&fs::read_to_string(&file).unwrap());
        named.remove(&module);
        graph.entry(module).or_default().append(&mut named);
    }
    graph
}

#[test]
fn modules_depend_in_one_direction() {
    let mut graph = graph();
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, named) in &graph {
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "`{module}` names {unknown:?} of the crate's root: name their modules");
    }
    // Modules whose dependencies are all removed are removed, until none is left.
    while !graph.is_empty() {
        let left: BTreeSet<String> = graph.keys().cloned().collect();
        graph.retain(|_, named| named.iter().any(|of| left.contains(of)));
        assert!(graph.len() < left.len(), "a circle of modules is among these: {graph:#?}");
    }
}
