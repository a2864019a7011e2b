//! `cargo xtask fuzz kernels`
use std::collections::BTreeMap;
use tilewright_fuzz::judge::{Plan, Source, Verdict, judge};
use tilewright_fuzz::{draw, source};

fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (from, count) = (args[0], args[1]);
    std::panic::set_hook(Box::new(|_| {}));
    let mut refused: BTreeMap<String, u32> = BTreeMap::new();
    let (mut right, mut wrong, mut undefined) = (0, 0, BTreeMap::<String, u32>::new());
    let (mut ran, mut none) = (0u64, 0);
    let mut launch: BTreeMap<String, u32> = BTreeMap::new();
    let mut elements = [0u64; 2];
    for seed in from..from + count {
        let subject = draw::subject(seed);
        let plan = Plan { seed, runs: 1, sizes: Default::default() };
        match judge(&subject, &plan) {
            Verdict::Right(r) => {
                right += 1;
                ran += r.ran.iter().map(|n| u64::from(*n)).sum::<u64>();
                if r.ran.iter().sum::<u32>() == 0 { none += 1 }
                for why in r.refused { *launch.entry(short(&why)).or_default() += 1 }
                elements[0] += r.elements[0]; elements[1] += r.elements[1];
            }
            Verdict::Refused(why) => { let n = refused.entry(short(&why)).or_default(); *n += 1; if *n == 1 { eprintln!("refused seed {seed}: {why}"); if args.len() > 2 { if let Source::Text(d) = &subject.source { eprintln!("{}", source::definition(d)); } } } }
            Verdict::Undefined(why) => { let n = undefined.entry(short(&why)).or_default(); *n += 1; if *n == 1 { eprintln!("undefined seed {seed}: {why}") } }
            Verdict::Wrong(w) => {
                wrong += 1;
                if wrong <= 30 {
                    println!("seed {seed}, first: {}", w.why);
                    let (subject, _, w) = tilewright_fuzz::shrink::smallest(subject, plan, *w);
                    println!("seed {seed}, variant {}: {}", w.variant + 1, w.why);
                    if let Some(case) = &w.case { println!("  {:?} {}", case.fit, case.text()); }
                    if let Source::Text(d) = &subject.source { println!("{}", source::definition(d)); }
                    println!("{:?}", subject.changes);
                }
            }
        }
    }
    println!("{right} right, {wrong} wrong, undefined {undefined:#?}, refused {}: {refused:#?}", refused.values().sum::<u32>());
    println!("{ran} runs, {none} never ran, launch refused {launch:#?}, elements {elements:?}");
}

fn short(why: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    for c in why.lines().next().unwrap_or("").chars() {
        if c == '`' { quoted = !quoted; continue }
        if quoted || c.is_ascii_digit() { if !out.ends_with('#') { out.push('#') } continue }
        out.push(c);
    }
    out.chars().take(90).collect()
}
