//! `tilewright choose`, or `explain`: the variant of a kernel that a launch takes, the terms of its estimate, and its loops.

use std::process::ExitCode;

use clap::{ArgMatches, Command, value_parser};
use serde_json::json;
use tilewright_codegen::Generated;
use tilewright_codegen::explain::nest;
use tilewright_codegen::launch::{Limits, Ranked, Ranking, Record, Support, model, ranking};
use tilewright_layout::Value;
use tilewright_runtime::records;

use crate::kernel;
use crate::output::{self, Failure, Result, finish, option, print, text, time};
use crate::run::{self, input::Input, problem::unallocated};

const EXAMPLES: &str = "\
Examples:
  tilewright choose linear_hopper --size M=16,N=4096,K=4096
  tilewright choose linear_hopper BM=64 --size 1024,1024,1024
  tilewright choose matmul dtype=bf16 arch=90 a=k_major b=k_major --size 4096,4096,512
  tilewright choose tutorial --size 200,100,50 --multiprocessors 114
  tilewright choose tutorial --size 200,100,50 --json";

const TERMS: &str = "\
A launch takes the variant that a record says is the fastest, or else the one with the least time. A variant runs in waves of
`blocks` blocks on each multiprocessor. A wave takes `tile` clocks, some of them again for each further block, and `step` clocks
for each of its `steps`; `longest` is the unit that limits a step. Memory traffic, edges of tiles, the launch itself and packing
of arguments add to this. Clocks are for an H100. The output ends with the loops of the variant that is taken, which `inspect
--explain` shows without sizes.";

pub(crate) fn command() -> Command {
    Command::new("choose")
        .visible_alias("explain")
        .about("Say which variant of a kernel a launch takes for some sizes, why, and what it runs through: no GPU needed")
        .args(kernel::args())
        .arg(run::sizes("Extents, in this order or by name: M=300,K=7").visible_alias("sizes").required_unless_present("input"))
        .arg(run::inputs())
        .arg(
            option("multiprocessors", "N", "How many the device has; all else is an H100's")
                .default_value("132")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            option("name", "NAME", "The device's name; its records count")
                .default_value(NAME),
        )
        .arg(output::json_flag())
        .after_help(format!(
            "{}\n\n{TERMS}\n\n{}\n\n{}",
            kernel::examples(EXAMPLES),
            output::EXIT_CODES,
            kernel::help()
        ))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    finish(show(matches))
}

fn show(matches: &ArgMatches) -> Result {
    let generated = kernel::chosen(matches)?.generated;
    let device = Device {
        multiprocessors: matches.get_one("multiprocessors").copied(),
        name: text(matches, "name").unwrap_or_default(),
    };
    let decision = Decision::new(generated, text(matches, "size"), &run::described(matches)?, &device)?;
    match matches.get_flag("json") {
        true => output::json(&decision.json()),
        false => {
            let Decision { kernel, sizes, ranking } = &decision;
            let sizes: Vec<String> = sizes.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            print(&format!("{}: {}\n\n{}", kernel.name, sizes.join(", "), table(kernel, ranking)))
        }
    }
}

/// The device whose records count unless the command names another.
pub(crate) const NAME: &str = "NVIDIA H200";

/// The device that a kernel is chosen for. What is not given is an H100's.
pub(crate) struct Device<'d> {
    pub(crate) multiprocessors: Option<u32>,
    pub(crate) name: &'d str,
}

/// The decision of a launch.
pub(crate) struct Decision {
    kernel: Generated,
    /// Extents by name.
    sizes: Vec<(String, i64)>,
    ranking: Ranking,
}

impl Decision {
    pub(crate) fn new(
        kernel: Generated,
        sizes: Option<&str>,
        inputs: &[Input],
        device: &Device<'_>,
    ) -> Result<Decision> {
        let kernel = records::consulted(kernel).map_err(Failure::of)?;
        let (sizes, given) = unallocated(&kernel, sizes, inputs)?;
        let limits = kernel::limits(&kernel);
        let multiprocessors = device.multiprocessors.unwrap_or(limits.multiprocessors);
        let limits = Limits { multiprocessors, model: model(device.name), ..limits };
        let ranking = ranking(&kernel, &given, &limits).map_err(Failure::of)?;
        Ok(Decision { kernel, sizes, ranking })
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let Decision { kernel, sizes, ranking } = self;
        let serves = ranking.serves.iter().map(|one| {
            let terms = row(kernel, one);
            let terms = HEAD.split(' ').zip(terms).map(|(name, term)| (name.to_owned(), term.into()));
            json!({
                "variant": one.variant + 1,
                "seconds": one.estimate.map(|of| of.seconds()),
                "competes": one.competes,
                "terms": terms.collect::<serde_json::Map<_, _>>(),
            })
        });
        let loops = ranking.serves.first().map(|one| nest(&kernel.variant(one.variant).program));
        json!({
            "kernel": kernel.name,
            "sizes": sizes.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "serves": serves.collect::<Vec<_>>(),
            "by_estimate": ranking.record.is_none() && ranking.serves.first().is_some_and(|one| one.competes),
            "why": why(kernel, ranking),
            "loops": loops,
        })
    }
}

/// The columns of the table.
const HEAD: &str =
    "time clocks waves blocks steps step longest tile memory edges launch packing variant program";

/// The variants that can run, best first, followed by the others.
fn table(kernel: &Generated, ranking: &Ranking) -> String {
    let head: Vec<&str> = HEAD.split(' ').collect();
    let rows = ranking.serves.iter().map(|one| row(kernel, one));
    let mut text =
        output::table(&head, rows, &[0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]) + &why(kernel, ranking);
    if let Some(Ranked { variant, .. }) = ranking.serves.first() {
        let loops = nest(&kernel.variant(*variant).program);
        text += &format!("\nvariant {} runs through\n{loops}", variant + 1);
    }
    text
}

/// Why the first one is taken where its estimate does not decide, and why others read copies or cannot run.
fn why(kernel: &Generated, ranking: &Ranking) -> String {
    let mut text = String::new();
    if let (Some(Support { record, decides }), [first, ..]) = (&ranking.record, &ranking.serves[..]) {
        let Record { device, microseconds, spread, estimated, driver, .. } = record;
        let taken = if *decides {
            "is taken by a record"
        } else {
            "has a shorter estimate, by a record of near sizes"
        };
        text += &format!(
            "\nvariant {} {taken}: {} ± {:.1} % on {device}, driver {driver}, for {}; the estimate's choice took {estimated:.3} \
             times as long\n",
            first.variant + 1,
            time(microseconds / 1e6),
            100.0 * spread,
            record.named_sizes(),
        );
    }
    if let [first, _, ..] = &ranking.serves[..]
        && !first.competes
    {
        text += &format!("\nvariant {} is taken as the first that can run\n", first.variant + 1);
    }
    let copied = ranking.serves.iter().flat_map(|one| {
        let why = |(arg, why): &(usize, String)| format!("a copy of `{}`: {why}", kernel.params[*arg].name);
        one.packed.iter().map(move |packed| (one.variant, why(packed)))
    });
    text += &grouped(copied, ["reads", "read"]);
    text += &grouped(ranking.refused.iter().cloned(), ["cannot run:", "cannot run:"]);
    text + &left_out(kernel)
}

/// The alternatives that cannot be made, and why not.
pub(crate) fn left_out(kernel: &Generated) -> String {
    let line = |(alternative, why): &(String, String)| {
        format!("left out: {alternative}: {}\n", why.lines().next().unwrap_or_default())
    };
    kernel.report.left_out.iter().map(line).collect()
}

/// Variants with their reasons; variants with the same reason are in one line. Variants that differ only in tiles
/// often have the same reasons.
fn grouped(all: impl Iterator<Item = (usize, String)>, verbs: [&str; 2]) -> String {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (variant, why) in all {
        let variant = (variant + 1).to_string();
        match lines.iter_mut().find(|(known, _)| *known == why) {
            Some((_, variants)) => variants.push(variant),
            None => lines.push((why, vec![variant])),
        }
    }
    let line = |(why, variants): &(String, Vec<String>)| match &variants[..] {
        [one] => format!("\nvariant {one} {} {why}", verbs[0]),
        all => format!("\nvariants {} {} {why}", all.join(", "), verbs[1]),
    };
    let text: String = lines.iter().map(line).collect();
    if text.is_empty() { text } else { text + "\n" }
}

fn row(kernel: &Generated, one: &Ranked) -> Vec<String> {
    let mut row = match &one.estimate {
        None => vec!["-".to_owned(); 12],
        Some(of) => {
            let first = [of.clocks, of.waves, of.blocks, of.steps, of.step].map(|n| n.to_string());
            let last = [of.tile, of.memory, of.edges, of.launch, of.packing].map(|n| n.to_string());
            let longest = one.limit.unwrap_or("-").to_owned();
            std::iter::once(time(of.seconds())).chain(first).chain([longest]).chain(last).collect()
        }
    };
    row.extend([(one.variant + 1).to_string(), program(kernel, one.variant)]);
    row
}

/// The constants that make a variant another alternative, and its grid.
fn program(kernel: &Generated, variant: usize) -> String {
    let variant = kernel.variant(variant);
    let launch = &variant.program.launch;
    let product = |factors: &Vec<Value>| factors.iter().map(Value::to_string).collect::<Vec<_>>().join("*");
    let axes: Vec<String> =
        launch.grid.iter().map(product).filter(|axis| !matches!(&**axis, "" | "1")).collect();
    let grid = format!("{} threads, {}", launch.threads, axes.join(" x "));
    variant.label.iter().cloned().chain([grid]).collect::<Vec<_>>().join("; ")
}
