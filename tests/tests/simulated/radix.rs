//! Keys in order by their bytes, with values and without.

use tilewright::KernelDef;
use tilewright::kernels::pages::{radix, radix_counts};
use tilewright::prelude::*;
use tilewright_sim::{Options, run_every};
use tilewright_tests::number::Random;

/// Every variant must give the same results: the first is returned.
fn run(def: &KernelDef, args: &[Arg]) -> tilewright_sim::Outcome {
    let kernel = def.generate().unwrap_or_else(|why| panic!("{why}"));
    let options = Options { schedules: 2, ..Options::default() };
    let all = run_every(&kernel, args, &options).unwrap_or_else(|why| panic!("{}: {why}", def.name()));
    all.into_iter().next().expect("a variant")
}

/// The keys in order, and where they were.
fn sorted(keys: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (n, tiles) = (keys.len(), keys.len().div_ceil(512));
    let mut words = vec![1u32; 256 * tiles * 4];
    let (counts, pass) = (radix_counts::radix_counts!(K = 2, G = 2, T = 64), radix::radix_pass!(K = 2));
    let args = [
        Arg::tensor(keys, [n]),
        Arg::in_out(&[0i32; 1024], [256, 4]),
        Arg::in_out(&words, [256, tiles, 4]).strides([1, 256, 256 * tiles]),
    ];
    let done = run(counts.def(), &args);
    let mut bins = done.get::<i32>("bins").unwrap();
    words = done.get::<u32>("words").unwrap();
    assert!(words.iter().all(|word| *word == 0));
    let (mut from, mut order) = (keys.to_vec(), (0..n as u32).collect::<Vec<_>>());
    for at in 0..4 {
        let args = [
            Arg::number(at),
            Arg::tensor(&from, [n]),
            Arg::tensor(&order, [n]),
            Arg::output::<u32>([n]),
            Arg::output::<u32>([n]),
            Arg::in_out(&bins, [256, 4]),
            Arg::in_out(&words, [256, tiles, 4]).strides([1, 256, 256 * tiles]),
            Arg::in_out(&[0i32], [1]),
        ];
        let done = run(pass.def(), &args);
        let mut of_keys = args.clone();
        (of_keys[2], of_keys[4]) = (Arg::tensor::<u32>(&[], [0]), Arg::in_out::<u32>(&[], [0]));
        let alone = run(radix::radix_pass!(K = 2, V = 0).def(), &of_keys);
        assert_eq!(alone.get::<u32>("keys_to").unwrap(), done.get::<u32>("keys_to").unwrap());
        assert_eq!(alone.get::<i32>("bins").unwrap(), done.get::<i32>("bins").unwrap());
        assert_eq!(alone.get::<u32>("words").unwrap(), done.get::<u32>("words").unwrap());
        assert_eq!(alone.get::<i32>("arrived").unwrap(), [0]);
        (from, order) = (done.get::<u32>("keys_to").unwrap(), done.get::<u32>("values_to").unwrap());
        (bins, words) = (done.get::<i32>("bins").unwrap(), done.get::<u32>("words").unwrap());
        assert_eq!(done.get::<i32>("arrived").unwrap(), [0]);
    }
    assert!(bins.iter().all(|bin| *bin == 0));
    (from, order)
}

fn check(what: &str, keys: &[u32]) {
    let mut wanted: Vec<usize> = (0..keys.len()).collect();
    wanted.sort_by_key(|at| keys[*at]); // stable
    let (made, order) = sorted(keys);
    for (at, from) in wanted.into_iter().enumerate() {
        assert_eq!((made[at], order[at] as usize), (keys[from], from), "{what}: {at} of {}", keys.len());
    }
}

#[test]
fn keys_are_sorted_by_their_bytes() {
    let mut random = Random::new(5);
    for n in [1usize, 31, 512, 513, 2600] {
        let keys: Vec<u32> = (0..n).map(|_| random.word()).collect();
        check("any keys", &keys);
    }
    check("equal keys", &[7; 1100]);
    check("the greatest key", &[u32::MAX; 700]);
    check("few different keys", &(0..1100u32).map(|n| n * 7 % 5 * 0x0101_0101).collect::<Vec<_>>());
    check("in order", &(0..1100u32).map(|n| n << 20).collect::<Vec<_>>());
    check("in the opposite order", &(0..1100u32).map(|n| !n).collect::<Vec<_>>());
}
