//! Random products, correct ones and ones with one mutation: a refused one computes something else, and one
//! that passes computes A·Bᵀ.

use std::collections::HashMap;

use tilewright_codegen::generate;
use tilewright_codegen::tile::Arg;
use tilewright_layout::{Layout, Swizzle};
use tilewright_sim::{Arg as Given, Options, Outcome, run_every};

use super::interpret::{Memory, run};
use super::product::{Part, Product};

/// How many products are drawn; one of every `SIMULATED` that pass is also simulated.
const DRAWS: u64 = 300;
const SIMULATED: usize = 12;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % n
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    /// This number of threads over a tile, numbered in some order.
    fn threads(&mut self, count: i64, tile: [i64; 2]) -> Option<Layout> {
        let fits = |x: &i64| count % x == 0 && tile[0] % x == 0 && tile[1] % (count / x) == 0;
        let choices: Vec<i64> = (1..=count).filter(fits).collect();
        if choices.is_empty() {
            return None;
        }
        let x = self.one(&choices);
        let y = count / x;
        let halves = |n: i64| if n % 2 == 0 { [2, n / 2] } else { [1, n] };
        let ([p, q], [r, s]) = (halves(x), halves(y));
        let layout = match self.below(4) {
            0 => Layout::new((x, y), (1i64, x)),
            1 => Layout::new((x, y), (y, 1i64)),
            2 => Layout::new(((p, q), (r, s)), ((1i64, p * r), (p, p * r * q))),
            _ => Layout::new(((p, q), (r, s)), ((r, p * r * s), (1i64, p * r))),
        };
        layout.ok()
    }

    fn product(&mut self) -> Option<(Product, i64)> {
        let (m, n, k) = (self.one(&[8, 12, 16, 24]), self.one(&[8, 12, 16, 24]), self.one(&[4, 6, 8, 16]));
        let count = self.one(&[4, 6, 8, 16, 24, 32]);
        let (ta, tb) = (self.threads(count, [m, k])?, self.threads(count, [n, k])?);
        let mut product = Product::new([m, n, k], &ta, &tb, &self.threads(count, [m, n])?);
        if self.below(3) == 0 {
            product.read.iter_mut().for_each(|(_, part)| part.values = vec![2, 1]);
            product.store.values = vec![2, 2];
        }
        if self.below(4) == 0 && count % 8 == 0 {
            let swizzle = Swizzle::new(1, 0, 2).ok()?;
            product.read.iter_mut().for_each(|(_, part)| part.swizzle = swizzle);
            product.store.swizzle = swizzle;
        }
        Some((product, count))
    }

    /// Applies one mutation; returns its name.
    fn mutate(&mut self, p: &mut Product, count: i64) -> Option<&'static str> {
        let [m, n, k] = p.tile;
        let which = self.below(2) as usize;
        let rows = [m, n][which];
        Some(match self.below(14) {
            0 => "nothing",
            1 => {
                let [left, right] = &mut p.read;
                std::mem::swap(&mut left.1.keep, &mut right.1.keep);
                "projections swapped"
            }
            2 => {
                p.read[which].1.keep = p.read[1 - which].1.keep.clone();
                "one projection for both"
            }
            3 => {
                p.read[which].1.threads = self.threads(count, [m, n])?;
                "an operand by another thread layout"
            }
            4 => {
                p.store.threads = self.threads(count, [m, n])?;
                "the store by another thread layout"
            }
            5 => {
                p.fill[which][0].threads = self.threads(count, [rows, k])?;
                "a fill from another thread layout"
            }
            6 => {
                p.fill[which][1].threads = self.threads(count, [rows, k])?;
                "a fill by another thread layout"
            }
            7 => {
                p.transposed[which] = true;
                p.transposed[1 - which] = self.below(2) == 0;
                "tiles filled transposed"
            }
            8 => {
                p.store_transposed = true;
                "stored to the transposed tile"
            }
            9 => {
                p.read[which].0 = 1 - which;
                "the other operand's tile"
            }
            10 => {
                p.read[which].1.values = vec![self.one(&[1, 2, 4]), 1];
                "other values of an operand"
            }
            11 => {
                p.store.values = vec![self.one(&[1, 2]), self.one(&[1, 2])];
                "other values of the store"
            }
            12 => {
                p.read[which].1.swizzle = Swizzle::new(1, 0, 1).ok()?;
                "an operand's threads swizzled"
            }
            _ => {
                let side = self.below(2) as usize;
                p.fill[which][side] = Part {
                    values: vec![self.one(&[1, 2]), self.one(&[1, 2])],
                    ..p.fill[which][side].clone()
                };
                "other values of a fill"
            }
        })
    }
}

/// Does it compute A·Bᵀ? By the reference interpreter, element by element.
fn is_right(product: &Product) -> bool {
    let program = product.program().expect("a program");
    let [m, n, k] = product.sizes();
    let sizes: HashMap<String, i64> = [("M", m), ("N", n), ("K", k)].map(|(s, n)| (s.to_owned(), n)).into();
    let (a, b) = (numbers((m * k) as usize, 3), numbers((n * k) as usize, 4));
    let mut memory = Memory::new();
    let ids: Vec<u32> = program
        .args
        .iter()
        .map(|arg| match arg {
            Arg::Tensor(id) | Arg::Scalar(id) => *id,
        })
        .collect();
    for (id, rows, values) in [(ids[0], m, &a), (ids[1], n, &b)] {
        for (at, value) in values.iter().enumerate() {
            let at = at as i64;
            memory.insert((id, 0, vec![at % rows, at / rows]), *value);
        }
    }
    run(&program, &sizes, &mut memory);
    (0..m * n).all(|at| {
        let (i, j) = (at % m, at / m);
        let got = memory.get(&(ids[2], 0, vec![i, j])).copied().unwrap_or(f64::NAN);
        close(got, wanted(&a, &b, [m, n, k], i, j), 1e-9) && !got.is_nan()
    })
}

fn wanted(a: &[f64], b: &[f64], [m, n, k]: [i64; 3], i: i64, j: i64) -> f64 {
    (0..k).map(|l| a[(i + l * m) as usize] * b[(j + l * n) as usize]).sum()
}

/// Numbers between -1 and 1, exact in every type.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (0..count).map(|_| random.below(33) as f64 / 16.0 - 1.0).collect()
}

fn close(x: f64, y: f64, within: f64) -> bool {
    (x - y).abs() <= within * (1.0 + x.abs().max(y.abs()))
}

fn simulated(product: &Product) -> bool {
    let [m, n, k] = product.sizes();
    let (a, b) = (numbers((m * k) as usize, 3), numbers((n * k) as usize, 4));
    let operand = |data: &[f64], rows: i64| {
        let data: Vec<f32> = data.iter().map(|x| *x as f32).collect();
        Given::tensor(&data, [rows as usize, k as usize]).strides([1, rows as usize])
    };
    let c = Given::output::<f32>([m as usize, n as usize]).strides([1, m as usize]);
    let kernel = generate(product.program().expect("a program")).kernel.expect("a kernel");
    let options = Options { schedules: 2, ..Options::default() };
    let outcomes = run_every(&kernel, &[operand(&a, m), operand(&b, n), c], &options).expect("no fault");
    let is_right = |outcome: &Outcome| {
        let c = outcome.get::<f32>("c").expect("a result");
        (0..m * n).all(|at| close(c[at as usize].into(), wanted(&a, &b, [m, n, k], at % m, at / m), 1e-5))
    };
    outcomes.iter().all(is_right)
}

#[test]
fn accepted_products_are_right_and_refused_ones_wrong() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut seen: HashMap<&str, [usize; 2]> = HashMap::new();
    let (mut drawn, mut passed) = (0, 0);
    while drawn < DRAWS {
        let Some((mut product, count)) = random.product() else { continue };
        let Some(change) = random.mutate(&mut product, count) else { continue };
        // Some mutations are refused by the builder.
        let Ok(program) = product.program() else { continue };
        drawn += 1;
        let refused: Vec<String> =
            generate(program).diagnostics.iter().filter(|d| d.lint.is_none()).map(|d| d.text()).collect();
        let right = is_right(&product);
        assert_eq!(right, refused.is_empty(), "{change}: {product:#?}\n{}", refused.join("\n"));
        if right {
            passed += 1;
            if passed % SIMULATED == 0 {
                assert!(simulated(&product), "{change}: {product:#?}");
            }
        }
        seen.entry(change).or_default()[usize::from(right)] += 1;
    }
    // Each mutation is drawn, and most of them make the product wrong.
    assert_eq!(seen.len(), 14, "{seen:?}");
    let broken = seen.values().filter(|[wrong, _]| *wrong > 0).count();
    assert_eq!(broken, 13, "{seen:?}");
}
