//! Random products on a device, in every applicable variant.

use tilewright_tests::draw::{self, Draw, Fit, Scale};

use super::{device_run, stream};

#[test]
fn products_drawn_at_random() {
    let Some(stream) = stream() else { return };
    let judge = |draw: &Draw| -> Result<(), String> {
        // One stream per draw: creation is cheap, and launches on one stream are serialised.
        let stream = stream.device().stream().map_err(|why| why.to_string())?;
        let kernel = draw.kernel()?;
        let problem = draw.problem(&kernel);
        for (index, variant) in device_run::variants(&kernel).iter().enumerate() {
            let tell = |why: String| format!("variant {}: {why}", index + 1);
            let ran = device_run::judge(&stream, variant, &problem).map_err(tell)?;
            if !ran && draw.fit == Fit::Whole && device_run::runs_here(&stream, variant) {
                return Err(tell("it did not run".into()));
            }
        }
        Ok(())
    };
    // Compilation dominates the time.
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    draw::each(200, Scale::Large, threads, judge);
}
