//! Writes every run of a test with its expected result, a line of JSON for each, for `bench/gpu/replay.py` on
//! a machine with a GPU, to the file that `TILEWRIGHT_RECORD` names.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;

use tilewright_codegen::thread::{Kernel, Param};

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn numbers(values: &[f64]) -> String {
    let number = |x: &f64| match x {
        x if x.is_nan() => "NaN".to_owned(),
        x if x.is_infinite() => if *x > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        x => format!("{x}"),
    };
    list(values.iter().map(number))
}

/// One launch.
pub fn record(
    kernel: &Kernel,
    source: &str,
    grid: [i64; 3],
    before: &HashMap<String, Vec<f64>>,
    sizes: &HashMap<String, i64>,
    after: &HashMap<String, Vec<f64>>,
) {
    let Ok(path) = std::env::var("TILEWRIGHT_RECORD") else { return };
    let mut params = Vec::new();
    for param in &kernel.params {
        params.push(match param {
            Param::Pointer { name, elem, write, .. } => {
                let wanted = if *write { numbers(&after[name]) } else { "null".into() };
                let given = numbers(&before[name]);
                format!(r#"{{"elem":"{elem}","given":{given},"wanted":{wanted}}}"#)
            }
            Param::Scalar { name, elem } => {
                format!(r#"{{"scalar":"{elem}","given":{}}}"#, numbers(&before[name]))
            }
            Param::Int { symbol, wide, .. } => {
                format!(r#"{{"int":{},"wide":{wide}}}"#, sizes[symbol.name()])
            }
            Param::Workspace { .. } | Param::TensorMap { .. } => return,
        });
    }
    let mut text = String::new();
    for c in source.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    let mut line = String::new();
    let _ = writeln!(
        line,
        r#"{{"entry":"{}","threads":{},"shared":{},"grid":{},"params":{},"source":"{text}"}}"#,
        kernel.name,
        kernel.launch.threads,
        kernel.launch.shared_bytes,
        list(grid.iter().map(i64::to_string)),
        list(params.into_iter()),
    );
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the record can be written");
}
