//! The header comment of a kernel: its launch configuration and the facts that it assumes.

use tilewright_layout::{Obligation, Value};

use super::{Printer, comment};
use crate::thread::{Fact, Id, Kernel, Param};

impl Printer<'_> {
    pub(super) fn header(&self) -> String {
        let kernel = self.kernel;
        let mut lines = vec![(String::new(), self.names.kernel.clone())];
        let mut say = |what: &str, text: String| lines.push((what.to_string(), text));
        let launch = &kernel.launch;
        let plural = if launch.threads == 1 { "" } else { "s" };
        say("block", format!("{} thread{plural}", launch.threads));
        say("grid", grid(kernel));
        if launch.cluster.iter().any(|&n| n > 1) {
            let [x, y, z] = launch.cluster;
            say("cluster", if z > 1 { format!("{x} x {y} x {z}") } else { format!("{x} x {y}") });
        }
        if launch.overlaps {
            let beside = if launch.beside { ", beside the previous kernel" } else { "" };
            say("launch", format!("programmatic dependent launch{beside}"));
        }
        if launch.shared_bytes > 0 {
            say("shared", format!("{} bytes", launch.shared_bytes));
        }
        say("device", format!("sm_{}{}", kernel.arch, if kernel.arch_specific { "a" } else { " or newer" }));
        for need in needs(kernel) {
            say("needs", need);
        }
        let mut text = String::new();
        let mut before = String::new();
        for (what, line) in lines {
            let label = if what == before { "" } else { what.as_str() };
            let line = if what.is_empty() { line } else { format!("{label:<8}{line}") };
            text += &(comment(&line) + "\n");
            before = what;
        }
        text
    }
}

/// The assumed facts, one kind on a line.
pub fn needs(kernel: &Kernel) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>, String)> = Vec::new();
    for need in &kernel.needs {
        let (start, subject, end) = fact(kernel, need);
        match lines.iter_mut().find(|line| line.0 == start && line.2 == end) {
            Some(line) => line.1.push(subject),
            None => lines.push((start, vec![subject], end)),
        }
    }
    lines.into_iter().map(|(start, subjects, end)| format!("{start}{}{end}", subjects.join(", "))).collect()
}

fn grid(kernel: &Kernel) -> String {
    if kernel.launch.persistent {
        let tiles: Vec<String> = kernel
            .launch
            .grid
            .iter()
            .flatten()
            .filter(|count| **count != Value::Int(1))
            .map(|count| count.to_string())
            .collect();
        return format!("persistent, for {} tiles", tiles.join(" * "));
    }
    let mut axes: Vec<String> = kernel.launch.grid.iter().map(|axis| product(axis)).collect();
    while axes.len() > 1 && axes.last().is_some_and(|axis| axis == "1") {
        axes.pop();
    }
    axes.join(" x ")
}

fn product(factors: &[Value]) -> String {
    match factors {
        [] => "1".to_string(),
        factors => factors.iter().map(|factor| factor.to_string()).collect::<Vec<_>>().join(" * "),
    }
}

/// A fact: prefix, subject, suffix.
fn fact(kernel: &Kernel, fact: &Fact) -> (String, String, String) {
    let name = |param: Id| match &kernel.params[param as usize] {
        Param::Pointer { name, .. } => name.clone(),
        _ => format!("parameter {param}"),
    };
    match fact {
        Fact::Divides(Obligation { divisor, of }) => {
            (format!("{divisor} divides "), of.to_string(), String::new())
        }
        Fact::AtMost { of, limit } => (String::new(), of.to_string(), format!(" at most {limit}")),
        Fact::AtLeast { of, limit } => (String::new(), of.to_string(), format!(" at least {limit}")),
        Fact::Aligned { param, bytes } => {
            (String::new(), name(*param), format!(" at multiples of {bytes} bytes"))
        }
        Fact::Small { param, .. } => {
            ("32 bits are enough for offsets into ".into(), name(*param), String::new())
        }
    }
}
