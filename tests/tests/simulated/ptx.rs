//! Instructions of PTX: the simulator computes their models.

use tilewright_sim::{Arg, Simulate};
use tilewright_tests::ptx::*;

use crate::run;

#[test]
fn models_of_integers() {
    for n in [256u32, 300] {
        let a: Vec<u32> = (0..n).map(|n| n.wrapping_mul(2_654_435_761)).collect();
        let b: Vec<u32> = (0..n).map(|n| n * 40_503 + 9).collect();
        let c: Vec<u32> = (0..n).map(|n| 3 * n).collect();
        let n = n as usize;
        let args = [
            Arg::tensor(&a, [n]),
            Arg::tensor(&b, [n]),
            Arg::tensor(&c, [n]),
            Arg::output::<u32>([n]),
            Arg::output::<u32>([n]),
            Arg::output::<u32>([n]),
        ];
        for done in run(bitwise().def(), &args) {
            let (parity, swapped) = (done.get::<u32>("parity").unwrap(), done.get::<u32>("swapped").unwrap());
            let dot = done.get::<u32>("dot").unwrap();
            for i in 0..n {
                assert_eq!(parity[i], a[i] ^ b[i] ^ 7);
                assert_eq!(swapped[i], a[i].swap_bytes());
                let squares: u32 = a[i].to_le_bytes().iter().map(|x| u32::from(*x).pow(2)).sum();
                assert_eq!(dot[i], 2 * (c[i] + squares));
            }
        }
    }
    let source = bitwise().source().to_owned();
    let lines = [
        "__device__ __forceinline__ unsigned asm_0(unsigned x0, unsigned x1, unsigned x2) {\n",
        "    asm(\"lop3.b32 %0, %1, %2, %3, 0x96;\" : \"=r\"(to) : \"r\"(x0), \"r\"(x1), \"r\"(x2));\n",
    ];
    assert!(lines.iter().all(|line| source.contains(line)), "{source}");
}

#[test]
fn models_of_fractions() {
    let x: Vec<f32> = (0..300).map(|n| n as f32 / 100.0 - 1.5).collect();
    let args = [Arg::tensor(&x, [300]), Arg::output::<f32>([300]), Arg::output::<f64>([300])];
    for done in run(approximate().def(), &args) {
        let (y, z) = (done.get::<f32>("y").unwrap(), done.get::<f64>("z").unwrap());
        for i in 0..300 {
            let exact = 0.5 * f64::from(x[i]).powi(2).exp2();
            assert!((f64::from(y[i]) - exact).abs() < 1e-5 * exact);
            assert_eq!(z[i], 2.0 * f64::from(x[i]));
        }
    }
}

#[test]
fn instructions_without_a_model_do_not_run() {
    let refused = multiprocessors().simulate(&[Arg::in_out(&[0u32; 2], [2])]).unwrap_err().to_string();
    assert!(refused.contains("`mov.u32 %0, %%smid;` has no model"), "{refused}");
    assert!(multiprocessors().source().contains("asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(to) : );"));
}
