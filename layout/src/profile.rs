//! The nesting of a hierarchical tuple, without its numbers. Does not know the meaning of the leaves.
//!
//! Flat: for each leaf, how many tuples open just before it and close just after it. `(4,(2,3))` is
//! `1.0 1.0 0.2`. Congruence is one comparison, a mode is a range of leaves, and depth needs no recursion.

use crate::few::Few;
use std::ops::Range;

/// Tuples that open before a leaf and close after it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Nest {
    pub(crate) opens: u16,
    pub(crate) closes: u16,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Profile(pub(crate) Few<Nest>);

impl Profile {
    pub(crate) const NONE: Nest = Nest { opens: 0, closes: 0 };

    /// No leaves at all.
    pub(crate) const fn empty() -> Profile {
        Profile(Few::empty(Profile::NONE))
    }

    /// One number without parentheses.
    pub(crate) fn leaf() -> Profile {
        Profile(Few::from_iter([Profile::NONE]))
    }

    /// `(_,_,…)` with `n` leaves; a bare leaf for one.
    pub(crate) fn flat(n: usize) -> Profile {
        let mut all: Few<Nest> = (0..n).map(|_| Profile::NONE).collect();
        if n > 1 {
            all[0].opens = 1;
            all[n - 1].closes = 1;
        }
        Profile(all)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Is it one number rather than a tuple?
    pub(crate) fn is_leaf(&self) -> bool {
        self.len() == 1 && self.0[0].opens == 0
    }

    /// Appends the leaves of one more mode.
    pub(crate) fn append(&mut self, mode: &Profile) {
        self.0.extend_from(&mode.0);
    }

    /// The leaves so far become one tuple.
    pub(crate) fn wrap(&mut self) {
        if let Some(last) = self.len().checked_sub(1) {
            // Past 65,535 levels no further one is kept; layouts refuse far fewer.
            if self.0[0].opens < u16::MAX && self.0[last].closes < u16::MAX {
                self.0[0].opens += 1;
                self.0[last].closes += 1;
            }
        }
    }

    /// The leaf ranges of the top-level modes.
    pub(crate) fn modes(&self) -> Modes<'_> {
        Modes { nests: &self.0, at: 0, bare: self.is_leaf() }
    }

    pub(crate) fn rank(&self) -> usize {
        self.modes().count()
    }

    /// The profile of one top-level mode.
    pub(crate) fn mode(&self, range: &Range<usize>) -> Profile {
        let mut part: Few<Nest> = self.0[range.clone()].iter().copied().collect();
        if !self.is_leaf() {
            let last = part.len() - 1;
            if range.start == 0 {
                part[0].opens -= 1;
            }
            if range.end == self.len() {
                part[last].closes -= 1;
            }
        }
        Profile(part)
    }

    /// 0 for a number, 1 for a tuple of numbers, and so on.
    pub(crate) fn depth(&self) -> usize {
        let (mut now, mut most) = (0usize, 0);
        for nest in self.0.iter() {
            now += nest.opens as usize;
            most = most.max(now);
            now -= nest.closes as usize;
        }
        most
    }
}

/// See [`Profile::modes`].
pub(crate) struct Modes<'p> {
    nests: &'p [Nest],
    at: usize,
    bare: bool,
}

impl Iterator for Modes<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let from = self.at;
        if from == self.nests.len() {
            return None;
        }
        // The outermost tuple does not count: it opens before the first leaf and closes after the last.
        let outer = usize::from(from == 0 && !self.bare);
        let mut open = self.nests[from].opens as usize - outer;
        loop {
            open = open.saturating_sub(self.nests[self.at].closes as usize);
            self.at += 1;
            if open == 0 || self.at == self.nests.len() {
                return Some(from..self.at);
            }
            open += self.nests[self.at].opens as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Tuple;

    #[track_caller]
    fn check(text: &str, rank: usize, depth: usize, modes: &[&str]) {
        let tuple: Tuple = text.parse().unwrap();
        assert_eq!((tuple.rank(), tuple.depth()), (rank, depth), "{text}");
        assert_eq!(tuple.modes().map(|m| m.to_string()).collect::<Vec<_>>(), modes, "{text}");
    }

    #[test]
    fn modes_of_tuples() {
        check("4", 1, 0, &["4"]);
        check("(4)", 1, 1, &["4"]);
        check("(4,(2,3))", 2, 2, &["4", "(2,3)"]);
        check("((4,2),3,((5)))", 3, 3, &["(4,2)", "3", "((5))"]);
        check("((1,2))", 1, 2, &["(1,2)"]);
        check("(1,(2,(3,4)),(5,6))", 3, 3, &["1", "(2,(3,4))", "(5,6)"]);
    }
}
