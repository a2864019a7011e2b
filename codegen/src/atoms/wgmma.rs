//! wgmma: a warpgroup multiplies matrices that lie in shared memory, or `a` in registers, without waiting for the result.
//! One row for each width; `s` is 0 where the product replaces the accumulator instead of being added to it.

use super::{frag, int, other, written};
use crate::atom::{Atom, Done, Effect, Operand, OperandKind};
use crate::elem::Elem;
use crate::thread::{Queue, Scope};

const ELEMENTS: [(Elem, &str); 2] = [(Elem::F16, "f16"), (Elem::Bf16, "bf16")];

/// 64 rows: 16 for each warp, as in mma.sync.
const A: &str = "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))";

pub(super) fn rows() -> impl Iterator<Item = Atom> {
    let widths = (8..=256u32).step_by(8);
    let all = widths.flat_map(|n| ELEMENTS.map(|element| (n, element)));
    all.flat_map(|(n, element)| [row(n, element, false), row(n, element, true)])
}

fn row(n: u32, (elem, name): (Elem, &str), a_in_registers: bool) -> Atom {
    let immediate = |name| other(name, OperandKind::Immediate, Elem::I32, "");
    let matrix = |name, rows| {
        let tv = format!("(128,({rows},16)):(0,(1,{rows}))").leak();
        other(name, OperandKind::Descriptor, elem, tv)
    };
    let d = format!("((4,8,4),(2,2,{})):((128,1,16),(64,8,512))", n / 8).leak();
    let mut operands: Vec<Operand> = vec![written(frag('d', Elem::F32, false, d))];
    operands.push(if a_in_registers { frag('a', elem, true, A) } else { matrix('a', 64) });
    operands.extend([matrix('b', n), int('s')]);
    if !a_in_registers {
        operands.push(immediate('t'));
    }
    operands.push(immediate('u'));
    let (source, transposed) = if a_in_registers { ("_ra", "$u") } else { ("", "$t, $u") };
    Atom {
        name: format!("wgmma_m64n{n}k16{source}_{name}").leak(),
        arch: 90,
        arch_specific: true,
        group: Scope::Warpgroup,
        ptx: format!(
            "{{ .reg .pred p; setp.ne.b32 p, $s, 0; \
             wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{name}.{name} $d, $a, $b, p, 1, 1, {transposed}; }}"
        )
        .leak(),
        operands: operands.leak(),
        done: Done::Queue(Queue::Wgmma),
        async_proxy: true,
        effect: Effect::Mma { m: 64, n, k: 16 },
    }
}
