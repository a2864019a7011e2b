//! The sizes that are tuned: as given, or drawn from ranges.

use crate::output::{Failure, Result};
use crate::run::problem::Random;

/// All sizes, each once: the given ones, and `drawn` of each that has ranges, with numbers from these.
pub(super) fn all(given: &[&str], drawn: Option<usize>, seed: u64) -> Result<Vec<String>> {
    let has_ranges = given.iter().any(|text| text.contains(".."));
    let Some(count) = drawn else {
        return match has_ranges {
            false => Ok(given.iter().map(|text| (*text).to_owned()).collect()),
            true => Err(Failure::of("a range needs a number of sizes to draw\nhelp: add --drawn 20")),
        };
    };
    if !has_ranges {
        return Err(Failure::of("there is no range to draw sizes from\nhelp: write --size M=1..8192,N=4096"));
    }
    let mut random = Random(seed);
    let drawn = |text: &&str| if text.contains("..") { count } else { 1 };
    let texts = given.iter().flat_map(|text| std::iter::repeat_n(*text, drawn(text)));
    let mut sizes: Vec<String> = Vec::new();
    for text in texts {
        let drawn_sizes = draw(text, &mut random)?;
        if !sizes.contains(&drawn_sizes) {
            sizes.push(drawn_sizes);
        }
    }
    Ok(sizes)
}

/// Sizes with a number for each range.
fn draw(text: &str, random: &mut Random) -> Result<String> {
    let word = |word: &str| {
        let (name, value) = word.split_once('=').map_or(("", word), |(name, value)| (name, value));
        let Some((least, most)) = value.split_once("..") else { return Ok(word.to_owned()) };
        let number = |text: &str| text.trim_start_matches('=').trim().parse::<u64>().ok();
        match (number(least), number(most)) {
            (Some(least), Some(most)) if 0 < least && least <= most => {
                let value = between(random, least, most);
                Ok(if name.is_empty() { value.to_string() } else { format!("{name}={value}") })
            }
            _ => {
                let form = if name.is_empty() { "1..8192".to_owned() } else { format!("{name}=1..8192") };
                Err(Failure::Refused(format!("`{value}` is no range\nhelp: write {form}")))
            }
        }
    };
    let words: Vec<String> = text.split(',').map(word).collect::<Result<_>>()?;
    Ok(words.join(","))
}

/// A number whose logarithm is uniform; half of them are multiples of the largest power of two up to 64 that leaves it in range.
fn between(random: &mut Random, least: u64, most: u64) -> u64 {
    let part = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    let (low, high) = ((least as f64).ln(), (most as f64 + 1.0).ln());
    let value = ((low + part * (high - low)).exp() as u64).clamp(least, most);
    let even = (0..7).rev().map(|bits| value >> bits << bits).find(|even| *even >= least.max(1));
    if random.next().is_multiple_of(2) { even.unwrap_or(value) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_drawn_from_ranges() {
        let Ok(drawn) = all(&["M=1..8192,N=4096", "8..16,100"], Some(50), 3) else {
            panic!("there are sizes")
        };
        let of_first = drawn.iter().filter(|sizes| sizes.starts_with('M')).count();
        assert!(of_first > 30 && drawn.len() < 60, "{drawn:?}");
        for sizes in &drawn[..of_first] {
            let (m, n) = sizes.split_once(',').expect("two sizes");
            let m: u64 = m.strip_prefix("M=").expect("its name").parse().expect("a number");
            assert!((1..=8192).contains(&m) && n == "N=4096", "{sizes}");
        }
        assert!(drawn[of_first..].iter().all(|sizes| sizes.ends_with(",100")), "{drawn:?}");
    }

    #[track_caller]
    fn check(given: &[&str], drawn: Option<usize>, expected: &str) {
        let refused = all(given, drawn, 0).err().map(|failure| format!("{failure:?}"));
        assert_eq!(refused.as_deref(), Some(format!("Refused({expected:?})").as_str()));
    }

    #[test]
    fn mistakes() {
        check(&["M=1..8"], None, "a range needs a number of sizes to draw\nhelp: add --drawn 20");
        check(&["M=8"], Some(2), "there is no range to draw sizes from\nhelp: write --size M=1..8192,N=4096");
        check(&["M=8..1"], Some(2), "`8..1` is no range\nhelp: write M=1..8192");
    }
}
