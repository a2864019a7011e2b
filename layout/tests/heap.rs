//! Layouts of up to twelve modes stay off the heap: counted, operation by operation.
#![allow(unsafe_code)] // a global allocator cannot be written without it

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::hint::black_box;
use tilewright_layout::{Layout, layout};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator; the counter has no destructor and does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as the caller promises
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        // SAFETY: as the caller promises
        unsafe { System.dealloc(at, memory) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[track_caller]
fn check<T>(what: &str, work: impl Fn() -> T) {
    let before = COUNT.get();
    let done = black_box(work());
    let allocations = COUNT.get() - before;
    drop(done);
    assert_eq!(allocations, 0, "{what} went to the heap");
}

#[test]
fn twelve_modes_need_no_heap() {
    let text = "((2,2),(2,(2,2)),2,(2,2,2,(2,2,2))):((1,2),(4,(8,16)),32,(64,128,256,(512,1024,2048)))";
    let a: Layout = text.parse().unwrap();
    let tile = layout!((4, (2, 8)) : (2, (64, 256)));
    let matrix = layout!((128, 64) : (1, 136));
    assert_eq!(a.leaves().len(), 12);
    check("parsing", || text.parse::<Layout>());
    check("evaluation", || a.eval(1234));
    check("offsets", || a.offsets().unwrap().sum::<i64>());
    check("a coordinate", || a.coordinate(1234));
    check("the offset of a coordinate", || matrix.at((3, 5)));
    check("composition", || a.composition(&tile).unwrap());
    check("composition of twelve modes", || a.composition(&a).unwrap());
    check("coalescing", || a.coalesce());
    check("filtering", || a.filter());
    check("flattening", || a.flatten());
    check("modes", || a.modes().map(|mode| mode.size().unwrap()).sum::<i64>());
    check("complement", || matrix.complement(1 << 20).unwrap());
    check("right inverse", || a.right_inverse().unwrap());
    check("left inverse", || a.left_inverse().unwrap());
    check("division", || a.logical_divide(&tile).unwrap());
    check("zipped division", || a.zipped_divide(&tile).unwrap());
    check("product", || tile.logical_product(layout!((2, 3))).unwrap());
    check("a slice", || matrix.slice((3, tilewright_layout::ALL)).unwrap());
    check("a shape's layout", || Layout::compact((4, (2, 8))).unwrap());
}
