//! Products of `matmul_kernel!` by random keys.

use tilewright_codegen::Definition;
use tilewright_codegen::words::Words;

use crate::random::Random;

/// A product with small tiles.
pub(super) fn product(random: &mut Random) -> Definition {
    if random.chance(50) {
        return wgmma(random);
    }
    let plans = [
        "bm=32 bn=16 bk=8 tc=(8,4)",
        "bm=16 bn=16 bk=4 tc=(8,4)",
        "bm=32 bn=32 bk=8 tc=(8,8)",
        "bm=32 bn=16 bk=8 tc=(8,4) schedule=(values=(4,4) fragments=2 vec=4) stages=2",
        "bm=32 bn=16 bk=16 tc=(8,4,2) schedule=(values=(4,4) fragments=2 vec=4) stages=2",
    ];
    let mut keys = vec![random.pick(&plans).to_owned()];
    let mut add = |random: &mut Random, chance, key: &[&str]| {
        if random.chance(chance) {
            let key = random.pick(key);
            // The word of `schedule=(vec=2)` is `vec`.
            let word = key.trim_start_matches("schedule=(").split('=').next().unwrap_or_default();
            if !keys.iter().any(|known| known.contains(&format!("{word}="))) {
                keys.push(key.to_owned());
            }
        }
    };
    add(random, 50, &["stages=2", "stages=3", "stages=1"]);
    add(random, 40, &["schedule=(vec=2)", "schedule=(vec=4)"]);
    add(random, 40, &["a=k_major"]);
    add(random, 40, &["b=k_major"]);
    add(random, 40, &["c=n_major"]);
    add(random, 25, &["alpha_beta=true"]);
    add(random, 25, &["batched=true"]);
    add(
        random,
        30,
        &["schedule=(order=serpentine)", "schedule=(order=rows)", "schedule=(order=row_serpentine)"],
    );
    add(random, 30, &["schedule=(staged=both)", "schedule=(staged=transposed)"]);
    add(random, 30, &["dtype=f64", "dtype=f16", "dtype=bf16", "dtype=i32", "dtype=i8", "dtype=u8"]);
    // Thread layouts are for multiply-adds on CUDA cores.
    keys.push("mma=none".to_owned());
    definition(&keys)
}

/// Tiles of products by wgmma, and types of products with both operands K-major.
const ROWS: ([&str; 3], [&str; 6]) = (
    ["c=n_major bm=64 bn=16", "bm=32 bn=64", "c=n_major bm=128 bn=16"],
    [
        "dtype=tf32",
        "dtype=e4m3",
        "dtype=e4m3 fast_accum=true",
        "dtype=e4m3 scales=blocks",
        "dtype=i8",
        "dtype=bf16",
    ],
);
/// Types of products in any order, whose elements have 16 bits.
const ORDERS: ([&str; 3], [&str; 6]) = (
    [
        "bm=64 bn=64 schedule=(cluster=1)",
        "bm=128 bn=64 schedule=(cluster=1)",
        "a=k_major bm=64 bn=64 schedule=(cluster=1) c=n_major",
    ],
    [
        "dtype=bf16",
        "dtype=f16",
        "dtype=bf16 out=f32",
        "dtype=f16 out=bf16",
        "b=k_major dtype=bf16",
        "dtype=f16",
    ],
);

/// A persistent product by wgmma.
fn wgmma(random: &mut Random) -> Definition {
    let (majors, (tiles, types)) =
        if random.chance(50) { (" a=k_major b=k_major", ROWS) } else { ("", ORDERS) };
    let mut keys = vec![format!("arch=90 mma=wgmma{majors} {}", random.pick(&tiles))];
    keys.push(random.pick(&types).to_owned());
    keys.push(random.pick(&["stages=1", "stages=2", "stages=3"]).to_owned());
    for (key, chance) in [("alpha_beta=true", 30), ("batched=true", 30)] {
        if random.chance(chance) {
            keys.push(key.to_owned());
        }
    }
    definition(&keys)
}

fn definition(keys: &[String]) -> Definition {
    let words = Words::read(&keys.join(" ")).expect("keys that can be read");
    Definition::Matmul(words.args().to_vec())
}
