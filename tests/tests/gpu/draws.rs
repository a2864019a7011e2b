//! Products drawn at random, each with every variant whose facts hold.

use tilewright_tests::draw::{self, Draw, Fit, Scale};

use super::{held, stream};

#[test]
fn products_drawn_at_random() {
    let Some(stream) = stream() else { return };
    let judge = |draw: &Draw| -> Result<(), String> {
        // Streams are cheap, and launches on one wait for one another.
        let stream = stream.device().stream().map_err(|why| why.to_string())?;
        let kernel = draw.kernel()?;
        let problem = draw.problem(&kernel);
        for (place, variant) in held::variants(&kernel).iter().enumerate() {
            let tell = |why: String| format!("variant {}: {why}", place + 1);
            let ran = held::judge(&stream, variant, &problem).map_err(tell)?;
            if !ran && draw.fit == Fit::Whole && held::runs_here(&stream, variant) {
                return Err(tell("it did not run".into()));
            }
        }
        Ok(())
    };
    // Most of the time goes to compiling.
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
    draw::each(200, Scale::Large, threads, judge);
}
