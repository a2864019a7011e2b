//! The instrumented form of a kernel, which shows what it does while it runs: lines of the author's file for profilers and
//! sanitizers, records of assertions and prints, and the clock at statements. It does not know who reads the records.

use super::Printer;
use crate::isa::atom::Effect;
use crate::source::ast::Span;
use crate::thread::index::Ix;
use crate::thread::probe::{Kind, Probe};
use crate::thread::visit::preorder;
use crate::thread::{Op, Queue, Stmt, Unroll, Val};
use crate::values::elem::Elem;

/// What an instrumented kernel shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Instrument {
    /// Instructions have the lines of the author's file.
    pub lines: bool,
    /// `assert_device` is checked.
    pub asserts: bool,
    /// `print` prints.
    pub prints: bool,
    /// The warps of one block note the clock at their statements.
    pub timeline: bool,
}

/// The entry that the host sets before a launch: the address of the records, the number of the kernel, and the block of the timeline.
pub const ENTRY: &str = "tilewright_records";
/// The number of records, with the first one, which counts them.
pub const RECORDS: usize = 1 << 14;
/// Words of 64 bits of a record.
pub const RECORD_WORDS: usize = 8;
/// The most marks of a warp. A mark has two words of 64 bits.
pub const MARKS: usize = 1 << 12;

/// A statement at which warps note the clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// What it does.
    pub name: String,
    /// The role of its warps, if they have one.
    pub role: String,
    /// Its span.
    pub span: Span,
}

impl Instrument {
    /// Reads words that are separated by commas.
    ///
    /// ```
    /// use tilewright_program::cuda::Instrument;
    /// assert_eq!(Instrument::parse("lines, asserts")?, Instrument { lines: true, asserts: true, ..Instrument::default() });
    /// let refusal = Instrument::parse("line").unwrap_err();
    /// assert_eq!(refusal, "`line` is not among: lines, asserts, prints, timeline");
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str) -> Result<Instrument, String> {
        let mut instrument = Instrument::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let row = instrument.rows().into_iter().find(|row| row.0 == word);
            let names = Instrument::default().rows().map(|row| row.0).join(", ");
            *row.ok_or_else(|| format!("`{word}` is not among: {names}"))?.1 = true;
        }
        Ok(instrument)
    }

    /// Each word, and what it turns on.
    fn rows(&mut self) -> [(&'static str, &mut bool); 4] {
        let Instrument { lines, asserts, prints, timeline } = self;
        [("lines", lines), ("asserts", asserts), ("prints", prints), ("timeline", timeline)]
    }

    /// Options of the compiler.
    pub fn options(self) -> &'static [&'static str] {
        if self.lines { &["-lineinfo"] } else { &[] }
    }

    /// Does the kernel have statements that other kernels leave out?
    pub fn has_probes(self) -> bool {
        self.asserts || self.prints
    }

    /// Does the kernel write records?
    pub fn has_records(self) -> bool {
        self.has_probes() || self.timeline
    }
}

impl Printer<'_> {
    /// An assertion or a print.
    pub(super) fn probe(&mut self, probe: &Probe, values: &[Val], guard: Option<Ix>) {
        let number = self.probes;
        self.probes += 1;
        let is_on = match probe.kind {
            Kind::Assert => self.instrument.asserts,
            Kind::Print => self.instrument.prints,
        };
        if !is_on {
            return;
        }
        let mut texts: Vec<String> = values.iter().map(|value| self.value(value)).collect();
        let guard = guard.map(|guard| self.int_piece(guard).at(super::piece::Level::And));
        let fails = (probe.kind == Kind::Assert).then(|| format!("({}) == 0", texts[0]));
        if self.kernel.type_of(&values[0]) == Elem::F64 {
            texts[0] = format!("__double_as_longlong({})", texts[0]);
        }
        let call = format!("write_record({number}, {});", texts.join(", "));
        let cond: Vec<String> = guard.into_iter().chain(fails).collect();
        match cond.is_empty() {
            true => self.line(&call),
            false => self.line(&format!("if ({}) {call}", cond.join(" && "))),
        }
    }

    /// Notes the clock before a statement that does something else than the one before it.
    pub(super) fn mark(&mut self, stmt: &Stmt) {
        let Some(name) = self.instrument.timeline.then(|| self.action(stmt)).flatten() else { return };
        let span = self.kernel.sites.get(stmt.site as usize).map_or(Span::default(), |site| site.span);
        let mark = Mark { name, role: self.role_name.clone(), span };
        if self.marked.as_ref() != Some(&mark) {
            self.mark_here(mark.clone());
            self.marked = Some(mark);
        }
    }

    /// The end of the kernel's work.
    pub(super) fn mark_end(&mut self) {
        if self.instrument.timeline {
            self.mark_here(Mark { name: String::new(), role: String::new(), span: Span::default() });
        }
    }

    /// Prints statements without marks.
    pub(super) fn unmarked(&mut self, print: impl FnOnce(&mut Self)) {
        let timeline = std::mem::take(&mut self.instrument.timeline);
        print(self);
        self.instrument.timeline = timeline;
    }

    fn mark_here(&mut self, mark: Mark) {
        let number = self.marks.iter().position(|known| *known == mark).unwrap_or_else(|| {
            self.marks.push(mark);
            self.marks.len() - 1
        });
        self.line(&format!("note_clock(tilewright_marks, {number});"));
    }

    /// What a statement does that takes time; `None` for arithmetic, and for statements that are marked inside.
    fn action(&self, stmt: &Stmt) -> Option<String> {
        let of = |stmt: &Stmt, verb: &str| {
            let tensor = self.kernel.sites.get(stmt.site as usize).map_or("", |site| &site.tensor);
            Some(format!("{verb} {tensor}").trim_end().to_owned())
        };
        match &stmt.op {
            Op::Await { bar, .. } => Some(format!("wait for {}", self.names.bars[*bar as usize])),
            Op::WaitQueue { queue: Queue::Products, .. } => Some("wait for products".to_owned()),
            Op::WaitQueue { .. } => Some("wait for copies".to_owned()),
            Op::AwaitPrevious => Some("wait for the previous kernel".to_owned()),
            Op::Sync { .. } => of(stmt, "barrier"),
            Op::Load { .. } => of(stmt, "load"),
            Op::Store { .. } => of(stmt, "store"),
            Op::Atomic { .. } => of(stmt, "update"),
            Op::Atom { row, .. } => {
                of(stmt, if matches!(row.effect, Effect::Mma { .. }) { "multiply" } else { "copy" })
            }
            Op::Elect(_, body) | Op::For { unroll: Unroll::Full, body, .. } => {
                preorder(body).find_map(|stmt| self.action(stmt))
            }
            _ => None,
        }
    }
}

/// A source whose statements have the lines of the author's file.
pub(super) fn with_lines(source: &str, spans: &[Span], file: &str, lines: &[u32]) -> String {
    let file = file.replace('\\', "\\\\").replace('"', "\\\"");
    let of = |span: &Span| lines.get(span.0 as usize).copied();
    // Code of no statement has the line of the statement before it.
    let (mut text, mut at, mut counted) = (String::new(), None, None);
    for (line, span) in source.lines().zip(spans) {
        at = of(span).filter(|_| *span != Span::default()).or(at);
        if at.is_some() && at != counted {
            text += &format!("#line {} \"{file}\"\n", at.unwrap_or_default());
            counted = at;
        }
        text += line;
        text.push('\n');
        counted = counted.map(|line| line + 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_their_lines() {
        let spans = [0, 2, 2, 1, 0].map(Span);
        let text = with_lines("head {\na;\n\nb;\n}\n", &spans, "a \"b\".rs", &[7, 8, 9]);
        let file = r#""a \"b\".rs""#;
        let expected = format!(
            "head {{\n#line 9 {file}\na;\n#line 9 {file}\n\n#line 8 {file}\nb;\n#line 8 {file}\n}}\n"
        );
        assert_eq!(text, expected);
    }
}
