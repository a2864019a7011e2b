//! Records: which alternative of a kernel was measured to be the fastest for some sizes on a device. They are lines of text, which can be
//! committed, merged and shipped.
//!
//! ```
//! use tilewright_program::launch::Record;
//! let line = "sums 00c0ffee00c0ffee | NVIDIA H200 | M = 8192, N = 100 | PART = 64 | 12.500 us | 0.8 % | 1.070 | 1.020 | driver 13.0";
//! let record: Record = line.parse()?;
//! assert_eq!((record.alternative.as_str(), record.to_string().as_str()), ("PART = 64", line));
//! # Ok::<(), tilewright_program::launch::Refusal>(())
//! ```

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::Refusal;

/// A measurement. A launch consults it if the kernel, its generated code and the device are the same, and if the sizes are near.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The kernel's name.
    pub kernel: String,
    /// Its [`Generated::fingerprint`](super::definition::Generated::fingerprint).
    pub fingerprint: u64,
    /// The device's name, as its driver says it.
    pub device: String,
    /// Extents and strides by name.
    pub sizes: Vec<(String, i64)>,
    /// The fastest alternative: see [`Generated::alternative`](super::definition::Generated::alternative).
    pub alternative: String,
    /// The median time of a launch.
    pub microseconds: f64,
    /// Half the distance between the quartiles, as a part of the time.
    pub spread: f64,
    /// The time of the estimate's choice, as a multiple of this time; 1 where it is this alternative.
    pub estimated: f64,
    /// The estimate of its alternative, as a multiple of the least estimate.
    pub overestimate: f64,
    /// The driver's version.
    pub driver: String,
}

/// The weight of clocks that no record shortens.
pub(super) const WEIGHT: u64 = 1024;
/// At near sizes, an alternative is taken if its estimate is at most this part longer, relative to the least one, than at the record's
/// sizes. See bench/LOG.md, "Records of near sizes".
const NEAR_SLACK: f64 = 0.02;

/// What a line consists of.
const FORM: &str = "a record has nine parts: KERNEL FINGERPRINT | DEVICE | SIZES | ALTERNATIVE | TIME us | SPREAD % | TIME OF THE ESTIMATE'S CHOICE | ESTIMATE | driver VERSION";

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Record {
            kernel,
            fingerprint,
            device,
            alternative,
            microseconds,
            estimated,
            overestimate,
            driver,
            ..
        } = self;
        let (sizes, spread) = (self.named_sizes(), 100.0 * self.spread);
        write!(
            f,
            "{kernel} {fingerprint:016x} | {device} | {sizes} | {alternative} | {microseconds:.3} us | "
        )?;
        write!(f, "{spread:.1} % | {estimated:.3} | {overestimate:.3} | driver {driver}")
    }
}

impl Record {
    /// The weight of its alternative's clocks at near sizes. A record of the estimate's choice shortens none.
    pub(super) fn near_weight(&self) -> u64 {
        if self.estimated <= 1.0 || self.overestimate <= 1.0 {
            return WEIGHT;
        }
        ((WEIGHT as f64 / self.overestimate / (1.0 + NEAR_SLACK)) as u64).clamp(2, WEIGHT)
    }

    /// Its sizes as text: `M = 8192, N = 100`.
    pub fn named_sizes(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|(name, size)| format!("{name} = {size}")).collect();
        sizes.join(", ")
    }
}

impl FromStr for Record {
    type Err = Refusal;

    fn from_str(line: &str) -> Result<Record, Refusal> {
        let wrong = |part: &str| Refusal::new(format!("`{part}` is not this part of a record")).help(FORM);
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, device, sizes, alternative, time, spread, estimated, overestimate, driver] = parts[..]
        else {
            return Err(Refusal::new(format!("this line has {} parts", parts.len())).help(FORM));
        };
        let (kernel, fingerprint) = name.split_once(' ').ok_or_else(|| wrong(name))?;
        let number = |text: &str, unit: &str| {
            let number = text.strip_suffix(unit).and_then(|number| number.trim().parse::<f64>().ok());
            number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(|| wrong(text))
        };
        let size = |text: &str| {
            let (name, size) = text.split_once('=').ok_or_else(|| wrong(text))?;
            let size = size.trim().parse().ok().filter(|size| *size >= 0).ok_or_else(|| wrong(text))?;
            Ok((name.trim().to_owned(), size))
        };
        Ok(Record {
            kernel: kernel.to_owned(),
            fingerprint: u64::from_str_radix(fingerprint, 16).map_err(|_| wrong(name))?,
            device: device.to_owned(),
            sizes: sizes
                .split(',')
                .filter(|_| !sizes.is_empty())
                .map(size)
                .collect::<Result<_, Refusal>>()?,
            alternative: alternative.to_owned(),
            microseconds: number(time, "us")?,
            spread: number(spread, "%")? / 100.0,
            estimated: number(estimated, "")?,
            overestimate: number(overestimate, "")?,
            driver: driver.strip_prefix("driver ").ok_or_else(|| wrong(driver))?.to_owned(),
        })
    }
}

/// The records of a text: a line each, beside empty lines and lines that begin with `#`; and the lines that are none, with their
/// numbers.
pub fn records(text: &str) -> (Vec<Record>, Vec<(usize, Refusal)>) {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        match line.trim().parse() {
            _ if line.trim().is_empty() || line.trim_start().starts_with('#') => {}
            Ok(record) => all.push(record),
            Err(why) => wrong.push((at + 1, why)),
        }
    }
    (all, wrong)
}

/// A hash of a device's name.
pub const fn model(name: &str) -> u64 {
    hash(0xcbf2_9ce4_8422_2325, name.as_bytes())
}

/// FNV-1a, which exported C computes too.
pub(super) const fn hash(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}
