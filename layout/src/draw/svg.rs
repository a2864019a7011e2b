//! A picture as SVG, without styles, scripts or fonts of its own, so that it can be embedded in any page.

use super::{Picture, TONES};
use std::fmt::Write;

/// Pastel, in the order of the rainbow, all light enough for dark text.
const COLOURS: [&str; TONES as usize] =
    ["#ffd6d1", "#ffe3bd", "#fbf3b6", "#d9f2bf", "#bdeed6", "#bfe9f7", "#cfdcff", "#ead5fb"];
const INK: &str = "#1c2430";
const FAINT: &str = "#6b7686";
const EMPTY: &str = "#f1f3f5";
const FONT: &str = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace";

/// Sizes in pixels.
const EDGE: i64 = 14;
const TITLE: i64 = 34;
const HEADER: i64 = 20;
const LETTER: i64 = 8;
const GAP: i64 = 22;

/// Positions of the picture's parts.
struct Plan {
    cell: (i64, i64),
    origin: (i64, i64),
    size: (i64, i64),
}

impl Picture {
    /// The picture as an SVG document that can also be pasted into HTML or Markdown: it has no empty lines.
    ///
    /// ```
    /// use tilewright_layout::{draw::Picture, layout};
    /// let svg = Picture::of(layout!((8, 8) : (8, 1)))?.svg();
    /// assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn svg(&self) -> String {
        let plan = self.plan();
        let mut svg = String::new();
        self.write(&mut svg, &plan).expect("a string takes everything");
        svg
    }

    fn plan(&self) -> Plan {
        let letters = |f: fn(&super::Cell) -> usize| self.cells.iter().map(f).max().unwrap_or(1) as i64;
        let widest = letters(|c| c.label.chars().count()).max(letters(|c| c.more.chars().count()));
        let tall = self.cells.iter().any(|c| !c.more.is_empty());
        let cell = ((widest * LETTER + 12).max(34), if tall { 40 } else { 30 });
        let margin = match (self.rows.headed, self.rows.shown.last()) {
            (true, Some(last)) => last.to_string().len() as i64 * 7 + 8,
            _ => 0,
        };
        let origin = (EDGE + margin, TITLE + HEADER);
        let along = |axis: &super::Axis, step: i64| {
            axis.shown.len() as i64 * step + if axis.gap.is_some() { GAP } else { 0 }
        };
        let title = self.title.chars().count() as i64 * 9;
        Plan {
            size: (
                (origin.0 + along(&self.columns, cell.0)).max(EDGE + title) + EDGE,
                origin.1 + along(&self.rows, cell.1) + EDGE,
            ),
            cell,
            origin,
        }
    }

    fn write(&self, svg: &mut String, plan: &Plan) -> std::fmt::Result {
        let (width, height) = plan.size;
        writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" style="max-width:100%;height:auto" font-family="{FONT}">"#
        )?;
        let title = self.title.replace('<', "&lt;").replace('>', "&gt;");
        writeln!(svg, "<title>{title}</title>")?;
        writeln!(svg, r##"<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>"##)?;
        writeln!(
            svg,
            r#"<text x="{EDGE}" y="24" font-size="15" font-weight="600" fill="{INK}">{title}</text>"#
        )?;
        self.tiles(svg, plan)?;
        self.lines(svg, plan)?;
        self.labels(svg, plan)?;
        self.headers(svg, plan)?;
        svg.write_str("</svg>\n")
    }

    /// One path for each colour.
    fn tiles(&self, svg: &mut String, plan: &Plan) -> std::fmt::Result {
        let (w, h) = plan.cell;
        let tones = (0..TONES as u8).map(|tone| (Some(tone), COLOURS[tone as usize]));
        for (tone, colour) in tones.chain([(None, EMPTY)]) {
            let mut path = String::new();
            self.each(|row, column, cell| {
                if cell.tone == tone {
                    let (x, y) = (plan.x(self, column), plan.y(self, row));
                    path += &format!("M{} {}h{}v{}h-{}z", x + 1, y + 1, w - 2, h - 2, w - 2);
                }
            });
            if !path.is_empty() {
                writeln!(svg, r#"<path fill="{colour}" d="{path}"/>"#)?;
            }
        }
        Ok(())
    }

    /// Lines between tiles, stronger between tiles of tiles.
    fn lines(&self, svg: &mut String, plan: &Plan) -> std::fmt::Result {
        let (right, bottom) =
            (plan.x(self, self.columns.shown.len() - 1), plan.y(self, self.rows.shown.len() - 1));
        let (right, bottom) = (right + plan.cell.0, bottom + plan.cell.1);
        let (left, top) = plan.origin;
        let mut strong: Vec<(usize, String)> = Vec::new();
        for column in 0..self.columns.shown.len() {
            let line = format!("M{} {top}V{bottom}", plan.x(self, column));
            strong.push((self.columns.line_before(column), line));
        }
        for row in 0..self.rows.shown.len() {
            let line = format!("M{left} {}H{right}", plan.y(self, row));
            strong.push((self.rows.line_before(row), line));
        }
        let most = strong.iter().map(|(strength, _)| *strength).max().unwrap_or(0);
        for strength in 1..=most {
            let path: String =
                strong.iter().filter(|(s, _)| *s == strength).map(|(_, line)| line.as_str()).collect();
            if !path.is_empty() {
                writeln!(
                    svg,
                    r#"<path stroke="{INK}" stroke-width="{}" fill="none" d="{path}"/>"#,
                    2 * strength - 1
                )?;
            }
        }
        Ok(())
    }

    fn labels(&self, svg: &mut String, plan: &Plan) -> std::fmt::Result {
        let (w, h) = plan.cell;
        let mut texts = String::new();
        self.each(|row, column, cell| {
            let (x, y) = (plan.x(self, column) + w / 2, plan.y(self, row) + h / 2);
            if cell.more.is_empty() {
                texts += &format!("<text x=\"{x}\" y=\"{}\">{}</text>\n", y + 5, cell.label);
            } else {
                texts +=
                    &format!("<text x=\"{x}\" y=\"{}\" font-weight=\"600\">{}</text>\n", y - 2, cell.label);
                texts += &format!("<text x=\"{x}\" y=\"{}\">{}</text>\n", y + 13, cell.more);
            }
        });
        write!(svg, "<g font-size=\"13\" text-anchor=\"middle\" fill=\"{INK}\">\n{texts}</g>\n")
    }

    /// The coordinates along both axes, and dots where some are omitted.
    fn headers(&self, svg: &mut String, plan: &Plan) -> std::fmt::Result {
        let (w, h) = plan.cell;
        let (left, top) = plan.origin;
        writeln!(svg, "<g font-size=\"11\" fill=\"{FAINT}\">")?;
        for (column, index) in self.columns.shown.iter().enumerate() {
            let x = plan.x(self, column) + w / 2;
            writeln!(svg, r#"<text x="{x}" y="{}" text-anchor="middle">{index}</text>"#, top - 6)?;
        }
        for (row, index) in self.rows.shown.iter().enumerate().filter(|_| self.rows.headed) {
            let y = plan.y(self, row) + h / 2 + 4;
            writeln!(svg, r#"<text x="{}" y="{y}" text-anchor="end">{index}</text>"#, left - 6)?;
        }
        if let Some(gap) = self.columns.gap {
            let (x, y) = (plan.x(self, gap) - GAP / 2, (plan.origin.1 + plan.size.1 - EDGE) / 2);
            writeln!(svg, r#"<text x="{x}" y="{y}" font-size="16" text-anchor="middle">⋯</text>"#)?;
        }
        if let Some(gap) = self.rows.gap {
            let (x, y) = ((left + plan.x(self, self.columns.shown.len() - 1) + w) / 2, plan.y(self, gap) - 5);
            writeln!(svg, r#"<text x="{x}" y="{y}" font-size="16" text-anchor="middle">⋮</text>"#)?;
        }
        svg.write_str("</g>\n")
    }

    fn each(&self, mut draw: impl FnMut(usize, usize, &super::Cell)) {
        for row in 0..self.rows.shown.len() {
            for (column, cell) in self.row(row).iter().enumerate() {
                draw(row, column, cell);
            }
        }
    }
}

impl Plan {
    fn x(&self, picture: &Picture, column: usize) -> i64 {
        self.origin.0 + column as i64 * self.cell.0 + after_gap(&picture.columns, column)
    }

    fn y(&self, picture: &Picture, row: usize) -> i64 {
        self.origin.1 + row as i64 * self.cell.1 + after_gap(&picture.rows, row)
    }
}

fn after_gap(axis: &super::Axis, position: usize) -> i64 {
    if axis.gap.is_some_and(|gap| position >= gap) { GAP } else { 0 }
}
