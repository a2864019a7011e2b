//! Finds NVIDIA libraries that only benchmarks need, at run time.
#![allow(unsafe_code)]

use std::env;
use std::fmt;
use std::path::PathBuf;

/// A missing library.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Absent {
    what: &'static str,
    names: &'static [&'static str],
    variable: &'static str,
    why: Vec<String>,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} was not found.", self.what)?;
        for why in &self.why {
            writeln!(f, "  {why}")?;
        }
        write!(f, "Set {} to the folder that holds {}", self.variable, self.names[0])
    }
}

/// Loads the first library found: in the folder that the variable names, and then only there; otherwise on
/// the system's path, then in the usual folders.
pub(super) fn open(
    what: &'static str,
    names: &'static [&'static str],
    variable: &'static str,
) -> Result<libloading::Library, Absent> {
    let mut why = Vec::new();
    for file in searched(names, env::var_os(variable).map(PathBuf::from)) {
        // SAFETY: the caller names a library of NVIDIA's; loading one runs no code that has preconditions.
        match unsafe { libloading::Library::new(&file) } {
            Ok(library) => return Ok(library),
            Err(error) => why.push(format!("{}: {error}", file.display())),
        }
    }
    Err(Absent { what, names, variable, why })
}

fn searched(names: &[&str], named: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(folder) = named.filter(|folder| !folder.as_os_str().is_empty()) {
        return names.iter().map(|name| folder.join(name)).collect();
    }
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let folders = toolkits.chain(["/usr/local/cuda".into(), "/opt/cuda".into()]);
    let system = names.iter().map(PathBuf::from);
    system
        .chain(folders.flat_map(|root| names.iter().map(move |name| root.join("lib64").join(name))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_says_where_it_was_looked_for_and_what_to_set() {
        let message =
            open("A library", &["libtilewright-absent.so.1"], "TILEWRIGHT_ABSENT").unwrap_err().to_string();
        for part in [
            "A library was not found.",
            "/usr/local/cuda/lib64/libtilewright-absent.so.1",
            "Set TILEWRIGHT_ABSENT to",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_named_folder_is_the_only_one_searched() {
        assert_eq!(searched(&["a.so"], Some("/somewhere".into())), [PathBuf::from("/somewhere/a.so")]);
    }
}
