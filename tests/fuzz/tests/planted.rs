//! Faults planted in the generator: `cargo xtask fuzz kernels --planted` runs all of them.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tilewright_fuzz::planted::{Search, faults, misfits, search};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_path_buf()
}

/// A changed line under a fault of the table is reported with the row to adapt.
#[test]
fn planted_faults_still_apply() {
    let misfits = misfits(&root());
    assert!(misfits.is_empty(), "{}", misfits.join("\n\n"));
    let count = faults().count();
    assert!(count >= 100, "{count} faults");
}

/// Ten that are not rare, other ones in each run.
#[test]
fn ten_planted_faults_are_found() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
    let sample = Search { root: root(), count: 10_000, only: Vec::new(), sample: Some((10, seed)) };
    assert_eq!(search(&sample), Ok(0), "repeat it with `--planted --sample 10 --seed {seed}`");
}
