//! The timeline of one block: what each warp did when, as an SVG picture and as a trace for Chrome's viewer. It does not know whether a
//! device or the simulator was watched.

use std::collections::BTreeMap;
use std::fmt::Write;

/// What a warp did for some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The warp.
    pub warp: u32,
    /// Its role; empty if it has none.
    pub role: String,
    /// What it did.
    pub name: String,
    /// The line of the kernel's file, if it is known.
    pub line: Option<String>,
    /// Clocks of the multiprocessor, or steps of the simulator.
    pub from: u64,
    /// See `from`.
    pub to: u64,
}

/// The intervals of all warps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timeline {
    /// The intervals; each warp's are in their order.
    pub intervals: Vec<Interval>,
    /// The unit of time: `clocks` or `steps`.
    pub unit: &'static str,
}

/// Sizes of the picture, in pixels.
const WIDTH: u64 = 1200;
const LABEL: u64 = 150;
const ROW: u64 = 22;
const TOP: u64 = 40;

/// A color for each kind of action, by its first word.
const COLORS: [(&str, &str); 7] = [
    ("wait", "#d9d9d9"),
    ("barrier", "#bdbdbd"),
    ("load", "#6baed6"),
    ("copy", "#3182bd"),
    ("multiply", "#74c476"),
    ("store", "#fd8d3c"),
    ("update", "#e6550d"),
];

impl Timeline {
    /// The first and the last time.
    fn span(&self) -> (u64, u64) {
        let from = self.intervals.iter().map(|interval| interval.from).min().unwrap_or(0);
        let to = self.intervals.iter().map(|interval| interval.to).max().unwrap_or(0);
        (from, to.max(from + 1))
    }

    /// The warps with their roles.
    fn warps(&self) -> BTreeMap<u32, String> {
        let mut warps = BTreeMap::new();
        for Interval { warp, role, .. } in &self.intervals {
            let known: &mut String = warps.entry(*warp).or_default();
            if known.is_empty() {
                known.clone_from(role);
            }
        }
        warps
    }

    /// A picture with a row for each warp. The text of an interval shows while the pointer is on it.
    ///
    /// ```
    /// use tilewright_program::launch::timeline::{Interval, Timeline};
    /// let (name, line, role) = ("copy x".into(), Some("a.rs:7".into()), "producer".into());
    /// let timeline = Timeline { intervals: vec![Interval { warp: 4, role, name, line, from: 10, to: 30 }], unit: "clocks" };
    /// assert!(timeline.svg().contains("<title>warp 4, producer: copy x, a.rs:7, 0 to 20 clocks</title>"));
    /// assert!(timeline.chrome_trace().contains(r#""name":"copy x","ph":"X","ts":0,"dur":20,"pid":0,"tid":4"#));
    /// ```
    pub fn svg(&self) -> String {
        let ((from, to), warps) = (self.span(), self.warps());
        let rows: BTreeMap<u32, u64> = warps.keys().copied().zip(0..).collect();
        let height = TOP + ROW * rows.len() as u64 + 10;
        let x =
            |at: u64| LABEL as f64 + (at - from) as f64 * (WIDTH - LABEL - 10) as f64 / (to - from) as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
        );
        for tick in 0..=8 {
            let at = from + (to - from) * tick / 8;
            let unit = if tick == 0 { self.unit } else { "" };
            let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{}\">{} {unit}</text>", x(at), TOP - 12, at - from);
        }
        for (warp, row) in &rows {
            let (y, role) = (TOP + row * ROW + 14, escaped(&warps[warp]));
            let _ = writeln!(svg, "<text x=\"4\" y=\"{y}\">warp {warp} {role}</text>");
        }
        for interval in &self.intervals {
            let (left, right) = (x(interval.from), x(interval.to));
            let (y, color) = (TOP + rows[&interval.warp] * ROW, color(&interval.name));
            let _ = writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"{color}\"><title>{}</title></rect>",
                (right - left).max(0.3),
                ROW - 4,
                escaped(&self.text(interval, from)),
            );
        }
        svg + "</svg>\n"
    }

    fn text(&self, interval: &Interval, start: u64) -> String {
        let Interval { warp, role, name, line, from, to } = interval;
        let role = if role.is_empty() { String::new() } else { format!(", {role}") };
        let line = line.as_ref().map_or(String::new(), |line| format!(", {line}"));
        format!("warp {warp}{role}: {name}{line}, {} to {} {}", from - start, to - start, self.unit)
    }

    /// The same as JSON that Chrome's trace viewer and Perfetto open. One unit of time is shown as a microsecond.
    pub fn chrome_trace(&self) -> String {
        let (from, _) = self.span();
        let warps = self.warps();
        let name = |(warp, role): (&u32, &String)| {
            format!(
                r#"{{"name":"thread_name","ph":"M","pid":0,"tid":{warp},"args":{{"name":{}}}}}"#,
                quoted(format!("warp {warp} {role}").trim_end())
            )
        };
        let event = |interval: &Interval| {
            let Interval { warp, name, line, from: start, to, .. } = interval;
            let line = quoted(line.as_deref().unwrap_or_default());
            format!(
                r#"{{"name":{},"ph":"X","ts":{},"dur":{},"pid":0,"tid":{warp},"args":{{"line":{line}}}}}"#,
                quoted(name),
                start - from,
                to - start
            )
        };
        let all: Vec<String> = warps.iter().map(name).chain(self.intervals.iter().map(event)).collect();
        format!("{{\"traceEvents\":[\n{}\n]}}\n", all.join(",\n"))
    }

    /// The form that a file's name asks for: a trace for `.json`, otherwise a picture.
    pub fn for_file(&self, name: &str) -> String {
        if name.ends_with(".json") { self.chrome_trace() } else { self.svg() }
    }
}

fn color(name: &str) -> &'static str {
    let word = name.split(' ').next().unwrap_or_default();
    COLORS.iter().find(|row| row.0 == word).map_or("#9e9ac8", |row| row.1)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}
