//! Matrix instructions of the table, each in isolation, against sums in double precision: the largest error
//! of the hardware is printed for each family of rows.
#![allow(unsafe_code)]

use std::collections::BTreeMap;

use tilewright::runtime::Built;
use tilewright_codegen::cuda;
use tilewright_tests::problem::Operand;
use tilewright_tests::rows::{self, Numbers, Trial, stored, value};

use super::{device_run, stream};

/// The trial as a launchable kernel.
fn built(trial: &Trial) -> Built {
    // SAFETY: the program accesses only what its row does, within tensors of exactly these sizes.
    unsafe { device_run::alone(trial.kernel.clone(), cuda::print(&trial.kernel)) }
}

fn operands(trial: &Trial, given: &[Vec<u8>; 3]) -> Vec<Operand> {
    let elems = trial.elems().map(stored);
    let one = |at: usize| {
        let size = elems[at].bytes() as usize;
        let bits = |part: &[u8]| part.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
        let all: Vec<u64> = given[at].chunks_exact(size).map(bits).collect();
        device_run::whole(["d", "a", "b"][at], elems[at], at == 0, &all)
    };
    (0..3).map(one).collect()
}

fn check(chosen: impl Fn(&str) -> bool) {
    let Some(stream) = stream() else { return };
    let (mut worst, mut wrong) = (BTreeMap::<(String, String), f64>::new(), Vec::new());
    for trial in rows::sample().filter(|trial| chosen(trial.row.name)) {
        let (kernel, elem, name) = (built(&trial), trial.elems()[0], trial.row.name);
        if !device_run::runs_here(&stream, &kernel) {
            continue;
        }
        let family = name
            .split_once('n')
            .map_or(name, |(_, rest)| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        let family = format!("{} {family}", name.split('_').next().unwrap_or_default());
        for (seed, kind) in Numbers::ALL.into_iter().enumerate() {
            let matrices = trial.draw(kind, seed as u64);
            let wanted = trial.wanted(&matrices);
            let buffers = device_run::run(&stream, &kernel, &operands(&trial, &trial.given(&matrices)));
            let buffers = buffers.expect("it runs").expect("it is launched");
            let greatest_off = worst.entry((family.clone(), format!("{kind:?}"))).or_default();
            let mut message = 0;
            for (at, (&bits, &wanted)) in buffers[0].iter().zip(&wanted).enumerate() {
                let got = value(bits, elem);
                let off = wanted.off(got, elem);
                *greatest_off = greatest_off.max(off.unwrap_or(0.0));
                if off.is_none_or(|off| off > trial.within()) {
                    message += 1;
                    if message < 3 {
                        wrong.push(format!("{name}, {kind:?}: element {at} is {got:e}, not {wanted:?}"));
                    }
                }
            }
        }
    }
    for ((family, kind), off) in worst {
        println!("{family:40} {kind:10} {off:.3e} = 2^{:.1}", off.log2());
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn products_of_warps() {
    check(|name| name.starts_with("mma_"));
}

#[test]
fn products_of_warpgroups_in_16_bits() {
    check(|name| name.starts_with("wgmma_") && name.contains("k16_"));
}

#[test]
fn products_of_warpgroups_in_tf32() {
    check(|name| name.starts_with("wgmma_") && name.contains("k8_"));
}

#[test]
fn products_of_warpgroups_in_8_bits() {
    check(|name| name.starts_with("wgmma_") && (name.contains("_e4m3") || name.contains("_e5m2")));
}

#[test]
fn products_of_warpgroups_of_integers() {
    check(|name| name.starts_with("wgmma_") && (name.contains("_i8") || name.contains("_u8")));
}
