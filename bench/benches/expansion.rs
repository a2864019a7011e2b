//! Expansion time of `matmul_kernel!` and `#[kernel]`: unoptimised macros, as cargo builds them in every
//! profile unless configured otherwise, called by the compiler.
//!
//! `cargo bench -p tilewright-bench --bench expansion`

use std::path::Path;
use std::time::{Duration, Instant};
use tilewright_tests::UserCrate;

const USES: usize = 40;
const ROUNDS: usize = 5;

const KERNEL: &str = include_str!("expansion/kernel.rs");

fn main() -> std::io::Result<()> {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let user = UserCrate::new(&temporary.join("crates"), "expansion", &[])?;
    let target = temporary.join("target");
    // Different sizes, so that no result of an earlier use can be reused.
    let matmul = |at: usize| {
        let bk = 8 * (at + 1);
        format!(
            "pub const K{at}: MatmulKernel<f32> = matmul_kernel!(bm = 128, bn = 128, bk = {bk}, tc = (16, 16));"
        )
    };
    let kernel = |at: usize| {
        KERNEL
            .replace("matmul_nt", &format!("matmul_{at}"))
            .replace("BK: usize = 8", &format!("BK: usize = {}", 8 * (at + 1)))
    };
    for profile in ["dev", "release"] {
        let empty = check(&user, &target, profile, "")?;
        for (name, one) in [("matmul_kernel!", &matmul as &dyn Fn(usize) -> String), ("#[kernel]", &kernel)] {
            let uses: Vec<String> = (0..USES).map(one).collect();
            let all = check(&user, &target, profile, &uses.join("\n"))?;
            let each = all.saturating_sub(empty) / USES as u32;
            println!("{name:<16} {profile:<8} {:6.2} ms", each.as_secs_f64() * 1e3);
        }
    }
    Ok(())
}

/// The fastest of several compiler runs over a crate with these items.
fn check(user: &UserCrate, target: &Path, profile: &str, items: &str) -> std::io::Result<Duration> {
    let mut fastest = Duration::MAX;
    for round in 0..=ROUNDS {
        let text = format!("//! Round {round}.\nuse tilewright::prelude::*;\n{items}\n");
        user.write("lib.rs", &text)?;
        let start = Instant::now();
        let output = user.cargo(&["check", "--quiet", "--offline", "--profile", profile], target)?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // The first run compiles the dependencies.
        fastest = fastest.min(if round == 0 { Duration::MAX } else { start.elapsed() });
    }
    Ok(fastest)
}
