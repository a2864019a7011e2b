//! Diagnostics of programs that no text has: copies under tokens, and roles beside a loop with `split`.

use tilewright_codegen::ast::Level;
use tilewright_codegen::build::Builder;
use tilewright_codegen::tile::{Ahead, How, Split};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Value, layout};

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
    let diagnostics = generate(b.finish()).diagnostics;
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.level == Level::Deny);
    errors.map(|diagnostic| diagnostic.text()).collect::<Vec<_>>().join("\n")
}

#[test]
fn copies_under_a_token_are_waited_for() {
    assert_eq!(copied(Some(1), true), "");
    assert_eq!(copied(Some(0), true), "");
    let message = [copied(None, true), copied(Some(2), true), copied(Some(1), false)];
    insta::assert_snapshot!("tokens", message.join("\n\n"));
}

#[test]
fn roles_beside_a_loop_with_split() {
    let mut b = Builder::new("split");
    b.arch(90).group("all", (0, 1), None);
    b.pipelined("k", Value::symbol("K"), Ahead { split: Split::Cluster(2), ..Ahead::from(1) }, |b, _| {
        b.sync()
    });
    let message = "a kernel has a loop with `split` or roles, not both\nhelp: leave `split` out";
    let outcome = generate(b.finish());
    let messages: Vec<String> = outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect();
    assert!(outcome.kernel.is_none() && messages == [message], "{messages:?}");
}
