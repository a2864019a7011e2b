//! Parses cargo's messages and the output of `objdump`.

use std::path::PathBuf;

/// Names and files of the programs in cargo's messages, one JSON object a line. A test's name loses its
/// number.
pub(super) fn programs(messages: &str) -> Vec<(String, PathBuf)> {
    let artifacts = messages.lines().filter(|line| line.contains("\"reason\":\"compiler-artifact\""));
    artifacts
        .filter_map(|line| {
            let file = PathBuf::from(text(line, "\"executable\":\"")?);
            let (_, target) = line.split_once("\"target\":{")?;
            let name = text(target, "\"name\":\"")?;
            // The test is called `gpu`, too short a name in a folder of programs.
            let is_test = target.contains("\"kind\":[\"test\"]");
            Some((if is_test { format!("{name}-tests") } else { name }, file))
        })
        .collect()
}

/// The text after a mark, up to the next quotation mark.
fn text(line: &str, mark: &str) -> Option<String> {
    let (_, rest) = line.split_once(mark)?;
    let (text, _) = rest.split_once('"')?;
    Some(text.replace("\\\\", "\\"))
}

/// The newest `GLIBC_2.34` of a table of symbols.
pub(super) fn newest_glibc(table: &str) -> Option<String> {
    let versions = table.split("GLIBC_").skip(1).filter_map(|rest| {
        let version: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let parts: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
        Some((parts?, version))
    });
    versions.max().map(|newest| newest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_cargo() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"layout"},"executable":null}
{"reason":"compiler-artifact","package_id":"x","target":{"kind":["bin"],"crate_types":["bin"],"name":"tilewright"},"executable":"/t/release/tilewright","fresh":true}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"gpu"},"executable":"/t/release/deps/gpu-0123"}
{"reason":"build-finished","success":true}
"#;
        let expected = [("tilewright", "/t/release/tilewright"), ("gpu-tests", "/t/release/deps/gpu-0123")];
        assert_eq!(programs(messages), expected.map(|(name, file)| (name.to_string(), PathBuf::from(file))));
    }

    #[test]
    fn the_newest_library() {
        let table =
            "0 DF *UND* 0 (GLIBC_2.4) read\n0 DF *UND* 0 (GLIBC_2.34) pthread\n0 (GLIBC_2.2.5) write\n";
        assert_eq!(newest_glibc(table).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc("nothing"), None);
    }
}
