//! Coverage of random kernels: the number of passing kernels with each construct of the text, and of kernels of parts with each bound,
//! vector width and variant of what is generated.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_codegen::lower::Policy;
use tilewright_codegen::{pass, thread};

use crate::judge::Right;
use crate::options::{self, Choice};
use crate::whole::{CONSTRUCTS, PARTS};

/// Counts by feature.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u32>,
    /// Kernels with both options.
    pairs: BTreeMap<[Choice; 2], u32>,
    kernels: u32,
    /// Kernels of parts have separate rows.
    parts: bool,
}

/// Features of what is generated.
const GENERATED: &[&str] = &[
    "bound: proven read",
    "bound: guarded read",
    "bound: proven write",
    "bound: guarded write",
    "bound: asynchronous or zero",
    "bound: partial first tile",
    "bound: mask",
    "width: 1",
    "width: 2",
    "width: 4",
    "width: 8",
    "width: 16",
    "variant: best",
    "variant: aligned",
    "variant: small",
    "variant: general",
];

impl Coverage {
    /// Counts a kernel.
    pub fn add(&mut self, right: &Right) {
        let ran = right.ran.iter().any(|count| *count > 0);
        let pairs = options::PAIRS.iter().filter(|_| ran);
        for pair in pairs.filter(|pair| pair.iter().all(|of| right.options.contains(of))) {
            *self.pairs.entry(*pair).or_default() += 1;
        }
        self.kernels += 1;
        let mut seen: BTreeSet<&'static str> = right.constructs.iter().copied().collect();
        if right.constructs.contains(&"parallelize") {
            self.parts = true;
            let mut generated = Seen::default();
            generated.variants(right);
            seen.append(&mut generated.0);
        }
        for what in seen {
            *self.counts.entry(what).or_default() += 1;
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Coverage) {
        self.kernels += other.kernels;
        self.parts |= other.parts;
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for (pair, count) in &other.pairs {
            *self.pairs.entry(*pair).or_default() += count;
        }
    }

    /// The pairs of options that no passing kernel has.
    pub fn missing_pairs(&self) -> Vec<String> {
        let missing = options::PAIRS.iter().filter(|pair| !self.pairs.contains_key(*pair));
        missing.map(|[x, y]| if x == y { x.to_string() } else { format!("{x} with {y}") }).collect()
    }

    /// A table of all options: how many kernels have one, and how many digits the number of kernels has that have both: a dot stands
    /// for a pair that is not drawn.
    pub fn table_of_options(&self) -> String {
        let all = &options::ALL;
        let count = |pair: [Choice; 2]| self.pairs.get(&pair).copied().unwrap_or(0);
        let mut table = String::new();
        for (at, option) in all.iter().enumerate() {
            let digits =
                |other: &Choice| match (options::reason(&[*other, *option]), count([*other, *option])) {
                    (Some(_), _) => '.',
                    (None, 0) => '0',
                    (None, count) => char::from_digit(count.ilog10() + 1, 10).unwrap_or('9'),
                };
            let row: String = all[..at].iter().map(digits).collect();
            table += &format!("{:<27}{:>6}  {row}\n", option.to_string(), count([*option; 2]));
        }
        table
    }

    /// Features in fewer kernels than this.
    pub fn below(&self, least: u32) -> Vec<&'static str> {
        self.rows().into_iter().filter(|what| self.count(what) < least).collect()
    }

    fn rows(&self) -> Vec<&'static str> {
        if self.parts { [PARTS, GENERATED].concat() } else { CONSTRUCTS.to_vec() }
    }

    fn count(&self, what: &str) -> u32 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// A table.
    pub fn text(&self) -> String {
        let cell = |what: &&str| format!("{:<31}{:>6}", what, self.count(what));
        let rows: Vec<String> = self.rows().iter().map(cell).collect();
        let height = rows.len().div_ceil(2);
        let row = |at: usize| format!("{}   {}", rows[at], rows.get(at + height).map_or("", |row| row));
        (0..height).map(row).collect::<Vec<_>>().join("\n")
    }
}

/// The features of one kernel.
#[derive(Default)]
struct Seen(BTreeSet<&'static str>);

impl Seen {
    fn has(&mut self, what: &'static str) {
        self.0.insert(what);
    }

    /// The features of the thread programs that ran.
    fn variants(&mut self, right: &Right) {
        let ran = |at: usize| right.ran[at] > 0;
        for (_, variant) in right.kernel.variants.iter().enumerate().filter(|(at, _)| ran(*at)) {
            self.thread_list(&variant.program.body);
            if variant.program.vars.iter().any(|var| var.name.ends_with("_short")) {
                self.has("bound: partial first tile");
            }
        }
        let policies = [
            (Policy::Best, "variant: best"),
            (Policy::Aligned, "variant: aligned"),
            (Policy::Small, "variant: small"),
            (Policy::General, "variant: general"),
        ];
        let all = right.kernel.variants.len();
        for (index, (policy, what)) in policies.into_iter().enumerate() {
            // Variants with the same needs are generated once.
            let at = match all {
                4 => Some(index),
                _ => pass::lower(right.program.clone(), policy).ok().and_then(|program| {
                    right.kernel.variants.iter().position(|variant| variant.program.needs == program.needs)
                }),
            };
            if at.is_some_and(ran) {
                self.has(what);
            }
        }
    }

    fn thread_list(&mut self, body: &[thread::Stmt]) {
        for stmt in body {
            match &stmt.op {
                thread::Op::Load { to, guard, .. } => {
                    self.has(if guard.is_some() { "bound: guarded read" } else { "bound: proven read" });
                    self.width(to);
                }
                thread::Op::Store { from, guard, .. } => {
                    self.has(if guard.is_some() { "bound: guarded write" } else { "bound: proven write" });
                    self.width(from);
                }
                thread::Op::Atom { row, .. } if row.name.ends_with("_or_zero") => {
                    self.has("bound: asynchronous or zero");
                }
                thread::Op::Assign { value: thread::Val::Bin(_, _, value), .. } => {
                    if matches!(&**value, thread::Val::Pick(of) if matches!(of[0], thread::Val::Int(..))) {
                        self.has("bound: mask");
                    }
                }
                thread::Op::For { body, .. } | thread::Op::Elect(_, body) => self.thread_list(body),
                thread::Op::If { then, other, .. } => {
                    self.thread_list(then);
                    self.thread_list(other);
                }
                thread::Op::Roles(roles) => {
                    roles.iter().for_each(|role| self.thread_list(&role.body));
                }
                _ => {}
            }
        }
    }

    fn width(&mut self, of: &thread::Frag) {
        match of.len {
            1 => self.has("width: 1"),
            2 => self.has("width: 2"),
            4 => self.has("width: 4"),
            8 => self.has("width: 8"),
            16 => self.has("width: 16"),
            _ => {}
        }
    }
}
