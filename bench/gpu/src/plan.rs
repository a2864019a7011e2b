//! The plan of a comparison of products: kernels, grouped by their peer, and sizes.

use clap::ArgMatches;
use tilewright::kernels::{self, DOUBLE, FASTEST, PRODUCTS};
use tilewright_codegen::Elem;
use tilewright_codegen::words::{Kernels as _, Words};

use super::case::Row;
use super::command::sizes;
use super::form::Extents;
use super::gemm::Ours;
use super::{Result, ladder, names};
use tilewright_cli::output::texts;

/// The keys of the product that is made for Hopper, and chooses its tile at launch.
const HOPPER: &str = "arch=90";

/// The default contenders: keys of `matmul_kernel!`.
const BEST: &[(Elem, &[&str])] = &[
    (Elem::F32, FASTEST),
    (Elem::F64, &[HOPPER, DOUBLE, "bm=64 bn=64"]),
    (Elem::F16, &[HOPPER, "schedule=(vec=8) bk=16 mma=none"]),
    (Elem::Bf16, &[HOPPER, "schedule=(vec=8) bk=16 mma=none"]),
    (Elem::I8, &[HOPPER, "bm=64 bn=64"]),
    (Elem::I32, &["bm=64 bn=64"]),
    (Elem::Tf32, &[HOPPER]),
    (Elem::E4m3, &[HOPPER, "arch=90 fast_accum=true"]),
    (Elem::E5m2, &[HOPPER, "arch=90 fast_accum=true"]),
];

/// A plan of measurements: kernels with one peer each, and sizes for all of them.
pub(crate) struct Plan {
    pub(crate) groups: Vec<(String, Vec<Ours>)>,
    pub(crate) sizes: Vec<Extents>,
    pub(crate) explain: Option<Explain>,
    /// Each variant that can run is a contender if its estimate is at most this many times the least.
    pub(crate) every_variant: Option<f64>,
}

/// Explains the rows of one size.
pub(crate) type Explain = fn(&[Ours], &[Row]) -> String;

fn elem(matches: &ArgMatches) -> Result<Elem> {
    let name = texts(matches, "dtype").concat();
    let known = || BEST.iter().map(|(elem, _)| elem.name()).collect::<Vec<_>>().join(", ");
    let elem = Elem::named(&name).filter(|elem| BEST.iter().any(|(known, _)| known == elem));
    elem.ok_or_else(|| format!("`{name}` is no element type of a product; write one of {}", known()))
}

/// The common keys of a comparison's products, which contenders leave open.
#[derive(Clone, Copy)]
struct Problem {
    elem: Elem,
    /// The layouts of A and B in BLAS letters, for a C with contiguous columns: `n` is not transposed, `t` is.
    letters: &'static str,
    batched: bool,
}

const LAYOUTS: [&str; 4] = ["nn", "nt", "tn", "tt"];

impl Problem {
    fn new(elem: Elem, letters: &str) -> Result<Problem> {
        let known = LAYOUTS.into_iter().find(|known| *known == letters);
        let letters = known.ok_or_else(|| {
            format!("`{letters}` is no layout of a product; write one of {}", LAYOUTS.join(", "))
        })?;
        Ok(Problem { elem, letters, batched: false })
    }

    fn keys(&self) -> [(&'static str, &'static str); 5] {
        let major = |k: bool, other| if k { "k_major" } else { other };
        [
            ("dtype", self.elem.name()),
            ("a", major(self.letters.starts_with('t'), "m_major")),
            ("b", major(self.letters.ends_with('n'), "n_major")),
            ("c", "m_major"),
            ("batched", if self.batched { "true" } else { "false" }),
        ]
    }

    /// The shipped products of the type and batch: the fastest, and the products for other types than f32 or for batches.
    fn candidates(&self) -> Vec<&'static str> {
        let words = |of: &'static str| of.split_whitespace().filter_map(|word| word.split_once('='));
        let agrees = |of: &&&'static str| {
            let wanted = self.keys();
            let typed = self.elem == Elem::F32 || words(of).any(|(key, _)| key == "dtype");
            let differs = |(key, value): (&str, &str)| wanted.iter().any(|(k, v)| *k == key && *v != value);
            typed && !words(of).any(differs)
        };
        let special = |of: &&&'static str| words(of).any(|(key, _)| key == "dtype" || key == "batched");
        let mut all: Vec<&str> = Vec::new();
        for keys in FASTEST.iter().chain(PRODUCTS.iter().filter(special)).filter(agrees) {
            if !all.contains(keys) {
                all.push(keys);
            }
        }
        all
    }
}

/// Products that are written as a `#[kernel]`: the name, and keys that describe the computation in addition to their arguments.
const WRITTEN: &[(&str, &str)] = &[("linear", "epilogue=gelu"), ("linear_hopper", "epilogue=gelu")];

/// The product of these keys, or the kernel of this name and these constants. The comparison sets the other keys.
fn product(keys: &str, problem: &Problem) -> Result<Ours> {
    let read = |keys: &str| Words::read(keys).map_err(|why| why.to_string());
    let (name, constants) = keys.split_once(' ').unwrap_or((keys, ""));
    if let Some((_, meaning)) = WRITTEN.iter().find(|row| row.0 == name) {
        let shipped = kernels::named(name).ok_or_else(|| format!("`{name}` is not shipped"))?;
        let def = Words::specialize(&shipped.def, constants).map_err(|why| why.to_string())?;
        let kernel = def.generate().map_err(|why| why.to_string())?;
        return Ours::new(keys, kernel, read(meaning)?.args());
    }
    let written = read(keys)?;
    let is_written =
        |key: &str| written.args().iter().any(|arg| arg.name.as_ref().is_some_and(|of| of.text == key));
    let open = problem.keys().into_iter().filter(|(key, _)| !is_written(key));
    let all = open.fold(keys.to_owned(), |all, (key, value)| format!("{all} {key}={value}"));
    let kernel = read(&all)?.matmul().map_err(|why| why.to_string())?;
    Ours::new(if keys.is_empty() { "matmul" } else { keys }, kernel, written.args())
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

pub(crate) fn gemm_tasks(matches: &ArgMatches) -> Result<Plan> {
    let elem = elem(matches)?;
    let given = texts(matches, "kernel");
    let usual = BEST.iter().find(|(known, _)| *known == elem).map_or(&[][..], |(_, keys)| keys);
    let mut keys = if given.is_empty() { usual.to_vec() } else { given.clone() };
    // Shipped products take part, unless they are already there under another spelling.
    let typed = format!("dtype={elem} ");
    let candidates = Problem::new(elem, "nt")?.candidates();
    let more = candidates.into_iter().map(|keys| keys.trim_start_matches(&typed));
    keys.extend(more.filter(|keys| given.is_empty() && !usual.contains(keys)));
    let mut layouts = texts(matches, "layouts");
    if layouts.is_empty() {
        // On tensor cores these are multiplied along K only.
        let k_major = elem.bytes() == 1 || elem == Elem::Tf32;
        layouts.push(if k_major { "tn" } else { "nt" });
    }
    let mut groups = Vec::new();
    for letters in layouts {
        groups.extend(by_peer("gemm", products(&keys, &Problem::new(elem, letters)?)?));
    }
    let plan = plan(groups, sizes(&texts(matches, "sizes"), 3)?, None)?;
    Ok(Plan { every_variant: matches.get_one("every-variant").copied(), ..plan })
}

pub(crate) fn ladder_tasks(matches: &ArgMatches) -> Result<Plan> {
    let groups = vec![(format!("ladder {}", ladder::ELEM), ladder::kernels()?)];
    plan(groups, sizes(&texts(matches, "sizes"), 3)?, Some(ladder::explain))
}

pub(crate) fn batched_tasks(matches: &ArgMatches) -> Result<Plan> {
    let elem = elem(matches)?;
    let given = texts(matches, "kernel");
    let one = Problem::new(elem, "nt")?;
    let batch = Problem { batched: true, ..one };
    let (keys, problem) = match given.is_empty() {
        true => {
            let usual = BEST.iter().find(|(known, _)| *known == elem).map_or(&[][..], |(_, keys)| keys);
            let hopper = usual.iter().filter(|keys| **keys == HOPPER).copied();
            (hopper.chain(batch.candidates()).collect(), batch)
        }
        false => (given, one),
    };
    let groups = by_peer("batched", products(&keys, &problem)?);
    plan(groups, sizes(&texts(matches, "sizes"), 4)?, None)
}

/// Kernels with the same peer, in the order of their first.
fn by_peer(suite: &str, all: Vec<Ours>) -> Vec<(String, Vec<Ours>)> {
    let peer = |ours: &Ours| ours.form.peer().unwrap_or(ours.form);
    let mut groups: Vec<Vec<Ours>> = Vec::new();
    for ours in all {
        match groups.iter_mut().find(|group| peer(&group[0]) == peer(&ours)) {
            Some(group) => group.push(ours),
            None => groups.push(vec![ours]),
        }
    }
    let named = |group: Vec<Ours>| {
        let one = group.iter().all(|ours| ours.form == group[0].form);
        let form = if one { group[0].form } else { peer(&group[0]) };
        (format!("{suite} {form}"), group)
    };
    groups.into_iter().map(named).collect()
}

fn plan(groups: Vec<(String, Vec<Ours>)>, sizes: Vec<[i64; 4]>, explain: Option<Explain>) -> Result<Plan> {
    match groups.is_empty() {
        true => Err("there is nothing to measure".into()),
        false => {
            let sizes = sizes.into_iter().map(Extents::from).collect();
            Ok(Plan { groups, sizes, explain, every_variant: None })
        }
    }
}

/// Short names whose keys are not their own text, and these keys; each once.
pub(crate) fn legend(plan: &Plan) -> Vec<(&str, &str)> {
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
            let line = format!("tilewright-bench gemm --dtype {elem} --layouts nn,nt,tn,tt");
            let plan = gemm_tasks(matches(&line).subcommand().unwrap().1).unwrap();
            // With and without fast accumulation, 8-bit floats are two comparisons.
            let forms = if elem.is_fp8() { 8 } else { 4 };
            assert_eq!((plan.groups.len(), plan.sizes.len()), (forms, 3));
            assert!(plan.groups.iter().all(|(_, ours)| ours[0].form.a == *elem));
        }
        let plan = batched_tasks(matches("tilewright-bench batched").subcommand().unwrap().1).unwrap();
        assert_eq!(plan.sizes[0], [64, 128, 128, 128].into());
    }

    /// A kernel that is written by hand stands beside the product of the same meaning, whose bias has another type.
    #[test]
    fn written_kernels_stand_beside_products() {
        let product = "dtype=bf16 a=k_major b=k_major c=n_major bias=columns epilogue=gelu mma=mma_sync";
        let problem = Problem::new(Elem::F32, "nt").unwrap();
        let groups = by_peer("gemm", products(&["linear BM=128", product], &problem).unwrap());
        let names: Vec<&str> = groups[0].1.iter().map(|ours| &*ours.name).collect();
        assert_eq!((groups.len(), names), (1, vec!["linear BM=128", "bias=columns epilogue=gelu …"]));
        assert_eq!(groups[0].0, "gemm bf16 tn, rows of C contiguous, bias, gelu");
        let narrow = ["dtype=bf16 b_dtype=i8", "dtype=bf16", "precision=f32x3", "dtype=f32"];
        let suites: Vec<String> =
            by_peer("gemm", products(&narrow, &problem).unwrap()).into_iter().map(|group| group.0).collect();
        assert_eq!(suites, ["gemm bf16 nt", "gemm f32 nt"]);
    }

    #[test]
    fn mistakes_are_named() {
        let message =
            |line: &str| gemm_tasks(matches(line).subcommand().unwrap().1).err().unwrap_or_default();
        let expected = "`fp8` is no element type of a product; write one of f32, f64, f16, bf16, i8, i32, tf32, e4m3, e5m2";
        assert_eq!(message("tilewright-bench gemm --dtype fp8"), expected);
        assert!(message("tilewright-bench gemm --layouts n").contains("write one of nn, nt, tn, tt"));
        assert!(message("tilewright-bench gemm --kernel bmm=64").contains("did you mean `bm`?"));
    }
}
