//! A picture as text.

use super::{Cell, Picture};

impl Picture {
    /// The picture as text, the title in the first line. The examples of the [module](super) show it.
    ///
    /// ```
    /// use tilewright_layout::{draw::Picture, layout};
    /// assert_eq!(Picture::of(layout!(4 : 2))?.table(), "\
    /// 4:2
    ///    0 1 2 3
    ///  ┌────────
    ///  │ 0 2 4 6
    /// ");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn table(&self) -> String {
        let words: Vec<String> = self.cells.iter().map(word).collect();
        let headers: Vec<String> = self.columns.shown.iter().map(i64::to_string).collect();
        let width = words.iter().chain(&headers).map(|w| w.chars().count()).max().unwrap_or(1);
        let margin = match self.rows.headed {
            true => self.rows.shown.iter().map(|row| row.to_string().len()).max().unwrap_or(1) + 1,
            false => 0,
        };
        let count = self.columns.shown.len();
        let mut text = format!("{}\n", self.title);

        text += &" ".repeat(margin + 2);
        for (column, header) in headers.iter().enumerate() {
            text += if self.columns.gap == Some(column) { " ⋯" } else { "" };
            text += if self.columns.line_before(column) > 0 { "  " } else { "" };
            text += &format!(" {header:>width$}");
        }
        text.push('\n');
        self.rule(&mut text, margin, width, ['┌', '┬']);
        for (row, index) in self.rows.shown.iter().enumerate() {
            if self.rows.gap == Some(row) {
                text += &format!("{:>margin$} ⋮\n", if self.rows.headed { "⋮" } else { "" });
            } else if self.rows.line_before(row) > 0 {
                self.rule(&mut text, margin, width, ['├', '┼']);
            }
            match self.rows.headed {
                true => text += &format!("{index:>margin$} │"),
                false => text += " │",
            }
            for (column, word) in words[row * count..][..count].iter().enumerate() {
                text += if self.columns.gap == Some(column) { " ⋯" } else { "" };
                text += if self.columns.line_before(column) > 0 { " │" } else { "" };
                text += &format!(" {word:>width$}");
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }

    fn rule(&self, text: &mut String, margin: usize, width: usize, [corner, crossing]: [char; 2]) {
        *text += &" ".repeat(margin + 1);
        text.push(corner);
        for column in 0..self.columns.shown.len() {
            *text += if self.columns.gap == Some(column) { "──" } else { "" };
            if self.columns.line_before(column) > 0 {
                text.push('─');
                text.push(crossing);
            }
            *text += &"─".repeat(width + 1);
        }
        text.push('\n');
    }
}

fn word(cell: &Cell) -> String {
    match cell.more.as_str() {
        "" => cell.label.clone(),
        more => format!("{} {more}", cell.label),
    }
}
