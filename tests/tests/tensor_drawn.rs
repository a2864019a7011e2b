//! Random products on tensor cores: types, tiles, warps, stages, orders, epilogues and sizes. Each is right in the
//! simulator, or refused for a limit of the hardware.

use tilewright_codegen::words::Words;
use tilewright_sim::{Options, run_every};
use tilewright_tests::number::Random;
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::tensor::Room;

/// Draws in an ordinary run; `TILEWRIGHT_PRODUCTS` sets another number.
const DRAWS: u64 = 60;

/// What a refusal may name: sizes of instructions, shared memory, registers.
const LIMITS: [&str; 5] = [
    "of K at once",
    "bytes of shared memory",
    "accumulator registers",
    "lies in one block of 128",
    "fragments of numbers of four bits",
];

struct Draw(Random);

impl Draw {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.word() as usize % of.len()]
    }

    fn keys(&mut self) -> String {
        // The operands, and the least tile and k-step of the instruction.
        let (types, k) = self.one(&[
            ("dtype=bf16", 16),
            ("dtype=f16", 16),
            ("dtype=bf16 out=f32", 16),
            ("dtype=tf32", 8),
            ("precision=tf32", 8),
            ("precision=f32x3", 8),
            ("dtype=f64", 4),
            ("dtype=i8", 32),
            ("dtype=u8", 32),
            ("dtype=e4m3 arch=89", 32),
            ("dtype=e4m3 arch=90", 32),
            ("dtype=e5m2 arch=89 out=bf16", 32),
            ("dtype=e4m3 arch=89 scales=blocks", 32),
            ("dtype=bf16 b_dtype=i8 out=f32", 16),
            ("dtype=f16 b_dtype=e4m3 out=f32", 16),
            ("dtype=f16 b_dtype=u8", 16),
            ("dtype=bf16 b_dtype=i4 b=k_major out=f32", 16),
        ]);
        let mut keys = format!("{types} mma=mma_sync");
        // From there on aligned operands come from a ring of bulk copies.
        if !types.contains("arch") && self.one(&[true, false]) {
            keys += " arch=90";
        }
        let (bm, bn) = (16 * self.one(&[1, 2, 3, 4, 6, 8]), 16 * self.one(&[1, 2, 3, 4, 6, 8]));
        let bk = k * self.one(&[1, 1, 2, 3, 4]);
        keys += &format!(" bm={bm} bn={bn} bk={bk} stages={}", self.one(&[1, 2, 3, 4]));
        // Steps of whole groups, or groups of whole steps.
        let group = self.one(&[16, 32, 64, 128]);
        if types.contains("b_dtype") && (bk % group == 0 || group % bk == 0) {
            keys += &format!(" group_size={group}");
        }
        if self.one(&[true, false]) {
            // As many as divide the tile in whole instructions.
            let (over, columns) = (self.one(&[1, 2]), self.one(&[1, 2]));
            if bm % (16 * over) == 0 && bn % (16 * columns) == 0 {
                keys += &format!(" warps=({over},{columns})");
            }
        }
        for (key, chance) in [
            ("a=k_major", 2),
            ("b=k_major", 2),
            ("c=n_major", 2),
            ("alpha_beta=true", 3),
            ("batched=true", 4),
            ("epilogue=|x|x+1.0-1.0", 4),
        ] {
            // The closure computes in floating point.
            let fits = !key.starts_with("epilogue") || !["dtype=i8", "dtype=u8"].contains(&types);
            if self.0.word().is_multiple_of(chance) && fits && !keys.contains(key) {
                keys += &format!(" {key}");
            }
        }
        keys + self.one(&["", "", " bias=rows", " bias=columns"])
    }

    /// The sizes, and the padding of leading dimensions.
    fn sizes(&mut self) -> ([usize; 3], usize) {
        let mut size = |least: usize| least + self.0.word() as usize % 90;
        let (m, n, k) = (size(1), size(92), size(1));
        match self.one(&[0, 1, 2]) {
            0 => ([m, n, k], 1),
            1 => ([m.next_multiple_of(4), n.next_multiple_of(4), k.next_multiple_of(4)], 4),
            _ => ([m.next_multiple_of(16), n.next_multiple_of(16), k.next_multiple_of(16)], 16),
        }
    }
}

/// What is wrong with a draw; whether it was refused for a limit.
fn fault(draw: u64) -> Result<bool, String> {
    let mut of = Draw(Random::new(draw));
    let keys = of.keys();
    let ([m, n, k], gap) = of.sizes();
    let about = |why: String| format!("draw {draw}, {keys}, {m}x{n}x{k}, gap {gap}: {why}");
    let kernel = match Words::read(&keys).and_then(|words| words.matmul()) {
        Ok(kernel) => kernel,
        Err(why) if LIMITS.iter().any(|limit| why.to_string().contains(limit)) => return Ok(true),
        Err(why) => return Err(about(why.to_string())),
    };
    let sizes: &[(&str, usize)] = &[("M", m), ("N", n), ("K", k), ("L", 2)];
    let rooms = &[Room::new(gap, 0)];
    // Numbers at which i32 factors are whole too.
    let setting = Setting { sizes, rooms, values: Values::Whole, seed: draw, alpha: 2.0, beta: -1.0 };
    let problem = Problem::of(&kernel, &setting);
    let outcomes = run_every(&kernel, &problem.args(), &Options::default());
    for outcome in outcomes.map_err(|error| about(error.to_string()))? {
        if let Some(wrong) = problem.wrong_outcome(&outcome) {
            return Err(about(wrong));
        }
    }
    Ok(false)
}

#[test]
fn random_products_on_tensor_cores() {
    let count =
        std::env::var("TILEWRIGHT_PRODUCTS").ok().and_then(|count| count.parse().ok()).unwrap_or(DRAWS);
    let all: Vec<_> = (0..count).map(fault).collect();
    let wrong: Vec<&str> = all.iter().filter_map(|one| one.as_ref().err().map(String::as_str)).collect();
    assert!(wrong.is_empty(), "{} of {count} are wrong\n{}", wrong.len(), wrong.join("\n"));
    let refused = all.iter().filter(|one| matches!(one, Ok(true))).count() as u64;
    assert!(refused * 10 <= count, "{refused} of {count} are refused");
}
