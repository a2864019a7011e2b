//! A vector that stores its first twelve elements inline. It does not know layouts.
//!
//! Layouts are small: twelve modes cover every kernel we have met, so values of the algebra live on the stack
//! and cost a `memcpy` to copy. More modes are stored on the heap.

use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// How many elements fit without the heap.
pub(crate) const INLINE: usize = 12;

#[derive(Clone)]
pub(crate) enum Few<T> {
    Inline(u8, [T; INLINE]),
    Heap(Vec<T>),
}

impl<T: Copy> Few<T> {
    /// `blank` fills the unused places; a `const fn`, which `Default::default` is not.
    pub(crate) const fn empty(blank: T) -> Few<T> {
        Few::Inline(0, [blank; INLINE])
    }

    /// The first `len` elements of `all`, for constants.
    pub(crate) const fn from_array(len: usize, all: [T; INLINE]) -> Few<T> {
        assert!(len <= INLINE);
        Few::Inline(len as u8, all)
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Few::Inline(len, _) => *len = 0,
            Few::Heap(more) => more.clear(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        match self {
            Few::Inline(len, all) if (*len as usize) < INLINE => {
                all[*len as usize] = item;
                *len += 1;
            }
            _ => self.push_to_heap(item),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        match self {
            Few::Inline(0, _) => None,
            Few::Inline(len, all) => {
                *len -= 1;
                Some(all[*len as usize])
            }
            Few::Heap(more) => more.pop(),
        }
    }

    #[cold]
    fn push_to_heap(&mut self, item: T) {
        match self {
            Few::Inline(_, all) => {
                let mut more = Vec::with_capacity(2 * INLINE);
                more.extend_from_slice(all);
                more.push(item);
                *self = Few::Heap(more);
            }
            Few::Heap(more) => more.push(item),
        }
    }

    pub(crate) fn extend_from(&mut self, items: &[T]) {
        for &item in items {
            self.push(item);
        }
    }

    pub(crate) const fn as_slice(&self) -> &[T] {
        match self {
            Few::Inline(len, all) => all.split_at(*len as usize).0,
            Few::Heap(more) => more.as_slice(),
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            Few::Inline(len, all) => &all[..*len as usize],
            Few::Heap(more) => more,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Few::Inline(len, all) => &mut all[..*len as usize],
            Few::Heap(more) => more,
        }
    }
}

impl<T: Copy + Default> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Few::empty(T::default());
        for item in items {
            few.push(item);
        }
        few
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T: Hash> Hash for Few<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_past_the_inline_part() {
        let few: Few<u32> = (0..40).collect();
        assert!(matches!(few, Few::Heap(_)));
        assert_eq!(few.iter().copied().collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
        let short: Few<u32> = (0..12).collect();
        assert!(matches!(short, Few::Inline(12, _)));
        assert!(few != short);
    }
}
