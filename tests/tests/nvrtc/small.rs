//! Small kernels, one for each kind of access, value and synchronisation without tensor cores.

use tilewright_codegen::Elem::{self, *};
use tilewright_codegen::thread::*;
use tilewright_layout::Value;

use super::build::*;

/// Each thread copies 16 bytes from one tensor to another, and stores 77 for out-of-bounds loads.
pub(crate) fn copy(elem: Elem) -> Kernel {
    let len = 16 / elem.bytes();
    let mut b = Build::new(&format!("copy_{elem}"), 80, 128);
    let (from, to) = (b.pointer("from", elem, false), b.pointer("to", elem, true));
    let n = b.extent("n");
    b.k.launch.grid = [Value::symbol("n").ceil_div(128).into_iter().collect(), vec![], vec![]];
    let value = b.reg("held", elem, len);
    let thread = b.global_thread();
    let at = b.sum(&[(thread, i64::from(len))], 0);
    b.e().assume(at, 0, i64::from(i32::MAX));
    let (stmt, at) = b.name("at", at);
    let guard = b.e().lt(at, n);
    let frag = b.frag(value, 0, len);
    let read = Op::Load {
        to: frag,
        from: Mem { space: from, index: at, peer: None },
        guard: Some(guard),
        fill: 77.0.into(),
        volatile_at: None,
    };
    // The elements are modified, so that the registers are used.
    let change = b.repeat("i", i64::from(len), |_, i| {
        let twice = bin(Bin::Add, Val::Reg(value, i), Val::Reg(value, i));
        vec![assign(value, i, twice)]
    });
    b.done(vec![stmt, s(read), change, store(to, at, frag, Some(guard))])
}

/// Copies of every vector width up to 16 bytes, through shared memory and back.
pub(crate) fn narrow_copies(elem: Elem) -> Kernel {
    let mut b = Build::new(&format!("narrow_copies_{elem}"), 80, 128);
    let (from, to) = (b.pointer("from", elem, false), b.pointer("to", elem, true));
    let tile = b.shared("tile", elem, 128 * 16, 16, "");
    let thread = b.thread();
    let mut body = Vec::new();
    let mut width = 1;
    while width * elem.bytes() <= 16 {
        let at = b.sum(&[(thread, i64::from(width))], 0);
        let (into, out) = (b.reg("into", elem, width), b.reg("out", elem, width));
        let (into, out) = (b.frag(into, 0, width), b.frag(out, 0, width));
        body.extend([load(into, from, at, None), store(tile, at, into, None), sync()]);
        body.extend([load(out, tile, at, None), store(to, at, out, None), sync()]);
        width *= 2;
    }
    b.done(body)
}

/// Every unary and binary function, and every other kind of value.
pub(crate) fn values(elem: Elem) -> Kernel {
    let mut b = Build::new(&format!("values_{elem}"), 80, 128);
    let (from, to) = (b.pointer("from", elem, false), b.pointer("to", elem, true));
    let scale = b.scalar("scale", elem);
    let n = b.extent("n");
    let thread = b.global_thread();
    let (x, y) = (b.reg("x", elem, 1), b.reg("y", elem, 1));
    let zero = b.int(0);
    let (fx, fy) = (b.frag(x, 0, 1), b.frag(y, 0, 1));
    let next = b.sum(&[(thread, 1)], 1);
    let mut body = vec![load(fx, from, thread, None), load(fy, from, next, None)];
    let (vx, vy) = (|| Val::Reg(x, zero), || Val::Reg(y, zero));
    let mut values = vec![bin(Bin::Mul, scale.clone(), vx()), fma(vx(), vy(), scale)];
    use Bin::*;
    values.extend([Add, Sub, Mul, Div, Rem, Min, Max].map(|f| bin(f, vx(), vy())));
    values.extend([Un::Neg, Un::Abs, Un::Apart].map(|f| un(f, vx())));
    if elem.is_float() {
        use Un::*;
        values.extend([Exp, Exp2, Log, Log2, Recip, Sqrt, Rsqrt, Tanh, Erf].map(|f| un(f, vx())));
        values.extend([Floor, Ceil, Trunc, Round, RoundEven].map(|f| un(f, vx())));
        values.extend([CopySign].map(|f| bin(f, vx(), vy())));
        values.push(bin(Bin::Sub, vx(), bin(Bin::Sub, vy(), Val::lit(-1.5, elem))));
    } else {
        values.extend([And, Or, Xor, Shl, Shr].map(|f| bin(f, vx(), vy())));
        if elem.bytes() == 4 {
            values.push(bin(MulHigh, vx(), vy()));
        }
        values.extend([Un::Not, Un::CountOnes, Un::LeadingZeros].map(|f| un(f, vx())));
        values.push(bin(Bin::And, bin(Bin::Add, vx(), vy()), Val::lit(12.0, elem)));
    }
    let less = Val::Cmp(Cmp::Lt, Box::new(vx()), Box::new(vy()));
    let equal = Val::Cmp(Cmp::Ne, Box::new(vx()), Box::new(Val::lit(0.5, elem)));
    let both = bin(Bin::And, less.clone(), un(Un::Not, equal));
    values.push(Val::Pick(Box::new([less, vx(), vy()])));
    values.push(Val::Pick(Box::new([both, vy(), Val::lit(2.0, elem)])));
    if elem.bytes() == 4 {
        let there = if elem.is_float() { U32 } else { F32 };
        let bits = Val::Bits(there, Box::new(vx()));
        values.push(Val::Bits(elem, Box::new(bin(Bin::Max, bits.clone(), bits))));
    }
    let guard = b.e().lt(thread, n);
    values.push(Val::guarded(guard, vx(), Val::lit(f64::MAX, elem)));
    values.push(vx().butterfly(b.int(4)));
    values.push(Val::Int(thread, elem));
    for (i, value) in values.into_iter().enumerate() {
        let value_of = b.reg("value", elem, 1);
        let at = b.sum(&[(thread, 64)], i as i64);
        b.e().assume(at, 0, i64::from(i32::MAX));
        let frag = b.frag(value_of, 0, 1);
        body.extend([assign(value_of, zero, value), store(to, at, frag, None)]);
    }
    b.done(body)
}

/// Sine and cosine. CUDA's own keep an array in local memory for the digits of pi, which large arguments
/// need.
pub(crate) fn trigonometry(elem: Elem) -> Kernel {
    let mut b = Build::new(&format!("trigonometry_{elem}"), 80, 128);
    let (from, to) = (b.pointer("from", elem, false), b.pointer("to", elem, true));
    let (x, thread, zero) = (b.reg("x", elem, 1), b.global_thread(), b.int(0));
    let frag = b.frag(x, 0, 1);
    let both = [Un::Sin, Un::Cos].map(|f| un(f, Val::Reg(x, zero)));
    let [sine, cosine] = both;
    let product = assign(x, zero, bin(Bin::Mul, sine, cosine));
    b.done(vec![load(frag, from, thread, None), product, store(to, thread, frag, None)])
}

/// Every atomic update.
pub(crate) fn atomics() -> Kernel {
    let mut b = Build::new("atomics", 80, 128);
    let thread = b.thread();
    let mut body = Vec::new();
    use Change::*;
    let (order, scope, old) = (MemoryOrder::Relaxed, Scope::Grid, None);
    for (elem, ops) in [
        (F64, vec![Add, Min, Max]),
        (F32, vec![Add, Sub, Min, Max]),
        (F16, vec![Add]),
        (Bf16, vec![Add]),
        (I32, vec![Add, Min, Max, And, Or, Xor]),
        (U32, vec![Add, Min, Max]),
    ] {
        let space = b.pointer(&format!("to_{elem}"), elem, true);
        let n = b.int(100);
        let guard = Some(b.e().lt(thread, n));
        for op in ops {
            let value = Val::Int(thread, elem);
            let to = Mem { space, index: thread, peer: None };
            body.push(s(Op::Atomic { to, op, value, guard, order, scope, old, expected: None }));
        }
    }
    let count = b.shared("count", I32, 1, 4, "");
    let zero = b.int(0);
    let to = Mem { space: count, index: zero, peer: None };
    body.push(s(Op::Atomic {
        to,
        op: Add,
        value: Val::lit(1.0, I32),
        guard: None,
        order,
        scope,
        old,
        expected: None,
    }));
    b.done(body)
}

/// Offsets of more than 32 bits, partially unrolled loops, mutable variables, conditions.
pub(crate) fn wide() -> Kernel {
    let mut b = Build::new("wide", 80, 256);
    let (from, to) = (b.pointer("from", F32, false), b.pointer("to", F32, true));
    let (m, n) = (b.extent("M"), b.extent("N"));
    let (ld, count) = (b.int_param("ld", 1 << 40, true), b.int_param("count", 1 << 33, true));
    let (tid, bx, by) = (b.thread(), b.block(0), b.block(1));
    let row = b.sum(&[(bx, 256), (tid, 1)], 0);
    let (stmt, row) = b.name("row", row);
    let mut body = vec![stmt];
    let columns = b.e().mul(by, ld);
    let offset = b.e().add(columns, row);
    let plane = b.e().mul(m, n);
    let offset = b.e().add(offset, plane);
    let (stmt, offset) = b.name("offset", offset);
    body.push(stmt);
    let sum = b.reg("sum", F32, 1);
    let zero = b.int(0);
    body.push(assign(sum, zero, Val::lit(0.0, F32)));
    body.push(b.until("k", count, Unroll::By(4), |b, k| {
        let scaled = b.e().mul(k, ld);
        let index = b.e().add(offset, scaled);
        let value = b.reg("held", F32, 1);
        let frag = b.frag(value, 0, 1);
        let added = bin(Bin::Add, Val::Reg(sum, zero), Val::Reg(value, zero));
        vec![load(frag, from, index, None), assign(sum, zero, added)]
    }));
    // A mutable variable.
    let (var, value) = b.var("iteration", 0, 1000);
    b.k.vars[var as usize].mutable = true;
    let (next, half) = (b.sum(&[(value, 1)], 1), b.e().div(value, 2));
    let (parity, limit) = (b.e().rem(value, 2), b.e().min(m, n));
    let chosen = b.e().select(parity, half, limit);
    let near = b.e().lt(row, chosen);
    let far = b.e().not(near);
    let frag = b.frag(sum, 0, 1);
    let last = b.sum(&[(offset, 1)], -1);
    body.extend([s(Op::Let(var, zero)), s(Op::Set(var, next))]);
    body.push(s(Op::If {
        cond: far.into(),
        then: vec![store(to, offset, frag, None)],
        other: vec![store(to, last, frag, None)],
    }));
    let positive = Val::Cmp(Cmp::Lt, Box::new(Val::lit(0.0, F32)), Box::new(Val::Reg(sum, zero)));
    let then = vec![store(to, row, frag, None)];
    body.push(s(Op::If { cond: positive, then, other: vec![] }));
    b.done(body)
}

/// More than 48 KiB of shared memory, with two aliased arrays.
pub(crate) fn arena() -> Kernel {
    let mut b = Build::new("arena", 80, 256);
    let (from, to) = (b.pointer("from", F32, false), b.pointer("to", F32, true));
    let first = b.shared("first", F32, 8192, 16, "8192");
    let second = b.shared("second", F32, 8192, 128, "8192");
    let third = b.shared("third", F32, 2048, 16, "in the place of `first`");
    b.k.shared[2].offset = 0;
    let thread = b.thread();
    let mut body = Vec::new();
    for (at, space) in [first, second, third].into_iter().enumerate() {
        let value = b.reg("held", F32, 1);
        let (frag, back) = (b.frag(value, 0, 1), b.sum(&[(thread, -1)], 255));
        let index = b.sum(&[(thread, 1)], 256 * at as i64);
        body.extend([load(frag, from, index, None), store(space, thread, frag, None), sync()]);
        let other = b.reg("other", F32, 1);
        let frag = b.frag(other, 0, 1);
        body.extend([load(frag, space, back, None), store(to, index, frag, None), sync()]);
    }
    b.done(body)
}

/// Two aliased arrays within 48 KiB, which need no opt-in.
pub(crate) fn small_arena() -> Kernel {
    let mut kernel = arena();
    kernel.name = "small_arena".into();
    for array in &mut kernel.shared {
        (array.len, array.offset) = (256, if array.name == "second" { 1024 } else { 0 });
    }
    kernel.launch.shared_bytes = 2048;
    kernel
}

/// Names that are reserved in C++, and names used twice.
pub(crate) fn names() -> Kernel {
    let mut b = Build::new("template", 80, 64);
    let (from, to) = (b.pointer("float", F32, false), b.pointer("tid", F32, true));
    let n = b.extent("__N");
    let (x, thread) = (b.reg("x", F32, 1), b.global_thread());
    let zero = b.int(0);
    let mut body = Vec::new();
    for _ in 0..2 {
        body.push(b.repeat("x", 4, |b, i| {
            let at = b.sum(&[(thread, 4), (i, 1)], 0);
            b.e().assume(at, 0, i64::from(i32::MAX));
            let guard = b.e().lt(at, n);
            let frag = b.frag(x, 0, 1);
            let twice = bin(Bin::Add, Val::Reg(x, zero), Val::Reg(x, zero));
            vec![load(frag, from, at, Some(guard)), assign(x, zero, twice), store(to, at, frag, Some(guard))]
        }));
    }
    b.done(body)
}

/// Barriers, fences, roles and elected threads.
pub(crate) fn groups(arch: u32) -> Kernel {
    let mut b = Build::new(&format!("groups_{arch}"), arch, 256);
    let to = b.pointer("to", I32, true);
    let tile = b.shared("tile", I32, 256, 4, "256");
    let thread = b.thread();
    let (half, quarter) =
        (b.bar(Bar::Named { id: 1, threads: 128 }), b.bar(Bar::Named { id: 2, threads: 64 }));
    let write = |b: &mut Build, at, n: i64| {
        let value = b.reg("value", I32, 1);
        let (zero, frag) = (b.int(0), b.frag(value, 0, 1));
        vec![assign(value, zero, Val::lit(n as f64, I32)), store(tile, at, frag, None)]
    };
    let mut first = write(&mut b, thread, 1);
    first.push(s(Op::sync(half)));
    let mut elected = Vec::new();
    for (n, scope) in [Scope::Warp, Scope::Warpgroup, Scope::Block].into_iter().enumerate() {
        let body = write(&mut b, thread, 10 + n as i64);
        elected.push(s(Op::Elect(scope, body)));
    }
    first.extend(elected);
    let mut second = write(&mut b, thread, 2);
    second.push(s(Op::sync(quarter)));
    let body = write(&mut b, thread, 20);
    second.push(s(Op::Elect(Scope::Block, body)));
    let third = write(&mut b, thread, 3);
    let role = |name: &str, warps, body| Role { name: name.into(), warps, registers: None, body };
    let roles = vec![
        role("consumers", (0, 4), first),
        role("producers", (4, 6), second),
        role("the rest", (6, 8), third),
    ];
    let mut body = vec![s(Op::Roles(roles))];
    for scope in [Scope::Warp, Scope::Block, Scope::Grid] {
        body.push(s(Op::Fence(Fence::Threads(scope))));
    }
    body.push(sync());
    let value = b.reg("value", I32, 1);
    let frag = b.frag(value, 0, 1);
    body.extend([load(frag, tile, thread, None), store(to, thread, frag, None)]);
    let zero = b.int(0);
    let last = write(&mut b, zero, 30);
    body.push(s(Op::Elect(Scope::Grid, last)));
    b.done(body)
}
