//! Random products on tensor cores on a device, each launched as users do, at three sizes.

use tilewright::runtime::Built;
use tilewright_tests::by_all_cores;
use tilewright_tests::configuration::{Configuration, Scale};

use super::{device_run, stream};

/// Configurations per run; `TILEWRIGHT_PRODUCTS` sets another number.
const CONFIGURATIONS: u64 = 300;
/// Seeds of the simulator's test are smaller; `TILEWRIGHT_PRODUCTS_FROM` sets another first seed.
const FIRST: u64 = 1_000_000;

fn setting(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The outcome of a configuration: launches, or the reason of its refusal.
type Outcome = Result<(u32, Option<String>), String>;

#[allow(unsafe_code)]
fn judge(seed: u64) -> Outcome {
    let Some(stream) = stream() else { return Ok((0, None)) };
    let scale = Scale::Device(stream.device().properties().arch());
    let first = Configuration::draw(seed, scale);
    let kernel = match first.kernel() {
        Ok(kernel) => kernel,
        Err(why) if Configuration::names_a_limit(&why) => return Ok((0, Some(why))),
        Err(why) => return Err(format!("{}\n{why}", first.text())),
    };
    // SAFETY: the kernel is as it was generated.
    let built = unsafe { Built::new(kernel.clone()) };
    let mut ran = 0;
    for of in [first.clone(), first.resized(seed, scale), first.resized(seed + 7, scale)] {
        let problem = of.problem(&kernel);
        match device_run::judge(&stream, &built, &problem) {
            Ok(launched) => ran += u32::from(launched),
            Err(why) if of.is_empty(&why) || why.contains("it has no elements") => {}
            Err(why) => return Err(format!("{}\n{why}", of.text())),
        }
    }
    Ok((ran, None))
}

#[test]
fn random_products_on_tensor_cores() {
    if stream().is_none() {
        return;
    }
    let count = setting("TILEWRIGHT_PRODUCTS", CONFIGURATIONS);
    let first = setting("TILEWRIGHT_PRODUCTS_FROM", FIRST);
    let seeds: Vec<u64> = (first..first + count).collect();
    let all = by_all_cores(&seeds, |&seed| judge(seed));
    let wrong: Vec<&str> = all.iter().filter_map(|one| one.as_ref().err().map(String::as_str)).collect();
    let refused: Vec<&str> = all.iter().filter_map(|one| one.as_ref().ok()?.1.as_deref()).collect();
    let ran: u32 = all.iter().filter_map(|one| Some(one.as_ref().ok()?.0)).sum();
    eprintln!("{count} configurations: {ran} launches, {} refused\n{}", refused.len(), refused.join("\n"));
    assert!(wrong.is_empty(), "{} of {count} are wrong\n\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(refused.len() as u64 * 10 <= count, "{} of {count} are refused", refused.len());
    assert!(u64::from(ran) > 2 * count, "only {ran} launches");
}
