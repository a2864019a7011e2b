//! A roofline as SVG: the machine's peak rates, and each contender's point.

use std::fmt::Write;

use super::case::Row;

/// Peak rates per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Roof {
    /// Operations.
    pub(super) operations: f64,
    /// Bytes to and from memory.
    pub(super) bytes: f64,
    /// Measured? Otherwise the operations are computed from the highest clock.
    pub(super) measured: bool,
}

impl Roof {
    /// The roof at this arithmetic intensity.
    fn at(&self, intensity: f64) -> f64 {
        self.operations.min(intensity * self.bytes)
    }
}

const SIZE: (f64, f64) = (1000.0, 560.0);
/// Left, right, top, bottom of the plot area.
const FRAME: (f64, f64, f64, f64) = (70.0, 640.0, 50.0, 500.0);
const COLOURS: [&str; 10] = [
    "#444444", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b3294", "#8c510a",
    "#a6cee3",
];

/// Logarithmic axes, by powers of ten.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn pixel(&self, x: f64, y: f64) -> (f64, f64) {
        let (left, right, top, bottom) = FRAME;
        let part = |value: f64, (low, high): (f64, f64)| (value.log10() - low) / (high - low);
        (left + part(x, self.x) * (right - left), bottom - part(y, self.y) * (bottom - top))
    }
}

/// The picture.
pub(super) fn roofline(title: &str, roof: &Roof, rows: &[Row]) -> String {
    let intensity = |row: &Row| row.operations / row.bytes;
    let ridge = roof.operations / roof.bytes;
    let xs = || rows.iter().map(intensity).chain([ridge / 4.0, ridge * 4.0]);
    let ys = || rows.iter().map(Row::rate).chain([roof.operations * 1.5]);
    let range = |low: f64, high: f64| (low.log10().floor(), high.log10().ceil());
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::MIN_POSITIVE, f64::max);
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let axes =
        Axes { x: range(least(&mut xs()), most(&mut xs())), y: range(least(&mut ys()), most(&mut ys())) };
    let (left, right, top, bottom) = FRAME;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"24\" font-size=\"15\">{}</text>\n",
        SIZE.0,
        SIZE.1,
        escaped(title)
    );
    let mut line = |from: (f64, f64), to: (f64, f64), stroke: &str| {
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{stroke}\"/>",
            from.0, from.1, to.0, to.1
        );
    };
    let powers = |(low, high): (f64, f64)| (low as i32..=high as i32).map(|power| 10f64.powi(power));
    for x in powers(axes.x) {
        let at = axes.pixel(x, 1.0).0;
        line((at, top), (at, bottom), "#dddddd");
    }
    for y in powers(axes.y) {
        let at = axes.pixel(1.0, y).1;
        line((left, at), (right, at), "#dddddd");
    }
    let (low, high) = (10f64.powf(axes.x.0), 10f64.powf(axes.x.1));
    let start = low.max(10f64.powf(axes.y.0) / roof.bytes);
    line(axes.pixel(start, roof.at(start)), axes.pixel(ridge, roof.operations), "black");
    line(axes.pixel(ridge, roof.operations), axes.pixel(high, roof.operations), "black");

    let mut text = |x: f64, y: f64, anchor: &str, words: &str| {
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(words)
        );
    };
    for x in powers(axes.x) {
        text(axes.pixel(x, 1.0).0, bottom + 18.0, "middle", &format!("{x}"));
    }
    for y in powers(axes.y) {
        text(left - 6.0, axes.pixel(1.0, y).1 + 4.0, "end", &format!("{}", y / 1e12));
    }
    text((left + right) / 2.0, bottom + 40.0, "middle", "operations for each byte that must move");
    text(left, top - 8.0, "start", "TFLOP/s");
    let how =
        if roof.measured { "multiply-adds from registers" } else { "the tensor cores at the highest clock" };
    let (x, y) = axes.pixel(high, roof.operations);
    text(x, y - 6.0, "end", &format!("{how}: {:.1} TFLOP/s", roof.operations / 1e12));
    let memory = format!("memory: {:.2} TB/s, measured", roof.bytes / 1e12);
    text(right + 16.0, bottom, "start", &memory);

    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    for (at, name) in names.iter().enumerate() {
        let (colour, y) = (COLOURS[at % COLOURS.len()], top + 18.0 * at as f64);
        let _ =
            writeln!(svg, "<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{colour}\"/>", right + 16.0, y - 4.0);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{y}\">{}</text>", right + 26.0, escaped(name));
        for row in rows.iter().filter(|row| row.name == *name) {
            let (x, y) = axes.pixel(intensity(row), row.rate());
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"><title>{}, {}: {:.2} TFLOP/s</title></circle>",
                escaped(name),
                escaped(&row.problem),
                row.rate() / 1e12
            );
        }
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;

    #[test]
    fn a_roofline_has_a_roof_and_a_point_for_each_row() {
        let roof = Roof { operations: 60e12, bytes: 3e12, measured: true };
        let rows = [sample("cuBLASLt", &[1e-4], (1.0, 0.0), 0), sample("a < b", &[2e-4], (0.5, 0.0), 0)];
        let svg = roofline("A GPU & its roof", &roof, &rows);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<title>").count(), 2);
        for text in ["A GPU &amp; its roof", "a &lt; b", "60.0 TFLOP/s", "memory: 3.00 TB/s", ">1000<"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(roof.at(1.0), 3e12);
        assert_eq!(roof.at(100.0), 60e12);
    }
}
