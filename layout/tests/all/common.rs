//! Random layouts, and brute-force oracles for the property tests.

use proptest::prelude::*;
use tilewright_layout::{Layout, Tuple};

/// A nested tuple of leaves.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Leaf(i64, i64),
    Node(Vec<Tree>),
}

/// The largest size that is enumerated.
const MOST: i64 = 800;

impl Tree {
    /// With extents of 1 once there are enough elements.
    fn fitted(self, size: &mut i64) -> Tree {
        match self {
            Tree::Leaf(n, d) if *size * n <= MOST => {
                *size *= n;
                Tree::Leaf(n, d)
            }
            Tree::Leaf(_, d) => Tree::Leaf(1, d),
            Tree::Node(modes) => Tree::Node(modes.into_iter().map(|mode| mode.fitted(size)).collect()),
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        match self {
            Tree::Leaf(extent, stride) => Layout::new(*extent, *stride).unwrap(),
            Tree::Node(modes) => Layout::from_modes(modes.iter().map(Tree::layout)).unwrap(),
        }
    }
}

pub(crate) fn extent() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(1), 3 => Just(2), 2 => Just(3), 3 => Just(4), 1 => Just(5), 2 => Just(6), 1 => Just(7)]
}

/// Leaves with these strides under random parentheses, small enough to be enumerated.
pub(crate) fn nested(strides: impl Strategy<Value = i64> + 'static) -> BoxedStrategy<Layout> {
    let leaf = (extent(), strides).prop_map(|(n, d)| Tree::Leaf(n, d));
    leaf.prop_recursive(3, 4, 3, |inner| proptest::collection::vec(inner, 1..=3).prop_map(Tree::Node))
        .prop_map(|tree| tree.fitted(&mut 1).layout())
        .boxed()
}

/// Any strides at all.
pub(crate) fn any_layout() -> BoxedStrategy<Layout> {
    prop_oneof![4 => positive(), 2 => nested(-9i64..=24), 2 => dense(), 1 => many_leaves()].boxed()
}

/// Strides that are zero or positive.
pub(crate) fn positive() -> BoxedStrategy<Layout> {
    let stride = prop_oneof![1 => Just(0), 2 => Just(1), 2 => Just(2), 4 => 0i64..=12, 2 => 0i64..=48];
    nested(stride)
}

/// Compact layouts in a random order of leaves, some with gaps: where inverses and complements exist.
pub(crate) fn dense() -> BoxedStrategy<Layout> {
    let leaf = (extent(), 0i64..1000).prop_map(|(n, d)| Tree::Leaf(n, d));
    let tree =
        leaf.prop_recursive(3, 4, 3, |inner| proptest::collection::vec(inner, 1..=3).prop_map(Tree::Node));
    let gap = prop_oneof![6 => Just((1i64, 0i64)), 2 => Just((2, 0)), 1 => Just((3, 0)), 1 => Just((1, 1))];
    (tree, proptest::collection::vec(gap, 12))
        .prop_map(|(tree, gaps)| {
            let layout = tree.fitted(&mut 1).layout();
            let ranks: Vec<i64> = layout.stride().ints().unwrap();
            let extents: Vec<i64> = layout.shape().ints().unwrap();
            let mut order: Vec<usize> = (0..ranks.len()).collect();
            order.sort_by_key(|&leaf| ranks[leaf]);
            let mut strides = vec![0; ranks.len()];
            let mut next = gaps[11].0;
            for (position, &leaf) in order.iter().enumerate() {
                strides[leaf] = next;
                let (times, plus) = gaps[position % 11];
                next = next * extents[leaf] * times + plus;
            }
            restride(&layout, &strides)
        })
        .boxed()
}

/// More leaves than fit without the heap.
pub(crate) fn many_leaves() -> BoxedStrategy<Layout> {
    let leaf = prop_oneof![5 => Just(1i64), 3 => Just(2)];
    let leaf = (leaf, 0i64..=16).prop_map(|(n, d)| Tree::Leaf(n, d));
    proptest::collection::vec(proptest::collection::vec(leaf, 1..=5).prop_map(Tree::Node), 3..=5)
        .prop_map(|modes| Tree::Node(modes).fitted(&mut 1).layout())
        .boxed()
}

/// The same shape with other strides.
pub(crate) fn restride(layout: &Layout, strides: &[i64]) -> Layout {
    let mut next = strides.iter().copied();
    Layout::new(layout.shape(), fill(&layout.shape(), &mut next)).unwrap()
}

/// A tuple nested like `like`, with these numbers.
pub(crate) fn fill(like: &Tuple, numbers: &mut dyn Iterator<Item = i64>) -> Tuple {
    if like.is_leaf() {
        Tuple::from(numbers.next().unwrap())
    } else {
        Tuple::of(like.modes().map(|mode| fill(&mode, numbers)).collect::<Vec<_>>())
    }
}

pub(crate) fn offsets(layout: &Layout) -> Vec<i64> {
    layout.offsets().unwrap().collect()
}

/// Extents and strides of the leaves.
pub(crate) fn leaves(layout: &Layout) -> Vec<(i64, i64)> {
    layout.leaves().map(|(n, d)| (n.int().unwrap(), d.int().unwrap())).collect()
}

/// The offset of an index, from the definition alone; the last mode is not wrapped.
pub(crate) fn eval(leaves: &[(i64, i64)], mut index: i64) -> i64 {
    let mut sum = 0;
    for (leaf, &(n, d)) in leaves.iter().enumerate() {
        if leaf + 1 == leaves.len() {
            return sum + index * d;
        }
        sum += index % n * d;
        index /= n;
    }
    sum
}

/// Values of a function on the coordinates of a shape, in order: is there a layout of that shape, leaf by
/// leaf refined, with these values?
pub(crate) fn is_a_layout(extents: &[i64], values: &[i64]) -> bool {
    first_contradiction(extents, values).is_none()
}

/// The smallest index at which no layout of this shape, leaf by leaf refined, can have these values, whatever
/// follows.
pub(crate) fn first_contradiction(extents: &[i64], values: &[i64]) -> Option<usize> {
    let mut first = None;
    let mut earliest = |at: usize| first = Some(first.map_or(at, |first: usize| first.min(at)));
    // additive over the leaves
    for (index, &value) in values.iter().enumerate() {
        let (mut rest, mut position, mut sum) = (index as i64, 1, 0);
        for &n in extents {
            sum += values[(rest % n * position) as usize];
            rest /= n;
            position *= n;
        }
        if sum != value {
            earliest(index);
            break;
        }
    }
    let mut position = 1;
    for &n in extents {
        let along: Vec<i64> = (0..n).map(|x| values[(x * position) as usize]).collect();
        if let Some(x) = (0..along.len()).find(|&x| !prefix_is_nested(&along[..=x], n)) {
            earliest(x * position as usize);
        }
        position *= n;
    }
    first
}

/// Does some nested layout of `extent` elements begin with these values? Tries every first mode.
fn prefix_is_nested(begin: &[i64], extent: i64) -> bool {
    let straight = |of: &[i64]| of.iter().enumerate().all(|(x, v)| *v == x as i64 * of.get(1).unwrap_or(&0));
    if begin.first().is_some_and(|v| *v != 0) {
        return false;
    }
    if straight(begin) {
        return true;
    }
    (2..extent).filter(|n| extent % n == 0).any(|n| {
        let n = n as usize;
        let coarse: Vec<i64> = begin.iter().copied().step_by(n).collect();
        straight(&begin[..n.min(begin.len())])
            && begin.iter().enumerate().all(|(x, v)| *v == begin[x % n] + coarse[x / n])
            && prefix_is_nested(&coarse, extent / n as i64)
    })
}

/// Are all values different?
pub(crate) fn all_different(values: &[i64]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}
