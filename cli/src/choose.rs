//! `tilewright choose`: which of the shipped products is predicted to be the fastest for a problem, and why.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use tilewright::kernels::choose::{Choice, DeviceLimits, Problem, Ranking, candidates, rank};
use tilewright_codegen::Elem;

use crate::bench::{option, sizes, texts, time};
use crate::output::{self, Failure, Result, finish, print};

const EXAMPLES: &str = "\
Examples:
  tilewright choose 1024 4096x4096x512
  tilewright choose 2048 --layouts nn,nt,tn,tt
  tilewright choose 64x256x256x256
  tilewright choose 4096 --kernel 'vec=4 bk=16' --kernel 'vec=4 bk=16 stages=3' --multiprocessors 114";

const MODEL: &str = "\
A wave is as many blocks as the multiprocessors hold at once. It takes the clocks before the main loop, those of each iteration,
and those after it; a launch is its waves one after the other. `tilewright bench gemm` compares this with a GPU.";

pub(crate) fn command() -> Command {
    Command::new("choose")
        .about("Say which matrix product is expected to be the fastest for a size, and why: no GPU needed")
        .arg(
            Arg::new("sizes")
                .value_name("SIZE")
                .help("n, MxNxK, or LxMxNxK for a batch of L")
                .num_args(1..)
                .required(true),
        )
        .arg(
            option("layouts", "LAYOUTS", "nn, nt, tn, tt: as BLAS writes it, columns of C contiguous")
                .value_delimiter(',')
                .default_value("nt"),
        )
        .arg(option("dtype", "TYPE", "Element type of A and B").default_value("f32"))
        .arg(
            option("kernel", "KEYS", "Keys of `matmul_kernel!`; may be given several times")
                .action(ArgAction::Append),
        )
        .arg(
            option("multiprocessors", "N", "How many the device has; all else is an H200's")
                .default_value("132")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .after_help(format!("{EXAMPLES}\n\n{MODEL}\n\n{}", output::EXIT_CODES))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    finish(show(matches))
}

fn show(matches: &ArgMatches) -> Result {
    let multiprocessors = matches.get_one("multiprocessors").copied().unwrap_or(132);
    let device = DeviceLimits { multiprocessors, ..DeviceLimits::H200 };
    let name = texts(matches, "dtype").concat();
    let elem = Elem::named(&name)
        .ok_or_else(|| Failure::Refused(format!("`{name}` is no element type; write {}", Elem::names())))?;
    for size in texts(matches, "sizes") {
        let parts = if size.split('x').count() == 4 { 4 } else { 3 };
        for [batch, m, n, k] in sizes(&[size], parts).map_err(Failure::Refused)? {
            for letters in texts(matches, "layouts") {
                let problem = Problem::new(elem, m, n, k).layouts(letters).map_err(Failure::of)?;
                let problem = if parts == 4 { problem.batched(batch) } else { problem };
                let given = texts(matches, "kernel");
                let keys = if given.is_empty() { candidates(&problem) } else { given };
                let ranking = rank(&keys, &problem, &device).map_err(Failure::of)?;
                print(&format!("{elem} {letters}, {size}\n{}\n", table(&ranking, &problem)))?;
            }
        }
    }
    Ok(())
}

/// The candidates, best first, followed by the refused ones.
fn table(ranking: &Ranking, problem: &Problem) -> String {
    let heads =
        "time TFLOP/s tiles blocks waves before iterations iteration after registers shared variant kernel";
    let operations =
        2.0 * problem.batch.unwrap_or(1) as f64 * problem.sizes.iter().map(|&n| n as f64).product::<f64>();
    let row = |Choice { keys, predicted, .. }: &Choice| {
        let (facts, [before, iteration, after]) = (&predicted.facts, predicted.clocks);
        vec![
            time(predicted.seconds),
            format!("{:.1}", operations / predicted.seconds / 1e12),
            facts.tiles.to_string(),
            facts.blocks.to_string(),
            predicted.waves.to_string(),
            format!("{before:.0}"),
            facts.work.iterations.to_string(),
            format!("{iteration:.0}"),
            format!("{after:.0}"),
            facts.registers.to_string(),
            facts.shared_bytes.to_string(),
            (facts.variant + 1).to_string(),
            if keys.is_empty() { "matmul".to_owned() } else { keys.clone() },
        ]
    };
    let head = heads.split(' ').map(str::to_owned).collect();
    let rows: Vec<_> = std::iter::once(head).chain(ranking.choices.iter().map(row)).collect();
    let mut text = output::table(&rows, &(0..12).collect::<Vec<_>>());
    ranking.refused.iter().for_each(|(keys, why)| text += &format!("not `{keys}`: {why}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_candidates() {
        let problem = Problem::new(Elem::F32, 256, 128, 1024);
        let mut ranking = rank(&["", "bm=64 bnn=64"], &problem, &DeviceLimits::H200).unwrap();
        let predicted = &mut ranking.choices[0].predicted;
        (predicted.seconds, predicted.clocks) = (2.04e-4, [6050.0, 3044.4, 2749.0]);
        (predicted.facts.registers, predicted.facts.shared_bytes) = (104, 8252);
        let expected = "
     time  TFLOP/s  tiles  blocks  waves  before  iterations  iteration  after  registers  shared  variant  kernel
204.00 µs      0.3      2       2      1    6050         128       3044   2749        104    8252        1  matmul
not `bm=64 bnn=64`: there is no key `bnn`
  bm=64 bnn=64 dtype=f32 a=m_major b=n_major c=m_major batched=false
        ^^^
help: did you mean `bn`?
";
        assert_eq!(format!("\n{}", table(&ranking, &problem)), expected);
    }
}
