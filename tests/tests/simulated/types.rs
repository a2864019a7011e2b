//! Integers of 64 and 16 bits, and conditions in memory, against plain Rust: in every variant, with random elements, where
//! many are the ends of their type.

use tilewright::{Element, KernelDef};
use tilewright_fuzz::near;
use tilewright_sim::{Arg, Options, Outcome, run_every};
use tilewright_tests::number::Random;
use tilewright_tests::types::*;

use crate::check;

/// The outcomes of all variants.
#[track_caller]
fn run(def: &KernelDef, args: &[Arg]) -> Vec<Outcome> {
    run_with(def, args, &Options { schedules: 2, ..Options::default() })
}

#[track_caller]
fn run_with(def: &KernelDef, args: &[Arg], options: &Options) -> Vec<Outcome> {
    let kernel = def.generate().unwrap_or_else(|error| panic!("{error:?}"));
    let outcomes =
        run_every(&kernel, args, options).unwrap_or_else(|error| panic!("{error}\n{}", kernel.source()));
    assert!(!outcomes.is_empty());
    outcomes
}

#[track_caller]
fn check_outcomes<T: Element + PartialEq + std::fmt::Debug>(outcomes: &[Outcome], name: &str, wanted: &[T]) {
    for outcome in outcomes {
        let got = outcome.get::<T>(name).unwrap();
        let wrong = got.iter().zip(wanted).position(|(got, wanted)| got != wanted);
        if let Some(at) = wrong {
            panic!(
                "`{name}` at {at} is {:?}, not {:?}, in variant {}",
                got[at],
                wanted[at],
                outcome.variant() + 1
            );
        }
        assert_eq!(got.len(), wanted.len());
    }
}

/// Random bits, ends of all integer types, and small numbers.
fn hostile(random: &mut Random) -> u64 {
    let ends = [
        0,
        1,
        u64::MAX,
        1 << 63,
        (1 << 63) - 1,
        1 << 31,
        (1 << 31) - 1,
        1 << 32,
        (1 << 32) - 1,
        1 << 40,
        1 << 15,
        (1 << 16) - 1,
        1 << 62,
        (-100i64).cast_unsigned(),
        (i64::from(i32::MIN)).cast_unsigned(),
        (i64::from(i32::MIN) - 1).cast_unsigned(),
        63,
        64,
        31,
        32,
    ];
    match random.word() % 4 {
        0 => ends[random.word() as usize % ends.len()],
        1 => u64::from(random.word() % 40),
        2 => (-i64::from(random.word() % 40)).cast_unsigned(),
        _ => u64::from(random.word()) << 32 | u64::from(random.word()),
    }
}

fn elements<T: Element>(count: usize, random: &mut Random) -> Vec<T> {
    (0..count).map(|_| T::from_raw(hostile(random))).collect()
}

/// Identifiers of `of` rows, some of them far outside.
fn identifiers(count: usize, of: usize, random: &mut Random) -> Vec<i64> {
    let one = |random: &mut Random| match random.word() % 3 {
        0 => hostile(random).cast_signed(),
        1 => i64::from(random.word() % of as u32) + (1 << 32),
        _ => i64::from(random.word() % of as u32),
    };
    (0..count).map(|_| one(random)).collect()
}

macro_rules! compare {
    ($name:ident, $ty:ty, $wide:ty, $kernel:expr) => {
        #[test]
        fn $name() {
            type T = $ty;
            let n = 700;
            let mut random = Random::new(7);
            let (x, y): (Vec<T>, Vec<T>) = (elements(n, &mut random), elements(n, &mut random));
            // Narrow integers are computed with in 32 bits.
            let bits = i128::from(T::BITS.max(32));
            let shifted = |x: T, y: T, by: fn(i128, i128) -> i128, else_: i128| {
                let y = y as i128;
                if (0..bits).contains(&y) { by(x as i128, y) as T } else { else_ as T }
            };
            let columns: [&dyn Fn(T, T) -> T; 20] = [
                &|x, y| x.wrapping_add(y),
                &|x, y| x.wrapping_sub(y),
                &|x, y| x.wrapping_mul(y),
                &|x, y| x.wrapping_mul(y).wrapping_add(x),
                &|x, y| if y == 0 { (0 as T).wrapping_sub(1) } else { x.wrapping_div(y) },
                &|x, y| if y == 0 { x } else { x.wrapping_rem(y) },
                &|x, y| shifted(x, y, |x, y| x << y, 0),
                &|x, y| shifted(x, y, |x, y| x >> y, x as i128 >> 100),
                &|x, y| x & y,
                &|x, y| x | y,
                &|x, y| x ^ y,
                &|x, y| x.min(y),
                &|x, y| x.max(y),
                &|x, y| if x < y { x } else { T::MAX },
                &|x, y| T::from(x == y),
                &|x, _| if x as i128 >= 0 { x } else { (0 as T).wrapping_sub(x) },
                &|x, _| !x,
                &|x, _| x.count_ones() as T,
                &|x, _| x.leading_zeros() as T,
                &|x, y| (x / 7).wrapping_add((y & 63) % 5),
            ];
            let wanted: Vec<T> = columns
                .iter()
                .flat_map(|of| x.iter().zip(&y).map(|(&x, &y)| of(x, y)).collect::<Vec<T>>())
                .collect();
            let args = [Arg::tensor(&x, [n]), Arg::tensor(&y, [n]), Arg::output::<T>([n, 20])];
            check_outcomes(&run($kernel.def(), &args), "z", &wanted);
        }
    };
}

compare!(operations_of_64_bits, i64, i128, operations());
compare!(operations_of_64_bits_without_a_sign, u64, u128, tilewright_tests::types::operations!(T = u64));
compare!(operations_of_16_bits, i16, i32, tilewright_tests::types::operations!(T = i16));
compare!(operations_of_16_bits_without_a_sign, u16, u32, tilewright_tests::types::operations!(T = u16));

/// A row of a table, or zeros.
fn row(table: &[f32], d: usize, id: i128) -> Vec<f32> {
    match usize::try_from(id) {
        Ok(id) if id < table.len() / d => table[id * d..][..d].to_vec(),
        _ => vec![0.0; d],
    }
}

#[test]
fn identifiers_that_no_row_has_read_nothing() {
    let mut random = Random::new(1);
    for (n, v, d) in [(1, 1, 1), (40, 10, 64), (23, 5, 100)] {
        let table: Vec<f32> = (0..v * d).map(|at| at as f32 + 1.0).collect();
        let ids = identifiers(n, v, &mut random);
        let rows = |arg: Arg| arg.strides([d, 1]);
        let args =
            [Arg::tensor(&ids, [n]), rows(Arg::tensor(&table, [v, d])), rows(Arg::output::<f32>([n, d]))];
        check(lookup().def(), &args);
        let base = 1u64 << 50;
        let unsigned: Vec<u64> = ids.iter().map(|&id| base.wrapping_add(id.cast_unsigned())).collect();
        let args = [
            Arg::number(base),
            Arg::tensor(&unsigned, [n]),
            rows(Arg::tensor(&table, [v, d])),
            rows(Arg::output::<f32>([n, d])),
        ];
        check(lookup_unsigned().def(), &args);
    }
}

#[test]
fn elements_are_gathered_and_counted() {
    let mut random = Random::new(2);
    for (n, v) in [(1, 1), (300, 37)] {
        let ids = identifiers(n, v, &mut random);
        let x: Vec<f32> = (0..v).map(|at| at as f32 + 1.0).collect();
        let wanted: Vec<f32> = ids.iter().flat_map(|&id| row(&x, 1, id.into())).collect();
        let hashed: Vec<f32> = ids.iter().map(|&id| x[(id % v as i64).unsigned_abs() as usize]).collect();
        let args =
            [Arg::tensor(&ids, [n]), Arg::tensor(&x, [v]), Arg::output::<f32>([n]), Arg::output::<f32>([n])];
        let done = run(gathered().def(), &args);
        check_outcomes(&done, "y", &wanted);
        check_outcomes(&done, "hashed", &hashed);

        let mut counts = vec![0i64; v];
        ids.iter().filter(|&&id| (0..v as i64).contains(&id)).for_each(|&id| counts[id as usize] += 1);
        let args = [Arg::tensor(&ids, [n]), Arg::in_out(&vec![0i64; v], [v])];
        check_outcomes(&run(scattered().def(), &args), "counts", &counts);
    }
}

#[test]
fn tiles_are_copied_and_converted() {
    let mut random = Random::new(3);
    for n in [1, 512, 1301] {
        let x: Vec<i64> = elements(n, &mut random);
        let args = [
            Arg::tensor(&x, [n]),
            Arg::output::<i64>([n]),
            Arg::output::<i32>([n]),
            Arg::output::<i16>([n]),
            Arg::output::<f32>([n]),
        ];
        let done = run(moved().def(), &args);
        check_outcomes(&done, "y", &x);
        check_outcomes(&done, "low", &x.iter().map(|&x| x as i32).collect::<Vec<_>>());
        check_outcomes(&done, "short", &x.iter().map(|&x| x as i16).collect::<Vec<_>>());
        check_outcomes(&done, "real", &x.iter().map(|&x| x as f32).collect::<Vec<_>>());
    }
}

#[test]
fn conditions_are_stored_and_read() {
    let mut random = Random::new(4);
    for n in [1usize, 256, 700] {
        let x: Vec<f32> = (0..n).map(|_| (random.word() % 3) as f32 / 2.0).collect();
        let m: Vec<bool> = (0..n).map(|_| random.word().is_multiple_of(2)).collect();
        let blocks = n.div_ceil(256);
        let args = [
            Arg::tensor(&x, [n]),
            Arg::tensor(&m, [n]),
            Arg::output::<bool>([n]),
            Arg::output::<bool>([n]),
            Arg::output::<bool>([n]),
            Arg::output::<i32>([blocks]),
        ];
        check(flags().def(), &args);
    }
}

#[test]
fn conditions_in_memory_decide() {
    let mut random = Random::new(5);
    let (m, n) = (45, 70);
    let x: Vec<f32> = (0..m * n).map(|at| at as f32).collect();
    let flags: Vec<bool> = (0..m * n).map(|_| random.word().is_multiple_of(2)).collect();
    let args = [Arg::tensor(&x, [m, n]), Arg::tensor(&flags, [m, n]), Arg::output::<f32>([m, n])];
    check(masked().def(), &args);
    let blocks = 9;
    let x: Vec<f32> = (0..64 * blocks).map(|at| at as f32).collect();
    let go: Vec<bool> = (0..blocks).map(|_| random.word().is_multiple_of(2)).collect();
    for (all, stop) in [(false, false), (false, true), (true, false), (true, true)] {
        let args = [
            Arg::number(all),
            Arg::tensor(&go, [blocks]),
            Arg::tensor(&[stop], [1]),
            Arg::tensor(&x, [64, blocks]),
            Arg::in_out(&vec![0.0f32; 64 * blocks], [64, blocks]),
        ];
        check(flagged_blocks().def(), &args);
    }
}

#[test]
fn the_greater_of_two_elements_has_64_bits() {
    let (x, u) = ([9_000_000_000_000_000i64, -3_000_000_000], [5u64, u64::MAX - 1]);
    let args = [
        Arg::tensor(&x, [2]),
        Arg::tensor(&u, [2]),
        Arg::output::<i64>([3]),
        Arg::output::<u64>([1]),
        Arg::output::<i32>([1]),
    ];
    let done = run(limits().def(), &args);
    check_outcomes(&done, "y", &[x[0], 7, 2]);
    check_outcomes(&done, "v", &[u[1]]);
    check_outcomes(&done, "n", &[5i32]);
}

#[test]
fn rows_are_reduced() {
    let mut random = Random::new(6);
    for (m, n) in [(1, 1), (5, 300), (8, 512)] {
        let x: Vec<i64> = elements(m * n, &mut random);
        let of = |each: &dyn Fn(&[i64]) -> i64| x.chunks(n).map(each).collect::<Vec<i64>>();
        let out = || Arg::output::<i64>([m]);
        let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), out(), out(), out(), out()];
        let done = run(totals().def(), &args);
        check_outcomes(&done, "total", &of(&|x| x.iter().fold(0i64, |all, x| all.wrapping_add(*x))));
        check_outcomes(&done, "least", &of(&|x| x.iter().copied().min().unwrap()));
        check_outcomes(&done, "most", &of(&|x| x.iter().copied().max().unwrap()));
        let first = |x: &[i64]| x.iter().position(|y| y == x.iter().max().unwrap()).unwrap() as i64;
        check_outcomes(&done, "first", &of(&first));

        let x: Vec<i16> = elements(m * n, &mut random);
        let args =
            [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<i32>([m]), Arg::output::<i16>([m])];
        let done = run(short_sums().def(), &args);
        check_outcomes(
            &done,
            "y",
            &x.chunks(n).map(|x| x.iter().map(|&x| i32::from(x)).sum()).collect::<Vec<i32>>(),
        );
        check_outcomes(&done, "z", &x.chunks(n).map(|x| *x.iter().max().unwrap()).collect::<Vec<i16>>());
    }
}

#[test]
fn updates_are_atomic() {
    let mut random = Random::new(7);
    let n = 600;
    let (x, u): (Vec<i64>, Vec<u64>) = (elements(n, &mut random), elements(n, &mut random));
    let signed = [0, i64::MAX, i64::MIN, 0, 0];
    let unsigned = [0, u64::MAX, 0, u64::MAX, 0];
    let args = [
        Arg::tensor(&x, [n]),
        Arg::tensor(&u, [n]),
        Arg::in_out(&signed, [5]),
        Arg::in_out(&unsigned, [5]),
        Arg::output::<i64>([n]),
    ];
    let fold = |of: fn(i64, i64) -> i64, first| x.iter().fold(first, |all, x| of(all, *x));
    let wanted = [
        fold(i64::wrapping_add, 0),
        fold(i64::min, i64::MAX),
        fold(i64::max, i64::MIN),
        fold(|a, b| a | b, 0),
        fold(i64::wrapping_sub, 0),
    ];
    // Their order decides the old values.
    let done = run_with(updates().def(), &args, &Options::default());
    check_outcomes(&done, "signed", &wanted);
    let fold = |of: fn(u64, u64) -> u64, first| u.iter().fold(first, |all, x| of(all, *x));
    let wanted = [
        fold(u64::wrapping_add, 0),
        fold(u64::min, u64::MAX),
        fold(u64::max, 0),
        fold(|a, b| a & b, u64::MAX),
        fold(|a, b| a ^ b, 0),
    ];
    check_outcomes(&done, "unsigned", &wanted);
    for outcome in done {
        // The old values are a walk from 0 to the sum, in some order.
        let before = outcome.get::<i64>("before").unwrap();
        let mut after: Vec<i64> = before.iter().zip(&x).map(|(before, x)| before.wrapping_add(*x)).collect();
        let mut starts = before.clone();
        starts.push(outcome.get::<i64>("signed").unwrap()[0]);
        after.push(0);
        starts.sort_unstable();
        after.sort_unstable();
        assert_eq!(starts, after);
    }
}

#[test]
fn hashes_wrap_around() {
    let x: Vec<u32> = elements(300, &mut Random::new(8));
    let step = |h: u64, byte: u32| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = |x: &u32| x.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |h, &byte| step(h, byte.into()));
    let wanted: Vec<u64> = x.iter().map(hash).collect();
    let upper: Vec<u64> = wanted.iter().map(|&h| ((u128::from(h) * 1_000_000_007) >> 64) as u64).collect();
    let args = [Arg::tensor(&x, [300]), Arg::output::<u64>([300]), Arg::output::<u64>([300])];
    let done = run(hashes().def(), &args);
    check_outcomes(&done, "y", &wanted);
    check_outcomes(&done, "upper", &upper);
}

#[test]
fn constants_are_as_exact_as_their_types() {
    let x: Vec<u64> = elements(300, &mut Random::new(10));
    let args = [
        Arg::tensor(&x, [300]),
        Arg::output::<u64>([300]),
        Arg::output::<i64>([300]),
        Arg::output::<u16>([300]),
    ];
    let done = run(constants().def(), &args);
    check_outcomes(&done, "y", &x.iter().map(|x| x ^ (u64::MAX / 3)).collect::<Vec<_>>());
    check_outcomes(
        &done,
        "z",
        &x.iter().map(|x| x.cast_signed().wrapping_add(i64::MAX - 1)).collect::<Vec<_>>(),
    );
    let sum = |x: &u64| (*x as u16).wrapping_mul((x >> 16) as u16).wrapping_add((x >> 32) as u16);
    check_outcomes(&done, "w", &x.iter().map(sum).collect::<Vec<u16>>());
    let source = constants().source().to_owned();
    assert!(source.contains("wrapping_add(wrapping_mul("), "{source}");
}

#[test]
fn distances_of_shifts_have_any_type() {
    let ends = [0, 1, 7, 31, 32, 63, -1, 256, 300, 1 << 31, 1 << 32, (1 << 32) + 5, i64::MIN + 3, i64::MAX];
    let (random, n) = (&mut Random::new(9), 300);
    let x: Vec<i32> = elements(n, random);
    let by: Vec<i64> = (0..n).map(|_| ends[random.word() as usize % ends.len()]).collect();
    let left = |x: i128, by: i64, bits: i64| if (0..bits).contains(&by) { x << by } else { 0 };
    let right = |x: i128, by: i64, bits: i64| x >> if (0..bits).contains(&by) { by } else { bits };
    let of = |f: &dyn Fn(i32, i64) -> i128| x.iter().zip(&by).map(|(x, by)| f(*x, *by)).collect::<Vec<_>>();
    let output =
        [Arg::output::<i32>([n]), Arg::output::<i32>([n]), Arg::output::<u8>([n]), Arg::output::<u64>([n])];
    let args = [vec![Arg::tensor(&x, [n]), Arg::tensor(&by, [n])], output.to_vec()].concat();
    let done = run(distances().def(), &args);
    let narrow = |all: Vec<i128>| all.into_iter().map(|x| x as i32).collect::<Vec<_>>();
    check_outcomes(&done, "left", &narrow(of(&|x, by| left(x.into(), by, 32))));
    check_outcomes(&done, "right", &narrow(of(&|x, by| right(x.into(), by, 32))));
    let byte: Vec<u8> =
        of(&|x, by| right((x as u8).into(), (by as i32).into(), 32)).into_iter().map(|x| x as u8).collect();
    check_outcomes(&done, "byte", &byte);
    let long = of(&|x, by| left((x as u64).into(), (by as i8).into(), 64)).into_iter().map(|x| x as u64);
    check_outcomes(&done, "long", &long.collect::<Vec<u64>>());
}

#[test]
fn targets_are_64_bits_wide() {
    let (m, n) = (6, 200);
    let x: Vec<f32> = (0..m * n).map(|at| ((at * 7) % 13) as f32 * 0.25).collect();
    let target = [3i64, -100, 199, 1 << 32, 0, 7];
    let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::tensor(&target, [m]), Arg::output::<f32>([m])];
    near(cross_entropy().def(), &args, 1e-4);
}

#[test]
fn arguments_of_64_bits_are_not_cut_off() {
    let x: Vec<f32> = (0..1000).map(|at| at as f32 + 1.0).collect();
    for n in [0i64, 5, 999, 1000, 1 << 32, (1 << 40) + 7, -1, i64::MIN, i64::MAX] {
        let at = |i: i64| usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(0.0);
        let times = ((n >> 33) - 1..n.min(5)).count() as f32;
        let large = f32::from(u8::from(n > 4_000_000_000));
        let wanted = [at(n), at(n % 1000), at(n >> 33), large, times + at(n % 1000 - 1)];
        let args = [
            Arg::number(n),
            Arg::tensor(&x, [1000]),
            Arg::output::<f32>([5]),
            Arg::in_out(&[0i64; 100], [100]),
        ];
        let done = run(by_argument().def(), &args);
        check_outcomes(&done, "y", &wanted);
        check_outcomes(&done, "z", &(0..100).map(|at| n.wrapping_add(3 * at)).collect::<Vec<_>>());
    }
}

#[test]
fn bits_of_8_bytes() {
    let x: Vec<f64> = [0.0, -0.0, 1.0, -1.5, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, -1e-310]
        .iter()
        .cycle()
        .copied()
        .take(200)
        .collect();
    let args = [
        Arg::tensor(&x, [200]),
        Arg::output::<i64>([200]),
        Arg::output::<f64>([200]),
        Arg::output::<u64>([200]),
    ];
    let done = run(bits_of_doubles().def(), &args);
    check_outcomes(&done, "y", &x.iter().map(|x| x.to_bits().cast_signed()).collect::<Vec<_>>());
    check_outcomes(&done, "u", &x.iter().map(|x| x.to_bits() >> 52).collect::<Vec<_>>());
    check_outcomes(&done, "z", &x.iter().map(|x| x.abs()).collect::<Vec<_>>());
}

#[test]
fn integers_of_the_kernel_are_widened() {
    let counts = [0i64, 1, 5, -3, 2];
    let args = [Arg::tensor(&counts, [5]), Arg::output::<i64>([32, 5])];
    check(widened().def(), &args);
}
