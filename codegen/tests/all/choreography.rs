//! Diagnostics of wrong choreographies: orders that omit a warp, ring slots whose count differs between
//! members.

use tilewright_codegen::affine::Coord;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Id, Unroll};
use tilewright_codegen::tile::{Ahead, Expr, How, Op, Program, Raster, Ring, Split};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Value, layout};

/// The diagnostics of a program that is refused.
#[track_caller]
fn refused(program: Program) -> String {
    let outcome = generate(program);
    assert!(outcome.kernel.is_none(), "it has a kernel");
    outcome.diagnostics.iter().map(|d| d.text()).collect::<Vec<_>>().join("\n")
}

/// The diagnostics of an order of groups with these warps, executed by warps 0..8.
fn order(groups: &[(&str, (u32, u32))]) -> String {
    let mut b = Builder::new("order");
    let all = b.group("all", (0, 8), None);
    let ids: Vec<Id> = groups.iter().map(|(name, warps)| b.group(name, *warps, None)).collect();
    let r = b.registers("r", Elem::F32, (1i64,)).unwrap();
    let body = |b: &mut Builder| b.ordered(&ids, |b| b.fill(&r, Expr::lit(0.0)));
    b.roles(vec![(all, Box::new(body))]).unwrap();
    refused(b.finish())
}

#[test]
fn orders_that_omit_warps() {
    let message = [
        order(&[("left", (0, 4))]),
        order(&[("left", (0, 4)), ("right", (4, 6))]),
        order(&[("right", (4, 8)), ("left", (0, 4))]),
        order(&[("left", (0, 2)), ("right", (2, 4))]),
    ];
    insta::assert_snapshot!("orders", message.join("\n\n"));
}

/// The diagnostics of two roles that ask for these registers, of 256 and 128 threads.
fn of_registers(left: Option<u32>, right: Option<u32>) -> Option<String> {
    let mut b = Builder::new("registers");
    let y = b.tensor("y", Elem::F32, (Value::symbol("N"),), None, true).unwrap();
    let (left, right) = (b.group("left", (0, 8), left), b.group("right", (8, 12), right));
    let y = b.tile(&y, (256,), &[At::Index(tilewright_codegen::affine::Coord::Block(0).into())]).unwrap();
    let mine = b.parallelize_over(&y, &layout!(256), left, &Partition::default()).unwrap();
    let body = |b: &mut Builder| b.fill(&mine, Expr::lit(0.0));
    b.roles(vec![(left, Box::new(body)), (right, Box::new(|_: &mut Builder| Ok(())))]).unwrap();
    let outcome = generate(b.finish());
    let all = outcome.diagnostics.iter().map(|d| d.text()).collect::<Vec<_>>().join("\n");
    outcome.kernel.is_none().then_some(all)
}

/// A block of 384 threads begins with 168 registers for each.
#[test]
fn roles_share_the_registers_that_the_block_begins_with() {
    for (left, right) in
        [(Some(232), Some(40)), (Some(168), None), (None, Some(168)), (None, Some(40)), (None, None)]
    {
        assert_eq!(of_registers(left, right), None, "{left:?}, {right:?}");
    }
    let refused = [
        of_registers(Some(240), Some(40)),
        of_registers(Some(232), Some(48)),
        of_registers(Some(176), None),
        of_registers(None, Some(176)),
    ];
    insta::assert_snapshot!(
        "registers",
        refused.map(|diagnostic| diagnostic.expect("a refusal")).join("\n\n")
    );
}

#[test]
fn a_condition_that_differs_between_members() {
    let mut b = Builder::new("order");
    let all = b.family("all", (0, 8), 2, None);
    let r = b.registers("r", Elem::F32, (1i64,)).unwrap();
    let body = |b: &mut Builder| -> Result<()> {
        let member = b.member(all);
        b.condition(&member, Value::Int(1), |b| b.ordered(&[all], |b| b.fill(&r, Expr::lit(0.0))))
    };
    b.roles(vec![(all, Box::new(body))]).unwrap();
    insta::assert_snapshot!("apart", refused(b.finish()));
}

/// The diagnostics of a tile that is copied under a token and read: the wait leaves `but` copies in flight,
/// and `meet` adds the barrier.
fn copied(but: Option<u32>, meet: bool) -> String {
    let mut b = Builder::new("copied");
    let n = Value::symbol("N");
    let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false), b.tensor("y", Elem::F32, (n,), None, true));
    let (x, y) = (x.unwrap(), y.unwrap());
    let s = b.shared("s", Elem::F32, layout!((128, 2))).unwrap();
    let threads = layout!(32 : 1);
    let partition = Partition { values: vec![4], ..Partition::default() };
    let mut part = |view: &View| b.parallelize_over(view, &threads, 0, &partition).unwrap();
    let (x, y) = (x.tile(&128.into(), &[At::All]).unwrap(), y.tile(&128.into(), &[At::All]).unwrap());
    let (from, to, out) = (part(&x), part(&s), part(&y));
    // Elements of other threads.
    let others = b.parallelize(&s, &threads).unwrap();
    let at = |view: &View, index: i64| view.slice(&[At::All, At::Index(index.into())]).unwrap();
    let token = b.token();
    for slot in 0..2 {
        b.copy_how(&at(&from, slot), &at(&to, slot), How::Derive, Some(token)).unwrap();
    }
    if let Some(but) = but {
        b.wait(token, but);
    }
    if meet {
        b.sync();
    }
    let r = b.registers("r", Elem::F32, (4i64,)).unwrap();
    b.copy(&at(&others, 0), &r).unwrap();
    b.copy(&r, &at(&out, 0)).unwrap();
    generate(b.finish()).diagnostics.iter().map(|diagnostic| diagnostic.text()).collect::<Vec<_>>().join("\n")
}

#[test]
fn copies_under_a_token_are_waited_for() {
    assert_eq!(copied(Some(1), true), "");
    assert_eq!(copied(Some(0), true), "");
    let message = [copied(None, true), copied(Some(2), true), copied(Some(1), false)];
    insta::assert_snapshot!("tokens", message.join("\n\n"));
}

#[test]
fn loops_over_tiles_belong_to_persistent_kernels() {
    let tiles = [("t", Value::symbol("T"))];
    let mut one = Builder::new("tiles");
    one.group("all", (0, 1), None);
    one.repeat("i", Value::Int(2), Unroll::No, |b, _| b.tiles(&tiles, Raster::Plain, |b, _| b.sync()));
    let mut other = Builder::new("tiles");
    other.group("all", (0, 1), None);
    other.persistent().sync();
    insta::assert_snapshot!("persistent", [refused(one.finish()), refused(other.finish())].join("\n\n"));
}

#[test]
fn roles_beside_a_loop_with_split() {
    let mut b = Builder::new("split");
    b.arch(90).group("all", (0, 1), None);
    b.pipelined("k", Value::symbol("K"), Ahead { split: Split::Cluster(2), ..Ahead::from(1) }, |b, _| {
        b.sync()
    });
    let message = "a kernel has a loop with `split` or roles, not both\nhelp: leave `split` out";
    assert_eq!(refused(b.finish()), message);
}

/// The diagnostics of a ring with this reader, in a program whose family of two has a tile loop of its own.
fn ring(to_family: bool, in_tiles: bool, condition: bool) -> String {
    let mut b = Builder::new("ring");
    b.arch(90).persistent();
    let family = b.family("family", (0, 2), 2, None);
    let whole = b.group("whole", (0, 2), None);
    let producer = b.group("producer", (2, 3), None);
    let s = b.shared("s", Elem::F32, layout!((32, 2))).unwrap();
    let to = if to_family { family } else { whole };
    let name = "ring".into();
    let ring = b.ring(Ring {
        name,
        slots: 2,
        buffers: vec![s.tensor],
        from: producer,
        to,
        arrivals: 1,
        over_cluster: false,
    });
    let tiles = [("t", Value::symbol("T"))];
    let read = |b: &mut Builder| -> Result<()> {
        b.repeat("k", Value::Int(3), Unroll::No, |b, k| -> Result<()> {
            b.statement(Op::Await { ring, phase: Coord::Phase(ring).into() });
            b.statement(Op::Release { ring, phase: Coord::Phase(ring).into() });
            if condition {
                return b.condition(&k, Value::Int(1), |b| {
                    b.statement(Op::Advance { ring });
                    Ok(())
                });
            }
            b.statement(Op::Advance { ring });
            Ok(())
        })
    };
    b.roles(vec![
        (
            family,
            Box::new(|b: &mut Builder| match in_tiles {
                true => b.tiles(&tiles, Raster::Plain, |b, _| read(b)),
                false => read(b),
            }),
        ),
        (producer, Box::new(|b: &mut Builder| b.tiles(&tiles, Raster::Plain, |_, _| Ok(())))),
    ])
    .unwrap();
    refused(b.finish())
}

#[test]
fn slots_without_a_uniform_count() {
    let message = [ring(true, false, false), ring(false, true, false), ring(true, true, true)];
    insta::assert_snapshot!("slots", message.join("\n\n"));
}
