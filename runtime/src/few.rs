//! A list whose first elements are on the stack, so that a launch collects values without allocations. Longer lists use a vector.

/// Up to `N` elements inline, or a vector of more.
#[derive(Clone, Debug)]
pub(crate) struct Few<T, const N: usize> {
    len: usize,
    inline: [T; N],
    /// All of them, where they are more than `N`.
    heap: Vec<T>,
}

impl<T: Copy, const N: usize> Few<T, N> {
    /// An empty list. Unused inline elements are copies of `blank`.
    pub(crate) fn new(blank: T) -> Few<T, N> {
        Few { len: 0, inline: [blank; N], heap: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        match self.inline.get_mut(self.len) {
            Some(index) => *index = item,
            None => self.spill(item),
        }
        self.len += 1;
    }

    #[cold]
    fn spill(&mut self, item: T) {
        if self.heap.is_empty() {
            self.heap.extend_from_slice(&self.inline);
        }
        self.heap.push(item);
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        if self.len <= N { &self.inline[..self.len] } else { &self.heap }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        if self.len <= N { &mut self.inline[..self.len] } else { &mut self.heap }
    }
}

impl<T: Copy, const N: usize> Extend<T> for Few<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_kept_in_order() {
        let mut few = Few::<u32, 4>::new(0);
        for n in 0..10 {
            assert_eq!(few.as_slice(), (0..n).collect::<Vec<_>>());
            few.push(n);
        }
        few.as_mut_slice()[9] = 7;
        assert_eq!(few.as_slice()[8..], [8, 7]);
    }
}
