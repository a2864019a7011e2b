//! How fast the simulator is: the product of 128x128x8 tiles at 256x256x256 with all checks, and at
//! 1024x1024x1024 without race detection. `cargo run --release -p tilewright-sim --example speed`; a number
//! as argument is another size.

use std::time::Instant;

use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_sim::{Arg, Options, run};

fn main() {
    let kernel = Words::read("bm=128 bn=128 bk=8 tc=(16,16)").and_then(Words::matmul).expect("a product");
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let all = [(256, true), (1024, false)];
    let given: Vec<(usize, bool)> = sizes.into_iter().flat_map(|n| [(n, true), (n, false)]).collect();
    for &(n, races) in if given.is_empty() { &all[..] } else { &given } {
        let a: Vec<f32> = (0..n * n).map(|x| (x % 7) as f32 - 3.0).collect();
        let args = [Arg::tensor(&a, [n, n]), Arg::tensor(&a, [n, n]), Arg::output::<f32>([n, n])];
        let begun = Instant::now();
        let done = run(&kernel, &args, &Options { races, count: true, ..Options::default() });
        let took = begun.elapsed();
        match done {
            Ok(done) if n <= 256 && races => println!("{done}"),
            Ok(_) => {}
            Err(error) => println!("{error}"),
        }
        let what = if races { "all checks" } else { "no race detection" };
        println!("{n} x {n} x {n}, {what}: {:.2} s", took.as_secs_f64());
    }
}
