//! Hints, in the order of the puzzles. The first says where to look, the last is nearly the solution.

/// The hints of each puzzle.
pub(super) const HINTS: [&[&str]; 20] = [
    &[
        "`copy` does not change elements. `map` has a third argument, a closure of one element.",
        "`map(x, y, |x| …)` writes the value of the closure to `y`.",
    ],
    &[
        "The body is right. The type of `y` describes column-major memory.",
        "Add the strides to the type, as in the text: the first is a name, the second is `_1`.",
    ],
    &[
        "`x` has the shape (16, 16) and `bias` the shape (16). Which view of `bias` has the right shape?",
        "The bias of an element depends on its column, so the column of biases is repeated along rows: a row, (1, 16).",
        "`x + bias.along(1)`",
    ],
    &[
        "In `layout!((32, 4))`, threads 0 to 31 are in 32 rows, and each of them needs a sector of its own.",
        "A row has stride 1 in memory, so the stride of the threads along a row should be 1 too.",
        "Write a shape and strides: 4 rows of 32 threads, whose number grows along the row.",
    ],
    &[
        "Four neighbours of `f32` are 16 bytes. They are neighbours along the second mode.",
        "Both parts need `values = (1, 4)`: of `from` and of `to`.",
    ],
    &["The sum needs two elements on each side.", "Set `h` to 2: all other statements use it."],
    &[
        "The copy from `s` reads rows. Elements of a row are 32 words apart, so they are in one bank.",
        "With another stride of the columns, the elements of a row are in different banks.",
        "Which stride is 1 modulo 32 and leaves room for 32 rows?",
    ],
    &[
        "Element (i, j) has the offset 32 · i + j. Which bits of it are the bank?",
        "The bank is j, the lowest 5 bits. Combine it with i, the next 5 bits.",
        "5 bits, from bit 0 on, with those 5 positions higher.",
    ],
    &[
        "The loop has one iteration, but a row has several tiles.",
        "`x` has the shape (8, 32, k). The size of its last mode is the number of tiles.",
    ],
    &[
        "`t` has 128 threads along a row. How many of them does `warp_sum` combine?",
        "The block has one row, so all of its threads should get one sum.",
    ],
    &[
        "Every row has a sum that is infinite, and some have infinite elements: ∞ / ∞ is NaN.",
        "Subtract the largest element of each row before `exp`.",
        "`x - maximum(x, 1)` is a tile of the shape of `x`.",
    ],
    &[
        "The first tile of each row is right. The others do not know the sums before them.",
        "`total` is not used. It is the carry.",
        "Add `carry = &mut total` to the arguments of `scan`.",
    ],
    &[
        "The report names three accesses. Which of them should order the other two?",
        "What does `order = \"relaxed\"` mean for the writes before the update? See `Between blocks` in the reference.",
        "An update without `order` releases and acquires.",
    ],
    &[
        "Which flags do the blocks in the report wait for, and which block should signal each of them?",
        "Block t writes `ends(t)`, and block t + 1 waits for flag t.",
        "Block t must signal flag t.",
    ],
    &[
        "How many rows and how many columns of C has each thread, if 64 threads are (32, 2) over a tile of 32×32?",
        "Each thread has 16 elements. Which shape of 16 elements has the fewest rows and columns together?",
        "Change `tc` alone: 8×8 threads have 4×4 elements each.",
    ],
    &[
        "Only the loop changes, not its body.",
        "`pipelined` takes the range, and the number of stages: `stages = 3`.",
    ],
    &[
        "`full` is a tile for CUDA cores. Accumulators for tensor cores belong to an instruction.",
        "Make the instruction as in the text, and let `acc` be its accumulators.",
        "`tiled_mma` determines the number of threads: 4 warps are 128 threads.",
    ],
    &[
        "In the picture, which threads are in row 0? In `layout!((8, 4))`, threads 0 to 7 are in 8 rows.",
        "`values = (1, 2)` is right: each thread has two neighbours of a row.",
        "The thread number grows by 1 along a row and by 4 along a column.",
    ],
    &[
        "There are 13 tiles and 3 blocks. How many iterations does each block need?",
        "`/` rounds down. A block whose last tile is out of bounds writes no elements.",
        "`ceil_div(a, b)` is a / b, rounded up.",
    ],
    &[
        "Compare `total` and `out`: both are sums of weights. `total` is corrected in each iteration.",
        "Multiply `out` by `shrink` before the product adds to it.",
        "`out = map((out, shrink), |o, c| o * c);`",
    ],
];
