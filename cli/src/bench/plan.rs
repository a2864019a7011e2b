//! What a comparison of products measures: kernels, grouped by form, and sizes.

use clap::ArgMatches;
use tilewright::kernels::choose::{self, Problem, candidates};
use tilewright::kernels::{DOUBLE, FASTEST};
use tilewright_codegen::Elem;
use tilewright_codegen::words::Words;

use super::case::Row;
use super::command::{sizes, texts};
use super::gemm::Ours;
use super::{Result, ladder, names};

/// The default contenders: keys of `matmul_kernel!`.
const BEST: &[(Elem, &[&str])] = &[
    (Elem::F32, FASTEST),
    (Elem::F64, &[DOUBLE, "bm=64 bn=64"]),
    (Elem::F16, &["arch=90", "vec=8 bk=16"]),
    (Elem::Bf16, &["arch=90", "vec=8 bk=16"]),
    (Elem::I8, &["arch=90", "bm=64 bn=64"]),
    (Elem::I32, &["bm=64 bn=64"]),
    (Elem::Tf32, &["arch=90"]),
    (Elem::E4m3, &["arch=90", "arch=90 fast_accum=true"]),
    (Elem::E5m2, &["arch=90", "arch=90 fast_accum=true"]),
];

/// A plan of measurements: kernels of one form each, and sizes for all of them.
pub(super) struct Plan {
    pub(super) groups: Vec<(String, Vec<Ours>)>,
    pub(super) sizes: Vec<[i64; 4]>,
    pub(super) explain: Option<Explain>,
}

/// Explains the rows of one size.
pub(super) type Explain = fn(&[Ours], &[Row]) -> String;

fn elem(matches: &ArgMatches) -> Result<Elem> {
    let name = texts(matches, "dtype").concat();
    let known = || BEST.iter().map(|(elem, _)| elem.name()).collect::<Vec<_>>().join(", ");
    let elem = Elem::named(&name).filter(|elem| BEST.iter().any(|(known, _)| known == elem));
    elem.ok_or_else(|| format!("`{name}` is no element type of a product; write one of {}", known()))
}

/// The product of these keys; the comparison sets the keys that they leave open.
fn product(keys: &str, problem: &Problem) -> Result<Ours> {
    let (_, kernel) = choose::kernel(keys, problem).map_err(|why| why.to_string())?;
    let words = Words::read(keys).map_err(|why| why.to_string())?;
    Ours::new(if keys.is_empty() { "matmul" } else { keys }, kernel, words.args())
}

/// The products of these keys, with short names.
fn products(keys: &[&str], problem: &Problem) -> Result<Vec<Ours>> {
    let named = |(keys, name)| {
        let mut ours = product(keys, problem)?;
        ours.name = name;
        Ok(ours)
    };
    keys.iter().copied().zip(names::short(keys)).map(named).collect()
}

pub(super) fn gemm_tasks(matches: &ArgMatches) -> Result<Plan> {
    let elem = elem(matches)?;
    let given = texts(matches, "kernel");
    let usual = BEST.iter().find(|(known, _)| *known == elem).map_or(&[][..], |(_, keys)| keys);
    let mut keys = if given.is_empty() { usual.to_vec() } else { given.clone() };
    // The chooser's candidates take part, unless they are already there under another spelling.
    let typed = format!("dtype={elem} ");
    let more =
        candidates(&Problem::new(elem, 1, 1, 1)).into_iter().map(|keys| keys.trim_start_matches(&typed));
    keys.extend(more.filter(|keys| given.is_empty() && !usual.contains(keys)));
    let mut layouts = texts(matches, "layouts");
    if layouts.is_empty() {
        // On tensor cores these are multiplied along K only.
        let k_major = elem.bytes() == 1 || elem == Elem::Tf32;
        layouts.push(if k_major { "tn" } else { "nt" });
    }
    let mut groups = Vec::new();
    for letters in layouts {
        let problem = Problem::new(elem, 1, 1, 1).layouts(letters).map_err(|why| why.to_string())?;
        groups.extend(by_form("gemm", products(&keys, &problem)?));
    }
    plan(groups, sizes(&texts(matches, "sizes"), 3)?, None)
}

pub(super) fn ladder_tasks(matches: &ArgMatches) -> Result<Plan> {
    let groups = vec![(format!("ladder {}", ladder::ELEM), ladder::kernels()?)];
    plan(groups, sizes(&texts(matches, "sizes"), 3)?, Some(ladder::explain))
}

pub(super) fn batched_tasks(matches: &ArgMatches) -> Result<Plan> {
    let elem = elem(matches)?;
    let given = texts(matches, "kernel");
    let one = Problem::new(elem, 1, 1, 1);
    let (keys, problem) = match given.is_empty() {
        true => (candidates(&one.batched(1)), one.batched(1)),
        false => (given, one),
    };
    let groups = by_form("batched", products(&keys, &problem)?);
    plan(groups, sizes(&texts(matches, "sizes"), 4)?, None)
}

/// Kernels of the same form, in the order of their first: each form has its own peer.
fn by_form(suite: &str, all: Vec<Ours>) -> Vec<(String, Vec<Ours>)> {
    let mut groups: Vec<(String, Vec<Ours>)> = Vec::new();
    for ours in all {
        match groups.iter_mut().find(|(_, group)| group[0].form == ours.form) {
            Some((_, group)) => group.push(ours),
            None => groups.push((format!("{suite} {}", ours.form), vec![ours])),
        }
    }
    groups
}

fn plan(groups: Vec<(String, Vec<Ours>)>, sizes: Vec<[i64; 4]>, explain: Option<Explain>) -> Result<Plan> {
    match groups.is_empty() {
        true => Err("there is nothing to measure".into()),
        false => Ok(Plan { groups, sizes, explain }),
    }
}

/// Short names whose keys are not their own text, and these keys; each once.
pub(super) fn legend(plan: &Plan) -> Vec<(&str, &str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for ours in plan.groups.iter().flat_map(|(_, ours)| ours) {
        let one = (ours.name.as_str(), ours.keys.as_str());
        if one.0 != one.1 && !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::command::command;
    use super::*;

    fn matches(line: &str) -> ArgMatches {
        command().get_matches_from(line.split_whitespace())
    }

    #[test]
    fn the_usual_kernels_are_products_of_their_types() {
        for (elem, _) in BEST {
            let line = format!("bench gemm --dtype {elem} --layouts nn,nt,tn,tt");
            let plan = gemm_tasks(matches(&line).subcommand().unwrap().1).unwrap();
            // With and without fast accumulation, 8-bit floats are two comparisons.
            let forms = if matches!(elem, Elem::E4m3 | Elem::E5m2) { 8 } else { 4 };
            assert_eq!((plan.groups.len(), plan.sizes.len()), (forms, 3));
            assert!(plan.groups.iter().all(|(_, ours)| ours[0].form.a == *elem));
        }
        let plan = batched_tasks(matches("bench batched").subcommand().unwrap().1).unwrap();
        assert_eq!(plan.sizes[0], [64, 128, 128, 128]);
    }

    #[test]
    fn mistakes_are_named() {
        let said = |line: &str| gemm_tasks(matches(line).subcommand().unwrap().1).err().unwrap_or_default();
        let expected = "`fp8` is no element type of a product; write one of f32, f64, f16, bf16, i8, i32, tf32, e4m3, e5m2";
        assert_eq!(said("bench gemm --dtype fp8"), expected);
        assert!(said("bench gemm --layouts n").contains("write one of nn, nt, tn, tt"));
        assert!(said("bench gemm --kernel bmm=64").contains("did you mean `bm`?"));
    }
}
