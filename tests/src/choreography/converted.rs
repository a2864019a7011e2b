//! A product with 4-bit weights, two per byte: a producer converts them on the way into a slot of the ring,
//! and multiplies them by the scale of their row.

use tilewright_codegen::problem::Result;
use tilewright_codegen::tile::Program;

use super::Choreography;
use crate::problem::{Operand, Values, Wanted};

pub(super) fn choreography() -> Choreography {
    Choreography {
        name: "converted",
        program,
        reference,
        values: Values::Any,
        zeroed: &[],
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            let half = 1 + below(40);
            vec![("M", 1 + below(70)), ("N", 1 + below(70)), ("H", half), ("K", 2 * half)]
        },
        large: &[&[("M", 200), ("N", 300), ("H", 256), ("K", 512)]],
        sass: &["I2F", "SYNCS"],
    }
}

fn reference(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let tensors: Vec<_> = operands
        .iter()
        .filter_map(|operand| if let Operand::Tensor(tensor) = operand { Some(tensor) } else { None })
        .collect();
    let [x, w, scale, y] = tensors[..] else { panic!("four tensors") };
    let [rows, columns] = y.extents[..] else { panic!("a matrix") };
    let half = w.extents[1];
    let mut wanted = Vec::new();
    for column in 0..columns {
        for row in 0..rows {
            let (mut value, mut size) = (0.0, 0.0);
            for byte in 0..half {
                let pair = w.values[column + byte * columns] as i32;
                for (odd, weight) in [(pair << 28) >> 28, pair >> 4].into_iter().enumerate() {
                    let x = x.values[row + (2 * byte + odd) * rows];
                    value += x * f64::from(weight) * scale.values[column];
                    size += (x * f64::from(weight) * scale.values[column]).abs();
                }
            }
            wanted.push(Wanted { value, within: 1e-6 * size + 1e-9 });
        }
    }
    wanted
}

fn program() -> Result<Program> {
    crate::programs::parsed(include_str!("converted.txt"))
}
