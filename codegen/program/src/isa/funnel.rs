//! The funnel shift of two vectors in registers: the vector that begins between them.

use super::{frag, int, written};
use crate::isa::THREAD;
use crate::isa::atom::{Atom, Effect, OperandName};
use crate::values::elem::Elem;

/// Bytes of a vector.
pub(crate) const VECTOR: i64 = 16;

/// Words move by the two upper bits of the number of bytes, then bytes by the two lower bits.
const PTX: &str = "{ .reg .pred p, q; .reg .b32 s, t<6>, u<5>; \
    and.b32 s, $n, 8; setp.ne.u32 p, s, 0; and.b32 s, $n, 4; setp.ne.u32 q, s, 0; shl.b32 s, $n, 3; \
    selp.b32 t0, #a2, #a0, p; selp.b32 t1, #a3, #a1, p; selp.b32 t2, #a4, #a2, p; \
    selp.b32 t3, #a5, #a3, p; selp.b32 t4, #a6, #a4, p; selp.b32 t5, #a7, #a5, p; \
    selp.b32 u0, t1, t0, q; selp.b32 u1, t2, t1, q; selp.b32 u2, t3, t2, q; \
    selp.b32 u3, t4, t3, q; selp.b32 u4, t5, t4, q; \
    shf.r.wrap.b32 #d0, u0, u1, s; shf.r.wrap.b32 #d1, u1, u2, s; \
    shf.r.wrap.b32 #d2, u2, u3, s; shf.r.wrap.b32 #d3, u3, u4, s; }";

pub(super) fn rows() -> impl Iterator<Item = Atom> {
    let operands = vec![
        written(frag(OperandName::D, Elem::U8, true, "(1,16):(0,1)")),
        frag(OperandName::A, Elem::U8, true, "(1,32):(0,1)"),
        int(OperandName::Bytes),
    ];
    std::iter::once(Atom {
        name: "funnel_shift",
        arch: 75,
        arch_specific: false,
        family: &THREAD,
        ptx: PTX,
        operands: Vec::leak(operands),
        effect: Effect::FunnelShift,
    })
}
