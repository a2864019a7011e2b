//! Integer expressions: the arena's simplifications keep their values, and its claims about them are true.
//!
//! Random expressions are built twice, through the arena and as a plain tree, and both are evaluated at the
//! same points: the tree rounds down, the arena's result divides as CUDA C does, towards zero.

use crate::compute::compute;
use proptest::prelude::*;
use tilewright_codegen::index::{Exprs, Int, Ix};
use tilewright_codegen::thread::Scope;

/// Values of the leaves at one point.
#[derive(Clone, Copy, Debug)]
struct Point {
    thread: i64,
    block: i64,
    var: i64,
    param: i64,
}

const THREADS: i64 = 96;
const BLOCKS: i64 = 1000;
const VAR: (i64, i64) = (-3, 20);
/// The parameter is a multiple of this.
const STEP: i64 = 8;

#[derive(Clone, Debug)]
enum Tree {
    Thread,
    Block,
    Var,
    Param,
    Int(i64),
    Add(Box<[Tree; 2]>),
    Sub(Box<[Tree; 2]>),
    Mul(Box<[Tree; 2]>),
    Div(Box<Tree>, i64),
    Rem(Box<Tree>, i64),
    Xor(Box<[Tree; 2]>),
    And(Box<Tree>, i64),
    Lt(Box<[Tree; 2]>),
    Eq(Box<[Tree; 2]>),
    Both(Box<[Tree; 2]>),
    Either(Box<[Tree; 2]>),
    Not(Box<Tree>),
    Min(Box<[Tree; 2]>),
    Select(Box<[Tree; 3]>),
    /// The range of its values is stated as a fact.
    Assume(Box<Tree>),
    /// A divisor of all of its values is stated as a fact.
    Multiple(Box<Tree>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let divisor = prop::sample::select(vec![1i64, 2, 3, 4, 5, 8, 12, 16, 32, 33, 128]);
    let constant = prop_oneof![
        -40i64..40,
        prop::sample::select(vec![-128i64, -32, -8, 0, 1, 2, 4, 16, 32, 64, 96, 128])
    ];
    let leaf = prop_oneof![
        3 => Just(Tree::Thread),
        2 => Just(Tree::Block),
        2 => Just(Tree::Var),
        2 => Just(Tree::Param),
        3 => constant.clone().prop_map(Tree::Int),
    ];
    leaf.prop_recursive(6, 40, 3, move |inner| {
        let two = || (inner.clone(), inner.clone()).prop_map(|(a, b)| Box::new([a, b]));
        let one = || inner.clone().prop_map(Box::new);
        prop_oneof![
            6 => two().prop_map(Tree::Add),
            2 => two().prop_map(Tree::Sub),
            4 => (inner.clone(), constant.clone()).prop_map(|(a, n)| Tree::Mul(Box::new([a, Tree::Int(n)]))),
            1 => two().prop_map(Tree::Mul),
            4 => (one(), divisor.clone()).prop_map(|(a, n)| Tree::Div(a, n)),
            4 => (one(), divisor.clone()).prop_map(|(a, n)| Tree::Rem(a, n)),
            1 => two().prop_map(Tree::Xor),
            1 => (one(), 0i64..256).prop_map(|(a, n)| Tree::And(a, n)),
            1 => two().prop_map(Tree::Lt),
            1 => two().prop_map(Tree::Eq),
            1 => two().prop_map(Tree::Both),
            1 => two().prop_map(Tree::Either),
            1 => one().prop_map(Tree::Not),
            1 => two().prop_map(Tree::Min),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| Tree::Select(Box::new([c, a, b]))),
            2 => one().prop_map(Tree::Assume),
            1 => one().prop_map(Tree::Multiple),
        ]
    })
}

fn point() -> impl Strategy<Value = Point> {
    (0..THREADS, 0..BLOCKS, VAR.0..=VAR.1, 1i64..500).prop_map(|(thread, block, var, n)| Point {
        thread,
        block,
        var,
        param: n * STEP,
    })
}

/// The value of a tree, rounding down; `None` past 2^62, where generated code guarantees no value.
fn naive(tree: &Tree, at: Point) -> Option<i64> {
    let both = |pair: &[Tree; 2]| Some((naive(&pair[0], at)?, naive(&pair[1], at)?));
    let value = match tree {
        Tree::Thread => at.thread,
        Tree::Block => at.block,
        Tree::Var => at.var,
        Tree::Param => at.param,
        Tree::Int(n) => *n,
        Tree::Add(of) => both(of).and_then(|(x, y)| x.checked_add(y))?,
        Tree::Sub(of) => both(of).and_then(|(x, y)| x.checked_sub(y))?,
        Tree::Mul(of) => both(of).and_then(|(x, y)| x.checked_mul(y))?,
        Tree::Div(of, n) => naive(of, at)?.div_euclid(*n),
        Tree::Rem(of, n) => naive(of, at)?.rem_euclid(*n),
        Tree::Xor(of) => both(of).map(|(x, y)| x ^ y)?,
        Tree::And(of, n) => naive(of, at)? & n,
        Tree::Lt(of) => both(of).map(|(x, y)| i64::from(x < y))?,
        Tree::Eq(of) => both(of).map(|(x, y)| i64::from(x == y))?,
        Tree::Both(of) => both(of).map(|(x, y)| i64::from(x != 0 && y != 0))?,
        Tree::Either(of) => both(of).map(|(x, y)| i64::from(x != 0 || y != 0))?,
        Tree::Not(of) => i64::from(naive(of, at)? == 0),
        Tree::Min(of) => both(of).map(|(x, y)| x.min(y))?,
        Tree::Select(of) => match naive(&of[0], at)? {
            0 => naive(&of[2], at)?,
            _ => naive(&of[1], at)?,
        },
        Tree::Assume(of) | Tree::Multiple(of) => naive(of, at)?,
    };
    (value.unsigned_abs() < 1 << 62).then_some(value)
}

/// A truth value, as a condition.
fn truth(e: &mut Exprs, tree: &Tree, places: &[Point]) -> Option<Ix> {
    let zero = e.int(0);
    let of = make(e, tree, places)?;
    let none = e.eq(of, zero);
    Some(e.not(none))
}

/// The same through the arena.
fn make(e: &mut Exprs, tree: &Tree, places: &[Point]) -> Option<Ix> {
    let pair =
        |e: &mut Exprs, pair: &[Tree; 2]| Some((make(e, &pair[0], places)?, make(e, &pair[1], places)?));
    Some(match tree {
        Tree::Thread => e.leaf(Int::Thread, 0, THREADS - 1, 1, Scope::Thread),
        Tree::Block => e.leaf(Int::Block(0), 0, BLOCKS - 1, 1, Scope::Block),
        Tree::Var => e.leaf(Int::Var(0), VAR.0, VAR.1, 1, Scope::Block),
        Tree::Param => e.leaf(Int::Param(0), STEP, 500 * STEP, STEP, Scope::Grid),
        Tree::Int(n) => e.int(*n),
        Tree::Add(of) => {
            let (x, y) = pair(e, of)?;
            e.add(x, y)
        }
        Tree::Sub(of) => {
            let (x, y) = pair(e, of)?;
            e.sub(x, y)
        }
        Tree::Mul(of) => {
            let (x, y) = pair(e, of)?;
            e.mul(x, y)
        }
        Tree::Div(of, n) => {
            let x = make(e, of, places)?;
            e.div(x, *n)
        }
        Tree::Rem(of, n) => {
            let x = make(e, of, places)?;
            e.rem(x, *n)
        }
        Tree::Xor(of) => {
            let (x, y) = pair(e, of)?;
            e.xor(x, y)
        }
        Tree::And(of, n) => {
            let x = make(e, of, places)?;
            e.and(x, *n)
        }
        Tree::Lt(of) => {
            let (x, y) = pair(e, of)?;
            e.lt(x, y)
        }
        Tree::Eq(of) => {
            let (x, y) = pair(e, of)?;
            e.eq(x, y)
        }
        Tree::Both(of) => {
            let (x, y) = (truth(e, &of[0], places)?, truth(e, &of[1], places)?);
            e.all(x, y)
        }
        Tree::Either(of) => {
            let (x, y) = (truth(e, &of[0], places)?, truth(e, &of[1], places)?);
            e.either(x, y)
        }
        Tree::Not(of) => {
            let x = make(e, of, places)?;
            e.not(x)
        }
        Tree::Min(of) => {
            let (x, y) = pair(e, of)?;
            e.min(x, y)
        }
        Tree::Select(of) => {
            let cond = make(e, &of[0], places)?;
            let (x, y) = (make(e, &of[1], places)?, make(e, &of[2], places)?);
            e.select(cond, x, y)
        }
        Tree::Assume(of) => {
            let x = make(e, of, places)?;
            let values: Vec<i64> = places.iter().map(|&p| naive(of, p)).collect::<Option<_>>()?;
            e.assume(x, *values.iter().min()?, *values.iter().max()?);
            x
        }
        Tree::Multiple(of) => {
            let x = make(e, of, places)?;
            let mut of = places.iter().map(|&p| naive(of, p)).collect::<Option<Vec<_>>>()?;
            of.retain(|&n| n != 0);
            let common = of.into_iter().reduce(gcd).unwrap_or(1);
            e.assume_multiple(x, common.abs());
            x
        }
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

/// The value of an expression as CUDA C computes it.
fn compiled(e: &Exprs, of: Ix, at: Point) -> i64 {
    match &e.get(of).int {
        Int::Var(_) => at.var,
        Int::Param(_) => at.param,
        Int::Thread => at.thread,
        Int::Block(_) => at.block,
        Int::Grid(_) | Int::ClusterRank => 0,
        int => compute(int, &|of| compiled(e, of, at)),
    }
}

/// Coordinates past an end become others inside at which a vector fits; the rest stay as they are.
#[test]
fn coordinates_wrap() {
    let mut e = Exprs::default();
    let thread = e.leaf(Int::Thread, 0, THREADS - 1, 1, Scope::Thread);
    for (vector, ends) in [(1, [1, 7, THREADS / 2]), (4, [4, 12, THREADS + 4])] {
        let width = e.int(vector);
        let at = e.mul(thread, width);
        for end in ends {
            let [stop, last] = [end, end - vector].map(|n| e.int(n));
            let wrapped = e.wrap(at, stop, last);
            for thread in 0..THREADS {
                let of = Point { thread, block: 0, var: 0, param: STEP };
                let (at, inside) = (compiled(&e, at, of), compiled(&e, wrapped, of));
                assert!(inside == at || at >= end, "{at} of {end} became {inside}");
                assert!(
                    (0..=end - vector).contains(&inside) && inside % vector == 0,
                    "{at} of {end}: {inside}"
                );
                let known = e.get(wrapped);
                assert!((known.lo..=known.hi).contains(&inside) && inside % known.multiple == 0, "{known:?}");
            }
        }
    }
}

/// A condition that is required already is not required again, wherever it stands.
#[test]
fn conditions_are_required_once() {
    let mut e = Exprs::default();
    let thread = e.leaf(Int::Thread, 0, THREADS - 1, 1, Scope::Thread);
    let [a, b, c] = [3, 5, 7].map(|n| {
        let step = e.int(n);
        let scaled = e.mul(thread, step);
        let limit = e.int(50);
        e.lt(scaled, limit)
    });
    let ab = e.all(a, b);
    let abc = e.all(ab, c);
    let bc = e.all(b, c);
    for (x, y, expected) in [(a, a, a), (ab, b, ab), (ab, a, ab), (b, ab, ab), (ab, bc, abc), (abc, bc, abc)]
    {
        let both = e.all(x, y);
        let conditions = |of: Ix| {
            let mut open = vec![of];
            let mut all = Vec::new();
            while let Some(next) = open.pop() {
                match e.get(next).int {
                    Int::All(a, b) => open.extend([a, b]),
                    _ => all.push(next),
                }
            }
            all.sort();
            all
        };
        assert_eq!(conditions(both), conditions(expected));
    }
}

/// The claims of every expression in the arena are true.
fn claims_hold(e: &Exprs, root: Ix, places: &[Point]) -> Result<(), TestCaseError> {
    let mut open = vec![root];
    while let Some(of) = open.pop() {
        let known = e.get(of);
        open.extend(known.int.parts());
        for &at in places {
            let value = compiled(e, of, at);
            prop_assert!(known.lo <= value && value <= known.hi, "{known:?} is {value} at {at:?}");
            let multiple = known.multiple.abs();
            prop_assert!(
                if multiple == 0 { value == 0 } else { value % multiple == 0 },
                "{known:?} is {value} at {at:?}"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn values_are_kept_and_claims_are_true(tree in tree(), places in prop::collection::vec(point(), 24)) {
        let values: Option<Vec<i64>> = places.iter().map(|&p| naive(&tree, p)).collect();
        let Some(values) = values else { return Ok(()) };
        let mut e = Exprs::default();
        let Some(root) = make(&mut e, &tree, &places) else { return Ok(()) };
        for (&at, &value) in places.iter().zip(&values) {
            prop_assert_eq!(compiled(&e, root, at), value, "at {:?}", at);
        }
        claims_hold(&e, root, &places)?;
    }

    /// An expression that is uniform in a group has one value for the whole group.
    #[test]
    fn uniform_expressions_are_uniform(tree in tree(), at in point(), threads in prop::collection::vec(0..THREADS, 8), block in 0..BLOCKS) {
        let mut places: Vec<Point> = threads.iter().map(|&thread| Point { thread, ..at }).collect();
        places.push(Point { block, ..at });
        if places.iter().any(|&p| naive(&tree, p).is_none()) {
            return Ok(());
        }
        let mut e = Exprs::default();
        let Some(root) = make(&mut e, &tree, &places) else { return Ok(()) };
        let same_for = e.get(root).same_for;
        let value = compiled(&e, root, places[0]);
        if same_for >= Scope::Block {
            prop_assert!(places[..threads.len()].iter().all(|&p| compiled(&e, root, p) == value));
        }
        if same_for >= Scope::Grid {
            prop_assert_eq!(compiled(&e, root, Point { thread: places[0].thread, block, ..at }), value);
        }
    }
}
