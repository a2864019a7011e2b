//! The comment that a kernel begins with: how it is launched and what it takes for granted.

use tilewright_layout::Value;

use super::Printer;
use crate::thread::{Fact, Id, Kernel};

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
            say(
                "cluster",
                if z > 1 {
                    format!("{x} x {y} x {z}")
                } else {
                    format!("{x} x {y}")
                },
            );
        }
        if launch.shared_bytes > 0 {
            say("shared", format!("{} bytes", launch.shared_bytes));
        }
        say(
            "device",
            format!(
                "sm_{}{}",
                kernel.arch,
                if kernel.arch_specific { "a" } else { " or newer" }
            ),
        );
        for need in &kernel.needs {
            say("needs", fact(kernel, need));
        }
        lines
            .iter()
            .map(|(what, text)| format!("// {what:<8}{text}").replacen("//         ", "// ", 1) + "\n")
            .collect()
    }
}

fn grid(kernel: &Kernel) -> String {
    let mut axes: Vec<String> = kernel.launch.grid.iter().map(|axis| product(axis)).collect();
    while axes.len() > 1 && axes.last().is_some_and(|axis| axis == "1") {
        axes.pop();
    }
    axes.join(" x ")
}

fn product(factors: &[Value]) -> String {
    match factors {
        [] => "1".to_string(),
        factors => factors
            .iter()
            .map(|factor| factor.to_string())
            .collect::<Vec<_>>()
            .join(" * "),
    }
}

fn fact(kernel: &Kernel, fact: &Fact) -> String {
    let name = |param: Id| match &kernel.params[param as usize] {
        crate::thread::Param::Pointer { name, .. } => name.clone(),
        _ => format!("parameter {param}"),
    };
    match fact {
        Fact::Divides(obligation) => obligation.to_string(),
        Fact::Aligned { param, bytes } => format!("{} at a multiple of {bytes} bytes", name(*param)),
        Fact::Small { param } => format!("offsets into {} in 32 bits", name(*param)),
    }
}
