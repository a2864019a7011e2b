//! Faults behind switches: a function with faults has its text once for each of them, and once without.

use std::ops::Range;

use super::{Fault, VARIABLE};

/// The text of a file in which each fault is on if its number is in the environment; or the errors.
pub(super) fn switched(text: &str, faults: &[(usize, &'static Fault)]) -> Result<String, Vec<String>> {
    let (mut bodies, mut misfits): (Vec<Range<usize>>, _) = (Vec::new(), Vec::new());
    let mut planted = Vec::new();
    for &(number, fault) in faults {
        let body = fault.position(text).and_then(|at| {
            let span = at..at + fault.text.len();
            let body = body(text, &span).ok_or_else(|| {
                format!("{}: the fault \"{}\" stands in no function", fault.file, fault.breaks)
            })?;
            Ok((span, body))
        });
        match body {
            Ok((span, body)) => {
                planted.push((number, fault, span));
                bodies.push(body);
            }
            Err(why) => misfits.push(why),
        }
    }
    if !misfits.is_empty() {
        return Err(misfits);
    }
    // A function in a function is part of the outer one, if both have faults.
    bodies.sort_by_key(|body| (body.start, std::cmp::Reverse(body.end)));
    bodies.dedup_by(|inner, outer| inner.end <= outer.end);
    let mut new = text.to_owned();
    for body in bodies.into_iter().rev() {
        let mut branches = String::new();
        for (number, fault, span) in planted.iter().filter(|(_, _, span)| body.contains(&span.start)) {
            let (before, after) = (&text[body.start..span.start], &text[span.end..body.end]);
            branches += &format!("if {} {{{before}{}{after}}} else ", is_on(*number), fault.with);
        }
        new.replace_range(body.clone(), &format!("{branches}{{{}}}", &text[body]));
    }
    Ok(new)
}

/// An expression: whether a fault is on.
fn is_on(number: usize) -> String {
    format!(
        "{{ static ON: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| \
         std::env::var(\"{VARIABLE}\").is_ok_and(|on| on == \"{number}\")); *ON }}"
    )
}

/// The body of the innermost function around a span, without its braces. rustfmt gives a function and its closing brace
/// the same indentation.
fn body(text: &str, span: &Range<usize>) -> Option<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        lines.push((start, line.trim_end()));
        start += line.len();
    }
    let here = lines.partition_point(|(start, _)| *start <= span.start);
    lines[..here].iter().enumerate().rev().find_map(|(first, (_, line))| {
        let indentation = &line[..line.len() - line.trim_start().len()];
        let signature = line.trim_start().split("fn ").next()?;
        let is_function = line.contains("fn ")
            && signature
                .split_whitespace()
                .all(|word| word.starts_with("pub") || word == "in" || word.ends_with(')'));
        let mut rest = lines[first..].iter().filter(|(_, line)| is_function && line.starts_with(indentation));
        let (opening, head) =
            rest.find(|(_, line)| line.ends_with('{') && !line[indentation.len()..].starts_with(' '))?;
        let (closing, _) = rest.find(|(_, line)| line[indentation.len()..] == *"}")?;
        let body = opening + head.len()..closing + indentation.len();
        (body.start <= span.start && span.end <= body.end).then_some(body)
    })
}
