//! Results for people and for programs: a table, and JSON.

use serde_json::{Value, json};

use tilewright_cli::output::time;

use super::case::Row;
use super::driver::Device;

/// The machine of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) device: String,
    pub(crate) multiprocessors: u32,
    pub(crate) capability: u32,
    pub(crate) driver: String,
    pub(crate) nvrtc: String,
    pub(crate) cublaslt: Option<String>,
    pub(crate) most_clock: Option<u32>,
}

impl Machine {
    pub(crate) fn of(device: &Device, nvrtc: (i32, i32), cublaslt: Option<String>) -> Machine {
        Machine {
            device: device.name.clone(),
            multiprocessors: device.multiprocessors,
            capability: device.capability,
            driver: device.driver.clone(),
            nvrtc: format!("{}.{}", nvrtc.0, nvrtc.1),
            cublaslt,
            most_clock: device.nvml.as_ref().and_then(|nvml| nvml.most_clock()),
        }
    }

    /// One line.
    pub(crate) fn line(&self) -> String {
        let Machine { device, multiprocessors, driver, nvrtc, .. } = self;
        let peer = self.cublaslt.as_ref().map_or(String::new(), |version| format!(", cuBLASLt {version}"));
        let clock = self.most_clock.map_or(String::new(), |mhz| format!(", up to {mhz} MHz"));
        format!("{device}, {multiprocessors} multiprocessors{clock}, CUDA {driver}, NVRTC {nvrtc}{peer}")
    }

    fn json(&self) -> Value {
        json!({
            "device": self.device,
            "multiprocessors": self.multiprocessors,
            "compute_capability": f64::from(self.capability) / 10.0,
            "cuda": self.driver,
            "nvrtc": self.nvrtc,
            "cublaslt": self.cublaslt,
            "most_clock_mhz": self.most_clock,
        })
    }
}

/// The heading of [`row`].
pub(crate) fn heading() -> String {
    let line = format!(
        "{:<44} {:>10} {:>6} {:>9} {:>8} {:>13} {:>9}  {}",
        "contender", "time", "±", "TFLOP/s", "GB/s", "speed", "error", "note"
    );
    format!("{line}\n")
}

/// A line of the table.
pub(crate) fn row(row: &Row) -> String {
    let (ratio, spread) = row.against;
    let verdict = if row.right { "" } else { "WRONG " };
    let missing = if row.error.missing > 0 {
        format!("{} elements are missing; ", row.error.missing)
    } else {
        String::new()
    };
    let expected =
        |seconds: f64| format!("; predicted {}, {:.2} of it", time(seconds), seconds / row.samples.median());
    format!(
        "{:<44} {:>10} {:>5.1}% {:>9.2} {:>8.0} {:>6.3} ±{:>5.3} {:>9.1e}  {verdict}{missing}{}{}\n",
        row.name,
        time(row.samples.median()),
        100.0 * row.samples.spread(),
        row.rate() / 1e12,
        row.bandwidth() / 1e9,
        ratio,
        spread,
        row.error.relative,
        row.note,
        row.predicted.map_or(String::new(), expected)
    )
}

/// The table of one case: the first contender is the baseline.
pub(crate) fn table(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let state = first.state.map_or(String::new(), |state| {
        format!(", clock at least {} MHz, power at most {:.0} W", state.clock, state.power)
    });
    let samples: Vec<String> =
        rows.iter().map(|row| format!("{}x{}", row.samples.rounds(), row.samples.launches)).collect();
    let mut text = format!(
        "{}, {}: against {}; rounds x launches {}{state}\n",
        first.suite,
        first.problem,
        first.name,
        samples.join(", ")
    );
    rows.iter().for_each(|one| text += &row(one));
    text + &chosen(rows)
}

/// The one of several with the least estimate, and its time relative to the fastest of them.
fn chosen(rows: &[Row]) -> String {
    let guessed: Vec<(&Row, f64)> = rows.iter().filter_map(|row| Some((row, row.predicted?))).collect();
    let Some((choice, _)) = guessed.iter().min_by(|x, y| x.1.total_cmp(&y.1)).filter(|_| guessed.len() > 1)
    else {
        return String::new();
    };
    let best = guessed.iter().map(|(row, _)| row.samples.median()).fold(f64::INFINITY, f64::min);
    format!("chosen: {}, {:.3} of the fastest's time\n", choice.name, choice.samples.median() / best)
}

/// All results as JSON, with the keys of short names.
pub(crate) fn json(machine: &Machine, keys: &[(&str, &str)], rows: &[Row]) -> Value {
    let keys: serde_json::Map<String, Value> =
        keys.iter().map(|(name, keys)| ((*name).to_owned(), json!(keys))).collect();
    let row = |row: &Row| {
        let (fastest, slowest) = row.samples.range();
        json!({
            "suite": row.suite,
            "problem": row.problem,
            "contender": row.name,
            "note": row.note,
            "seconds": row.samples.median(),
            "spread": row.samples.spread(),
            "fastest": fastest,
            "slowest": slowest,
            "rounds": row.samples.rounds(),
            "launches": row.samples.launches,
            "operations": row.operations,
            "bytes": row.bytes,
            "tflops": row.rate() / 1e12,
            "speed": row.against.0,
            "speed_spread": row.against.1,
            "error": row.error.relative,
            "largest_error": row.error.largest,
            "missing": row.error.missing,
            "right": row.right,
            "predicted": row.predicted,
            "clock_mhz": row.state.map(|state| state.clock),
            "watts": row.state.map(|state| state.power),
        })
    };
    json!({
        "machine": machine.json(),
        "keys": keys,
        "results": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::helpers::Error;
    use crate::nvml::Reading;
    use tilewright_cli::measure::Samples;

    /// A product of 1024³ in f32 that took this long.
    pub(crate) fn sample(name: &str, seconds: &[f64], against: (f64, f64), missing: u64) -> Row {
        Row {
            suite: "gemm f32 nt".into(),
            problem: "1024x1024x1024".into(),
            name: name.into(),
            note: "variant 1 of 3".into(),
            operations: 2.0 * 1024f64.powi(3),
            bytes: 3.0 * 4.0 * 1024f64.powi(2),
            samples: Samples::of(seconds, 4),
            against,
            error: Error { relative: 4.2e-7, largest: 3e-6, missing },
            right: missing == 0,
            state: Some(Reading { clock: 1965, power: 512.4 }),
            predicted: None,
        }
    }

    #[test]
    fn the_table_of_a_case() {
        let peer = sample("cuBLASLt", &[1e-4, 1.1e-4, 0.9e-4], (1.0, 0.0), 0);
        let ours = sample("bk=16 vec=4", &[1.25e-4; 3], (0.8, 0.01), 7);
        let text = format!("{}{}", heading(), table(&[peer, ours]));
        let expected = "\
contender                                          time      ±   TFLOP/s     GB/s         speed     error  note
gemm f32 nt, 1024x1024x1024: against cuBLASLt; rounds x launches 3x4, 3x4, clock at least 1965 MHz, power at most 512 W
cuBLASLt                                      100.00 µs   5.0%     21.47      126  1.000 ±0.000    4.2e-7  variant 1 of 3
bk=16 vec=4                                   125.00 µs   0.0%     17.18      101  0.800 ±0.010    4.2e-7  WRONG 7 elements are missing; variant 1 of 3
";
        assert_eq!(text, expected);
    }

    #[test]
    fn predictions_stand_beside_measurements() {
        let row = |name, seconds, predicted| Row {
            predicted: Some(predicted),
            ..sample(name, &[seconds; 3], (1.0, 0.0), 0)
        };
        let text = table(&[row("bk=8", 1e-4, 1.2e-4), row("bk=16", 1.05e-4, 1.1e-4)]);
        assert!(text.contains("variant 1 of 3; predicted 120.00 µs, 1.20 of it\n"), "{text}");
        assert!(text.ends_with("chosen: bk=16, 1.050 of the fastest's time\n"), "{text}");
    }
}
