//! `--batch`: one answer for each line `operation|A|B`; a bad line is answered with an error.

use super::item::{Failure, Item};
use super::operations::{self, Arguments, Operation};
use std::fmt::Write as _;
use std::io::{Read, Result};
use tilewright_layout::Reader;

/// Answers standard input on standard output, line by line.
pub(crate) fn run() -> Result<()> {
    let mut input = std::io::stdin().lock();
    let mut batch = Batch::default();
    let (mut waiting, mut filled) = (vec![0u8; 1 << 20], 0);
    loop {
        if filled == waiting.len() {
            waiting.resize(2 * filled, 0);
        }
        let more = match input.read(&mut waiting[filled..]) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            done => done?,
        };
        // At the end, the remainder is a separate line.
        let end = if more == 0 { filled } else { filled + more };
        let lines = match waiting[filled..end].iter().rposition(|b| *b == b'\n') {
            Some(at) => filled + at + 1,
            None if more == 0 => end,
            None => 0,
        };
        batch.answer_all(&waiting[..lines]);
        crate::output::write(batch.answers.as_bytes())?;
        batch.answers.clear();
        waiting.copy_within(lines..end, 0);
        filled = end - lines;
        if more == 0 {
            return Ok(());
        }
    }
}

/// Buffers that are reused for every line.
#[derive(Default)]
struct Batch {
    /// The operands of the current line, and possibly more from earlier lines.
    operands: Vec<Item>,
    answers: String,
}

impl Batch {
    fn answer_all(&mut self, mut text: &[u8]) {
        while !text.is_empty() {
            let end = text.iter().position(|b| *b == b'\n').unwrap_or(text.len());
            let (line, rest) = text.split_at(end);
            text = rest.get(1..).unwrap_or_default();
            let wrote = match self.answer(line.strip_suffix(b"\r").unwrap_or(line)) {
                Ok(item) => writeln!(self.answers, "{item}"),
                Err(failure) => writeln!(self.answers, "error: {failure:#}"),
            };
            debug_assert!(wrote.is_ok(), "writing to a string");
        }
    }

    fn answer(&mut self, line: &[u8]) -> std::result::Result<Item, Failure> {
        let line = std::str::from_utf8(line)
            .map_err(|e| Failure::Text(format!("invalid UTF-8 after {} bytes", e.valid_up_to())))?;
        let (name, operands) = line.split_once('|').ok_or_else(|| no_operation(line))?;
        let name = name.trim();
        let operation = operations::find(name).ok_or_else(|| operations::unknown(name))?;
        let count = self.read(operation, operands)?;
        operation.apply(&Arguments(&self.operands[..count]))
    }

    /// Parses the operands between the `|` and returns their number; unary operations may leave the last one
    /// empty.
    fn read(&mut self, operation: &'static Operation, text: &str) -> std::result::Result<usize, Failure> {
        let text = text.trim_end_matches(['|', ' ']);
        let mut count = 0;
        for field in text.split('|') {
            let Some(kind) = operation.kind(count) else {
                return Err(operation.wrong_number(text.split('|').count()));
            };
            let mut reader = Reader::new(operation.name, field);
            match self.operands.get_mut(count) {
                Some(index) => kind.read_into(&mut reader, index)?,
                None => self.operands.push(kind.read(&mut reader)?),
            }
            reader.end("the end, or `|`")?;
            count += 1;
        }
        match operation.enough(count) {
            true => Ok(count),
            false => Err(operation.wrong_number(count)),
        }
    }
}

fn no_operation(line: &str) -> Failure {
    Failure::Text(match line.trim() {
        "" => "the line is empty; expected operation|A|B".to_owned(),
        _ => "there is no `|` in the line; expected operation|A|B".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[u8], expected: &str) {
        let mut batch = Batch::default();
        batch.answer_all(lines);
        assert_eq!(batch.answers, expected);
    }

    #[test]
    fn answers() {
        check(b"composition|(6,2):(8,2)|(4,3):(3,1)\n", "((2,2),3):((24,2),8)\n");
        check(b"complement|4:2|24\ncoalesce|(2,(1,6)):(1,(6,2))|\n", "(2,3):(1,8)\n12:1\n");
        check(b"coalesce|(2,(1,6)):(1,(6,2))\r\nsize|4:1", "12:1\n4\n");
        check(b"zipped_divide|(8,8):(1,8)|(4,4)|\n", "((4,4),(2,2)):((1,8),(4,32))\n");
        check(b"composition|Sw<3,0,3> o 0 o (8,8):(8,1)|<4:1,_>\n", "Sw<3,0,3> o 0 o (4,8):(8,1)\n");
        check(b"complement|128:1|M\n", "ceil(M/128):128\n");
        check(b"", "");
    }

    #[test]
    fn bad_lines_get_a_line() {
        check(
            b"\ncoalesce\n|4:1\n\ncoalesce|4:1\n",
            "error: the line is empty; expected operation|A|B\n\
             error: there is no `|` in the line; expected operation|A|B\n\
             error: there is no operation ``; `tilewright layout --help` lists them\n\
             error: the line is empty; expected operation|A|B\n\
             4:1\n",
        );
        check(b"coalesce|4:1\xff|\n", "error: invalid UTF-8 after 12 bytes\n");
        check(
            b"composition|4:1\ncoalesce|4:1|1|2\ncomplement|4:1|x y\n",
            "error: composition has 1 operand; it takes composition(layout, tiler)\n\
             error: coalesce has 3 operands; it takes coalesce(layout[, tuple])\n\
             error: complement: column 3: expected the end, or `|`, found `y`\n",
        );
        check(
            b"coalesce|(4,2):1|\ncoalesce|(4,0):(1,4)|\ncomposition|4:1|(0,2)\n",
            "error: coalesce: the shape (4,2) and the stride 1 are not congruent\n\
             error: coalesce: leaf 1 has the extent 0, and an extent must be at least 1\n\
             error: composition: leaf 0 has the extent 0, and an extent must be at least 1\n",
        );
        let digits = "9".repeat(10_000);
        check(
            format!("coalesce|{digits}:1|\n").as_bytes(),
            "error: coalesce: column 1: expected a number of at most 63 bits, found `9`\n",
        );
        let deep = "(".repeat(1000);
        check(
            format!("coalesce|{deep}4:1|\n").as_bytes(),
            "error: coalesce: column 65: expected at most 64 levels of parentheses, found `(`\n",
        );
    }
}
