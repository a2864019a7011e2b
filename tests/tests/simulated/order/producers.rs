//! Producers: their waits for free slots, and the tensors that they may copy.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::Unroll;
use tilewright_codegen::tile::{Ahead, Expr};
use tilewright_codegen::view::{At, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Tuple, Value};
use tilewright_sim::Arg;
use tilewright_tests::sweep;

use super::run_all;

/// Tiles along K are named by integers in memory, and two warpgroups multiply them.
#[kernel(arch = 90)]
fn gathered(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    ids: &Tensor<i32, I>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (128, 64), (block.x, _)), tile(b, (32, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((128, 64)), shared::<bf16>((32, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 2);
    let mut acc = mma.accumulators((128, 32), 0.0);
    for k in pipelined(0..ids.size(0), stages = 2, producer = warp) {
        let j = ids[(k)];
        copy(ga[(_, _, j)], sa);
        copy(gb[(_, _, j)], sb);
        if block.x % 2 == 0 {
            gemm(sa, sb, &mut acc);
        }
    }
    copy(acc, tile(c, (128, 32), (block.x, block.y)));
}

/// The end of a loop over K is read from memory, under a condition on an argument.
#[kernel(arch = 90)]
fn segments(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    ends: &Tensor<i32, E>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
    yes: i32,
) {
    let (ga, gb) = (tile(a, (128, 64), (block.x, _)), tile(b, (32, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((128, 64)), shared::<bf16>((32, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 2);
    let mut acc = mma.accumulators((128, 32), 0.0);
    assert(M == 128 * E);
    if yes > 0 {
        for k in pipelined(0..ends[(block.x)], stages = 2, producer = warp) {
            copy(ga[(_, _, k)], sa);
            copy(gb[(_, _, k)], sb);
            gemm(sa, sb, &mut acc);
        }
    }
    copy(acc, tile(c, (128, 32), (block.x, block.y)));
}

#[test]
fn one_warp_fills_where_integers_are_read() {
    let (m, n, k) = (256, 32, 64);
    let (a, b) = (vec![bf16::from_f32(1.0); m * 8 * k], vec![bf16::from_f32(1.0); n * 8 * k]);
    let product = |integers: &[i32]| {
        vec![
            Arg::tensor(&a, [m, 8 * k]).strides([8 * k, 1]),
            Arg::tensor(&b, [n, 8 * k]).strides([8 * k, 1]),
            Arg::tensor(integers, [integers.len()]),
            Arg::output::<f32>([m, n]).strides([n, 1]),
        ]
    };
    let check = |def: &KernelDef, args: &[Arg], sums: [f32; 2]| {
        let kernel = def.generate().expect("a kernel");
        assert!(kernel.source().contains("if (warp == 8)"), "{}", kernel.source());
        for c in run_all::<f32>(&kernel, args, "c", sweep::count(10, 30)) {
            for (at, c) in c.iter().enumerate() {
                assert_eq!(*c, sums[at / (128 * 32)], "element {at}");
            }
        }
    };
    let ids: Vec<i32> = (0..20).map(|at| at % 8).collect();
    check(gathered().def(), &product(&ids), [20.0 * 64.0, 0.0]);
    for (yes, sums) in [(1, [3.0 * 64.0, 5.0 * 64.0]), (0, [0.0; 2])] {
        let args: Vec<Arg> = product(&[3, 5]).into_iter().chain([Arg::number(yes)]).collect();
        check(segments().def(), &args, sums);
    }
}

/// A program with a tensor that is read and written, one that is written, and a tile in shared memory.
struct Scene {
    b: Builder,
    x: View,
    y: View,
    s: View,
}

fn scene() -> Result<Scene> {
    let mut b = Builder::new("produced");
    let mut argument = |name: &str| -> Result<View> {
        let (m, n) = (Value::symbol("M"), Value::symbol("N"));
        let rows = Tuple::of([Value::symbol("ld").into(), Tuple::from(1)]);
        let whole = b.tensor(name, Elem::F32, (m, n), Some(rows), true)?;
        b.tile(&whole, (1i64, 128i64), &[At::Index(Coord::Block(0).into()), At::All])
    };
    let (x, y) = (argument("x")?, argument("y")?);
    let s = b.shared_tile("s", Elem::F32, (1i64, 128i64))?;
    Ok(Scene { b, x, y, s })
}

impl Scene {
    fn count() -> Value {
        Value::symbol("N").ceil_div(128).expect("a count")
    }

    fn at(b: &mut Builder, view: &View, k: impl Into<Affine>) -> Result<View> {
        b.slice(view, &[At::All, At::All, At::Index(k.into())])
    }

    /// Each tile of `x` is filled with a number.
    fn filled(&mut self) -> Result<()> {
        let x = self.x.clone();
        self.b.repeat("j", Self::count(), Unroll::No, |b, j| {
            let part = Self::at(b, &x, j)?;
            b.fill(&part, Expr::lit(7.0))
        })
    }

    /// A producer copies tiles of `x`, and the other threads write the tiles of a tensor.
    fn produced(&mut self, to: &View) -> Result<()> {
        let (x, s, to) = (self.x.clone(), self.s.clone(), to.clone());
        let ahead = Ahead { producer: true, ..2.into() };
        self.b.pipelined("k", Self::count(), ahead, |b, k| {
            let (from, to) = (Self::at(b, &x, k.clone())?, Self::at(b, &to, k)?);
            b.copy(&from, &s)?;
            b.copy(&s, &to)
        })
    }
}

fn message(make: impl FnOnce(&mut Scene) -> Result<()>) -> String {
    let mut scene = scene().expect("a scene");
    make(&mut scene).expect("a program");
    let outcome = generate(scene.b.finish());
    outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_written_is_not_copied_by_a_producer() {
    let ahead = "`x` is written before this copy, and the producer, which runs ahead, does not wait for the threads that write it\nhelp: leave out `producer`: the threads of a loop without it wait";
    let inside = "`x` is written in the loop that copies it to shared memory, and copies of later iterations run ahead\nhelp: write a plain loop";
    assert_eq!(
        message(|scene| {
            scene.filled()?;
            scene.produced(&scene.y.clone())
        }),
        ahead
    );
    assert_eq!(message(|scene| scene.produced(&scene.x.clone())), inside);
    // In an earlier iteration of a loop around.
    assert_eq!(
        message(|scene| {
            let outer = std::mem::replace(&mut scene.b, Builder::new("none"));
            let (mut outer, mut done) = (outer, Ok(()));
            outer.repeat("i", 3, Unroll::No, |b, _| {
                std::mem::swap(b, &mut scene.b);
                done = scene.produced(&scene.y.clone()).and_then(|()| scene.filled());
                std::mem::swap(b, &mut scene.b);
            });
            scene.b = outer;
            done
        }),
        ahead
    );
}

#[test]
fn what_a_producer_copies_can_be_written_later() {
    assert_eq!(
        message(|scene| {
            scene.produced(&scene.y.clone())?;
            scene.filled()
        }),
        ""
    );
}

#[test]
fn tiles_of_a_producer_are_not_used_before_its_loop() {
    assert_eq!(
        message(|scene| {
            scene.b.fill(&scene.s.clone(), Expr::lit(0.0))?;
            scene.produced(&scene.y.clone())
        }),
        "`s` is filled by the producer of a pipelined loop, and used outside of it\nhelp: use another shared tensor here"
    );
}
