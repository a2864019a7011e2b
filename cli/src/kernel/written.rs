//! A kernel as text: it is parsed and generated, and messages are shown in the text.

use std::fmt;

use serde_json::{Value, json};
use tilewright_codegen::ast::{Level, Span};
use tilewright_codegen::diagnostic::Diagnostic;
use tilewright_codegen::kernel_def::Locations;
use tilewright_codegen::words::Words;
use tilewright_codegen::{Definition, Generate, Outcome};
use tilewright_parse::{file, text::Text};

use super::Chosen;
use crate::output::Failure;

/// The name of the text in locations, and of its kernel where others have a name in the list.
const NAME: &str = "text";

/// The longest text.
const MAX_TEXT_BYTES: usize = 32 << 10;

/// The longest part of a line in a message.
const MAX_COLUMNS: usize = 200;

/// The text of a kernel, and the warnings about it.
pub(crate) struct Written {
    pub(crate) source: String,
    pub(crate) warnings: Messages,
}

/// Messages in the order of the text.
#[derive(Debug, Default)]
pub(crate) struct Messages(Vec<Message>);

#[derive(Debug)]
struct Message {
    /// The tokens; `None` for messages about the keys.
    range: Option<Range>,
    /// The message with the line of the text, carets below its tokens, and the remedy.
    text: String,
}

/// A range of the text: lines from 1, and columns from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

/// The kernel of a text, with these constants and element types.
pub(crate) fn choose(source: &str, keys: &str) -> Result<Chosen, Messages> {
    if source.len() > MAX_TEXT_BYTES {
        return Err(Messages::about_keys(format!("a text has at most {MAX_TEXT_BYTES} bytes")));
    }
    let (kernel, text) = file::read(source);
    let messages = |all: &[Diagnostic], level| Messages::new(all, level, source, &text);
    let kernel = match kernel {
        Some(kernel) if text.problems.is_empty() => kernel,
        _ => return Err(messages(&text.problems, Level::Deny)),
    };
    let locations = Locations { file: NAME.to_owned(), ..text.lines() };
    let base = locations.lines.len() as u32;
    let mut words = Words::read_after(keys, &locations).map_err(Messages::about_keys)?;
    let settings = words.settings(&kernel);
    let in_keys = |all: &[Diagnostic]| Messages::about_keys(words.mistakes(all, &locations));
    let settings = settings.map_err(|all| in_keys(&all))?;
    let definition = Definition::Function(kernel, settings);
    let Outcome { kernel, diagnostics } = definition.generate();
    let Some(generated) = kernel else {
        let errors = messages(&diagnostics, Level::Deny);
        let is_in_text = |one: &Diagnostic| one.level == Level::Deny && one.span.0 < base;
        return Err(if diagnostics.iter().any(is_in_text) { errors } else { in_keys(&diagnostics) });
    };
    let warnings = messages(&diagnostics, Level::Warn);
    let written = Some(Written { source: source.to_owned(), warnings });
    Ok(Chosen { name: NAME, def: definition.def(&generated, &locations), definition, generated, written })
}

impl Messages {
    fn about_keys(why: impl fmt::Display) -> Messages {
        Messages(vec![Message { range: None, text: why.to_string() }])
    }

    fn new(diagnostics: &[Diagnostic], level: Level, source: &str, text: &Text) -> Messages {
        let shown = diagnostics.iter().filter(|one| one.level == level);
        let mut messages: Vec<_> = shown
            .map(|one| {
                let range = Range::new(one.span, text);
                Message { range: Some(range), text: range.message(one, source) }
            })
            .collect();
        messages.sort_by_key(|message| message.range);
        Messages(messages)
    }

    /// Each message with its range as `[line, column, line, column]`.
    pub(crate) fn json(&self) -> Value {
        let message = |Message { range, text }: &Message| {
            let range =
                range.map(|range| json!([range.line, range.column, range.end_line, range.end_column]));
            json!({ "text": text, "range": range })
        };
        self.0.iter().map(message).collect()
    }
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<&str> = self.0.iter().map(|message| message.text.as_str()).collect();
        f.write_str(&texts.join("\n\n"))
    }
}

impl From<Messages> for Failure {
    fn from(messages: Messages) -> Failure {
        Failure::of(messages)
    }
}

impl Range {
    fn new(span: Span, text: &Text) -> Range {
        let tokens = text.tokens_of(span);
        let (start, end) = (tokens.first.start(), tokens.last.end());
        Range { line: start.line, column: start.column, end_line: end.line, end_column: end.column }
    }

    /// The message, its line with carets, and the remedy.
    fn message(&self, diagnostic: &Diagnostic, source: &str) -> String {
        let line = source.lines().nth(self.line.saturating_sub(1)).unwrap_or_default();
        let end = if self.end_line == self.line { self.end_column } else { line.chars().count() };
        // Of a long line, the part around the first token.
        let skipped = if self.column < MAX_COLUMNS / 2 { 0 } else { self.column - MAX_COLUMNS / 4 };
        let shown: String = line.chars().skip(skipped).take(MAX_COLUMNS).collect();
        // Tabs stay, so that carets are below their tokens.
        let indent = shown.chars().take(self.column - skipped);
        let indent: String = indent.map(|letter| if letter == '\t' { '\t' } else { ' ' }).collect();
        let width = end.min(skipped + MAX_COLUMNS).saturating_sub(self.column).max(1);
        let (number, carets) = (self.line.to_string(), "^".repeat(width));
        let gutter = " ".repeat(number.len());
        let lint = diagnostic.lint.map(|lint| format!("{lint}: ")).unwrap_or_default();
        let help = diagnostic.help.as_ref().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
        format!("{lint}{}\n {number} | {shown}\n {gutter} | {indent}{carets}{help}", diagnostic.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: &str = "#[kernel(T = f32 | f16)]\n\
        fn scale<T, const B: usize = 128>(x: &Tensor<T, N>, y: &mut Tensor<T, N>) {\n\
        \tlet t = layout!(128);\n\
        \tlet (x, y) = (parallelize(tile(x, B, block.x), t, thread.x), parallelize(tile(y, B, block.x), t, thread.x));\n\
        \tcopy(map(x, |x| x + x), y);\n}\n";

    #[track_caller]
    fn check(source: &str, keys: &str, expected: &str) {
        let Err(messages) = choose(source, keys) else { panic!("{source} has no mistake") };
        assert_eq!(messages.to_string(), expected, "{keys}");
    }

    #[test]
    fn a_text_is_a_kernel_with_constants_and_types() {
        for (keys, text) in [("", "scale(const float*"), ("B=256", "B = 256;"), ("T=f16", "scale(const f16*")]
        {
            let chosen = choose(SCALE, keys).unwrap_or_else(|why| panic!("{why}"));
            assert!(chosen.generated.source().contains(text), "{}", chosen.generated.source());
            assert_eq!(chosen.def.locations().of(Span(0)).as_deref(), Some("text:2"));
        }
    }

    #[test]
    fn mistakes_are_shown_in_the_text() {
        let wrong = SCALE.replace("thread.x), par", "threads.x), par").replace(", y);\n}", ", z);\n}");
        check(
            &wrong,
            "",
            "`threads` is not defined in this kernel\n \
             4 | \tlet (x, y) = (parallelize(tile(x, B, block.x), t, threads.x), parallelize(tile(y, B, block.x), t, thread.x));\n   \
             | \t                                                  ^^^^^^^\n\
             help: did you mean `thread`?\n\n\
             `z` is not defined in this kernel\n \
             5 | \tcopy(map(x, |x| x + x), z);\n   \
             | \t                        ^\n\
             help: bind it with `let` first; names in scope are `B`, `x`, `y`, `t`",
        );
        check(SCALE, "BB=3", "`scale` has no constant `BB`\n  BB=3\n  ^^\nhelp: its constants are B");
        let first =
            |keys: &str| choose(SCALE, keys).err().map(|why| why.json()[0].clone()).unwrap_or_default();
        assert_eq!(first("T=f64")["range"], json!(null));
        assert_eq!(first("B=100")["range"], json!([4, 48, 4, 49]));
        let long = format!("#[kernel] fn k() {{ {} continue; }}", "f(1); ".repeat(1000));
        let why = choose(&long, "").err().map(|why| why.to_string()).unwrap_or_default();
        let lines: Vec<&str> = why.lines().collect();
        assert_eq!(lines[1].find("continue"), lines[2].find('^'), "{why}");
        assert!(lines[1].len() < 220, "{why}");
        check(&" ".repeat(1 << 16), "", "a text has at most 32768 bytes");
    }
}
