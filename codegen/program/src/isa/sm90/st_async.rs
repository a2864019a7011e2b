//! st.async: one thread stores to the shared memory of a block of its cluster, and its bytes complete transactions of an
//! mbarrier of that block. `r` is the block's rank; the array and the mbarrier have the same offsets in all blocks.

use crate::isa::atom::{Atom, Done, Effect, OperandKind, OperandName};
use crate::isa::family::Family;
use crate::isa::{frag, int, other, written};
use crate::values::elem::Elem;

/// Stores to the shared memory of another block of a cluster.
pub(in crate::isa) static FAMILY: Family =
    Family { name: "st.async", completes: Done::Mbarrier, ..Family::IN_ORDER };

pub(in crate::isa) fn rows() -> impl Iterator<Item = Atom> {
    [row(Elem::U32, true, "b32", "(1,4):(0,1)"), row(Elem::F64, false, "b64", "(1,8):(0,1)")].into_iter()
}

fn row(elem: Elem, words: bool, name: &str, bytes: &'static str) -> Atom {
    let operands = vec![
        written(other(OperandName::D, OperandKind::SharedAddress, Elem::U8, bytes)),
        frag(OperandName::A, elem, words, "(1,1):(0,1)"),
        other(OperandName::B, OperandKind::Barrier, Elem::U8, ""),
        int(OperandName::Rank),
    ];
    let ptx = format!(
        "{{ .reg .b32 there, done; mapa.shared::cluster.u32 there, $d, $r; mapa.shared::cluster.u32 done, $b, $r; \
         st.async.shared::cluster.mbarrier::complete_tx::bytes.{name} [there], #a, [done]; }}"
    );
    Atom {
        name: format!("st_async_{name}").leak(),
        arch: 90,
        arch_specific: false,
        family: &FAMILY,
        ptx: ptx.leak(),
        operands: operands.leak(),
        effect: Effect::Copy,
    }
}
