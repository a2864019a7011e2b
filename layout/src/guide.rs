//! The algebra from zero.
//!
//! Memory is a line of numbered slots. It contains a matrix, a tile of a matrix, or a thread's part of a
//! tile. A *layout* says which element is in which slot: it is a function from coordinates to offsets.
//!
//! You can follow along without writing a program: `tilewright layout --table '(4,6):(1,4)'` draws a layout,
//! and `tilewright layout --explain '…'` explains a result.
//!
//! # Shape and stride
//!
//! A layout is written `shape:stride`. The shape has the extent of each mode, and the stride the distance in
//! memory of one step along it. The offset of a coordinate is the sum of its indices times the strides.
//!
//! ```
//! use tilewright_layout::{draw::Picture, layout};
//! let columns = layout!((4, 6) : (1, 4)); // column-major: the next row is one slot further
//! assert_eq!(columns.at((2, 3))?.int(), Some(2 * 1 + 3 * 4));
//! assert_eq!(Picture::of(&columns)?.table(), "\
//! (4,6):(1,4)
//!       0  1  2  3  4  5
//!    ┌──────────────────
//!  0 │  0  4  8 12 16 20
//!  1 │  1  5  9 13 17 21
//!  2 │  2  6 10 14 18 22
//!  3 │  3  7 11 15 19 23
//! ");
//! let rows = layout!((4, 6) : (6, 1)); // the same matrix, row-major
//! assert_eq!(rows.at((2, 3))?.int(), Some(2 * 6 + 3 * 1));
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
#![doc = include_str!("pictures/columns.svg")]
#![doc = include_str!("pictures/rows.svg")]
//!
//! The colour is the offset modulo 8, so consecutive colours are consecutive in memory.
//!
//! A layout has two sizes: [`size`](crate::Layout::size) is the number of coordinates, and
//! [`cosize`](crate::Layout::cosize) is the number of slots that the offsets span. They differ if there are
//! gaps:
//!
//! ```
//! use tilewright_layout::layout;
//! let padded = layout!((128, 8) : (1, 129)); // one unused slot after each column
//! assert_eq!((padded.size()?, padded.cosize()?), (1024, 1031));
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! # One number is a coordinate, too
//!
//! The coordinates are numbered, with the leftmost mode fastest. So every layout is also a function of one
//! integer, whatever its shape:
//!
//! ```
//! use tilewright_layout::layout;
//! let rows = layout!((4, 6) : (6, 1));
//! assert_eq!(rows.coordinate(14)?.to_string(), "(2,3)"); // 14 = 2 + 3*4
//! assert_eq!(rows.eval(14), Some(15));
//! assert_eq!(rows.offsets()?.take(8).collect::<Vec<_>>(), [0, 6, 12, 18, 1, 7, 13, 19]);
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! # Modes inside modes
//!
//! Divide the columns of such a matrix into pairs. A column then has two coordinates: its index in the pair, and
//! the index of the pair. Each has its own stride. "Column 3" should still be a coordinate, so the two form one
//! mode: `(2,3)` replaces `6`.
//!
//! ```
//! use tilewright_layout::layout;
//! let tiles = layout!((4, (2, 3)) : (2, (1, 8))); // each tile of 4x2 is contiguous, row by row
//! assert_eq!(tiles.at((1, 3))?, tiles.at((1, (1, 1)))?); // column 3 is number 1 of pair 1
//! assert_eq!(tiles.at((1, 3))?.int(), Some(2 + 1 + 8));
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
#![doc = include_str!("pictures/nested.svg")]
//!
//! No stride of a plain `(4,6)` matrix could do this. A nested layout can describe tiles, tiles of tiles, and the
//! registers of a tensor core, and it can still be indexed as a matrix.
//!
//! [`coalesce`](crate::Layout::coalesce) removes nesting that has no effect. The function of one integer
//! remains the same:
//!
//! ```
//! use tilewright_layout::layout;
//! assert_eq!(layout!((2, (1, 6)) : (1, (6, 2))).coalesce(), layout!(12 : 1));
//! assert_eq!(layout!((4, (2, 3)) : (2, (1, 8))).coalesce(), layout!((4, 2, 3) : (2, 1, 8))); // no modes merge
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! # Composition: one layout seen through another
//!
//! Layouts are functions, so they can be applied one after the other: `R(c) = A(B(c))`. `B` selects elements by
//! number and orders them; `A` maps them to offsets. This one operation can take every second row, reshape,
//! transpose, or give each thread its part.
//!
//! ```
//! use tilewright_layout::layout;
//! let a = layout!((4, 6) : (1, 4));
//! assert_eq!(a.composition(layout!(6 : 4))?, layout!(6 : 4)); // elements 0, 4, 8, …: the first row
//! assert_eq!(a.composition(layout!((6, 4) : (4, 1)))?, layout!((6, 4) : (4, 1))); // the transpose
//! assert_eq!(layout!(24 : 2).composition(layout!((4, 6) : (1, 4)))?, layout!((4, 6) : (2, 8))); // a new shape
//!
//! let b = layout!((6, 2) : (8, 2)).composition(layout!((4, 3) : (3, 1)))?;
//! assert_eq!(b.to_string(), "((2,2),3):((24,2),8)"); // the 4 is split where the 6 wraps around
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! With a tuple, each mode is composed separately. This is the usual way to take a tile at a corner; `_`
//! ([`ALL`](crate::ALL)) leaves a mode unchanged:
//!
//! ```
//! use tilewright_layout::{ALL, layout};
//! let a = layout!((4, 6) : (1, 4));
//! assert_eq!(a.composition((2, 3))?, layout!((2, 3) : (1, 4)));
//! assert_eq!(a.composition((layout!(2 : 2), ALL))?, layout!((2, 6) : (2, 4))); // every second row
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! Not every pair of layouts has a composition. Steps of 4 through columns of 7 wrap around at changing
//! positions, which no shape and stride describe. The result is then an error, never a wrong layout. The error
//! names the coordinate and an operand that works:
//!
//! ```
//! use tilewright_layout::layout;
//! let error = layout!((7, 6) : (6, 1)).composition(layout!(8 : 4)).unwrap_err();
//! assert_eq!(error.to_string(), "\
//!     composition of (7,6):(6,1) with 8:4 has no result. At coordinate 7 of 8:4: the offset is 4, but strides that fit \
//!     the smaller coordinates give 45, because mode 0 of the left operand wraps around at index 7. \
//!     Choose a tile that stays inside that mode or covers it whole. The nearest operand that works is 6:4.");
//! ```
//!
//! # Division: tiles, and the layout of tiles
//!
//! A layout selects the elements of one tile: `4:2` takes every second element, four in all. Its
//! [`complement`](crate::Layout::complement) is the layout of the offsets at which tiles begin:
//!
//! ```
//! use tilewright_layout::layout;
//! let tile = layout!(4 : 2);
//! let rest = tile.complement(24)?;
//! assert_eq!(rest, layout!((2, 3) : (1, 8))); // tiles begin at 0, 1, 8, 9, 16, 17
//! assert_eq!(layout!(24 : 1).logical_divide(&tile)?.to_string(), "(4,(2,3)):(2,(1,8))"); // (tile, rest)
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! A *divide* composes a layout with both, the tile and its complement. The result has the same elements with other
//! coordinates: the first is the position within the tile, the second selects the tile. If the tile is a shape
//! and not a layout, each mode is divided separately. The four divides differ only in how they group the modes:
//!
//! ```
//! use tilewright_layout::layout;
//! let a = layout!((8, 4) : (1, 8));
//! assert_eq!(a.logical_divide((4, 2))?.to_string(), "((4,2),(2,2)):((1,4),(8,16))"); // mode by mode (tile, rest)
//! assert_eq!(a.zipped_divide((4, 2))?.to_string(), "((4,2),(2,2)):((1,8),(4,16))"); // (the tile, the rest)
//! assert_eq!(a.tiled_divide((4, 2))?.to_string(), "((4,2),2,2):((1,8),4,16)"); // (the tile, rest, rest)
//! assert_eq!(a.flat_divide((4, 2))?.to_string(), "(4,2,2,2):(1,8,4,16)"); // (tile, tile, rest, rest)
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! `logical_divide` leaves the matrix as it is; in its picture, lines separate the tiles:
//!
#![doc = include_str!("pictures/divided.svg")]
//!
//! In `zipped_divide` each column is one tile, for one block of threads:
//!
#![doc = include_str!("pictures/zipped.svg")]
//!
//! If the tile does not divide a size, the size is rounded up, so that no element is lost. The kernel must then
//! guard against the elements after the end. [`tile_obligations`](crate::Layout::tile_obligations) returns the
//! conditions under which there are no such elements.
//!
//! # Products: copies of a block
//!
//! A *product* arranges copies of a block. It puts the copies at the offsets of the block's complement.
//!
//! ```
//! use tilewright_layout::layout;
//! let block = layout!((2, 2) : (2, 1)); // row-major
//! assert_eq!(block.logical_product(layout!(3 : 1))?.to_string(), "((2,2),3):((2,1),4)"); // (block, copies)
//! let grid = block.blocked_product(&layout!((2, 3) : (3, 1)))?;
//! assert_eq!(grid.to_string(), "((2,2),(2,3)):((2,12),(1,4))");
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
#![doc = include_str!("pictures/blocked.svg")]
//!
//! [`raked_product`](crate::Layout::raked_product) interleaves the blocks instead of putting them side by
//! side, and [`tile_to_shape`](crate::Layout::tile_to_shape) repeats a block until it fills a shape.
//!
//! # Inverses: from an offset back to a coordinate
//!
//! [`right_inverse`](crate::Layout::right_inverse) maps an offset to the element there: `A(R(i)) = i`, up to the
//! first gap in the offsets. [`left_inverse`](crate::Layout::left_inverse) also inverts layouts with gaps:
//! `L(A(i)) = i`. If no layout is this inverse, the result is an error.
//!
//! ```
//! use tilewright_layout::layout;
//! let rows = layout!((4, 6) : (6, 1));
//! let back = rows.right_inverse()?;
//! assert_eq!(back, layout!((6, 4) : (4, 1)));
//! assert_eq!(rows.eval(back.eval(15).unwrap()), Some(15));
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! [`max_common_vector`](crate::Layout::max_common_vector) uses inverses to find how many elements a copy between
//! two layouts may move at once.
//!
//! # Threads
//!
//! Threads are numbered, and so are elements. A partition of a tile over 32 threads is one more layout.
//! [`parallelize`](crate::Layout::parallelize) distributes the elements of a tile over threads, cyclically:
//!
//! ```
//! use tilewright_layout::layout;
//! let tile = layout!((64, 8) : (1, 64));
//! let threads = layout!((16, 2)); // 16 along the rows, 2 along the columns
//! let (mine, begin) = tile.parallelize(&threads, 17, None)?; // thread 17 is at (1, 1)
//! assert_eq!((mine.to_string(), begin.int()), ("(4,4):(16,128)".to_string(), Some(1 + 64)));
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! To load several elements at once, each thread needs contiguous elements. A [`TiledCopy`](crate::TiledCopy) is
//! made of two layouts: the arrangement of the threads, and the arrangement of the values of one thread. It is a
//! *thread-value layout*, a function from (thread, value) to the element:
//!
//! ```
//! use tilewright_layout::{TiledCopy, draw::Picture, layout};
//! let copy = TiledCopy::new(&layout!((4, 4) : (4, 1)), &layout!((1, 2)))?; // 4x4 threads, two columns each
//! assert_eq!(Picture::threads(&copy)?.table(), "\
//! ((4,4),2):((8,1),4) into a tile (4,8)
//!           0      1      2      3      4      5      6      7
//!    ┌────────────────────────────────────────────────────────
//!  0 │  T0 V0  T0 V1  T1 V0  T1 V1  T2 V0  T2 V1  T3 V0  T3 V1
//!  1 │  T4 V0  T4 V1  T5 V0  T5 V1  T6 V0  T6 V1  T7 V0  T7 V1
//!  2 │  T8 V0  T8 V1  T9 V0  T9 V1 T10 V0 T10 V1 T11 V0 T11 V1
//!  3 │ T12 V0 T12 V1 T13 V0 T13 V1 T14 V0 T14 V1 T15 V0 T15 V1
//! ");
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
#![doc = include_str!("pictures/copy.svg")]
//!
//! A fragment, the part of a tile that an instruction of tensor cores has in registers, is described by such a
//! layout, too. This is the accumulator of `mma.sync.m16n8k8`, 16x8 results over the 32 threads of a warp:
//!
#![doc = include_str!("pictures/accumulator.svg")]
//!
//! # Swizzles
//!
//! Shared memory has 32 banks. Accesses to different words of one bank are serialised: this is a bank conflict.
//! For the pictures, suppose that there are 8 banks, one for each colour. Each column of a row-major tile with
//! rows of 8 is then in a single bank. Padding avoids that, but needs more memory. A
//! [`Swizzle`](crate::Swizzle) needs none: it combines some bits of the offset with higher bits by XOR, so that
//! each row is permuted in its own way. Elements remain in their rows.
//!
//! ```
//! use tilewright_layout::{Composed, Swizzle, layout};
//! let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
//! let banks: Vec<i64> = (0..8).map(|row| tile.at((row, 0)).unwrap() % 8).collect();
//! assert_eq!(banks, [0, 1, 2, 3, 4, 5, 6, 7]); // a column has every bank once
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
#![doc = include_str!("pictures/swizzled.svg")]
//!
//! [`Composed`](crate::Composed) is a swizzle after a layout. It can be sliced, tiled and divided as other layouts
//! can.
//!
//! # Symbols: sizes known at launch
//!
//! The sizes `M` and `K` of a kernel's matrices are known only when the kernel is launched. Until then they are
//! *symbols*, and extents and strides may be symbols. An operation whose result depends on the value of a symbol
//! returns an error that names the symbol. Conditions to check at launch are returned as an
//! [`Obligation`](crate::Obligation), or, for tiles, a [`TileObligation`](crate::TileObligation):
//!
//! ```
//! use tilewright_layout::{ALL, Layout};
//! let a: Layout = "(M,K):(1,lda)".parse()?;
//! let (tiles, begin) = a.tile((128, 8), (3, ALL))?; // block 3 along M, all tiles along K
//! assert_eq!(tiles.to_string(), "(128,8,ceil(K/8)):(1,lda,8*lda)");
//! assert_eq!(begin.int(), Some(384));
//! let needs = a.tile_obligations((128, 8))?;
//! assert_eq!(needs[0].to_string(), "128 divides M");
//! assert!(a.size().unwrap_err().to_string().contains("`M` is not known until launch"));
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! # Summary
//!
//! | You want | Take |
//! |---|---|
//! | a layout | [`layout!`](crate::layout!), [`Layout::compact`](crate::Layout::compact), [`row_major`](crate::Layout::row_major), [`padded`](crate::Layout::padded), or text with `parse` |
//! | an offset | [`at`](crate::Layout::at), [`eval`](crate::Layout::eval), [`offsets`](crate::Layout::offsets) |
//! | the same function, simpler | [`coalesce`](crate::Layout::coalesce), [`filter`](crate::Layout::filter), [`flatten`](crate::Layout::flatten) |
//! | some elements, in some order | [`composition`](crate::Layout::composition) |
//! | a row, a column, a corner | [`slice`](crate::Layout::slice) |
//! | tiles | [`zipped_divide`](crate::Layout::zipped_divide) and the other divides, or [`tile`](crate::Layout::tile) for one block's tile |
//! | one thread's part | [`parallelize`](crate::Layout::parallelize), [`TiledCopy`](crate::TiledCopy), [`TiledMma`](crate::TiledMma) |
//! | copies of a block | [`blocked_product`](crate::Layout::blocked_product), [`tile_to_shape`](crate::Layout::tile_to_shape) |
//! | an inverse | [`right_inverse`](crate::Layout::right_inverse), [`left_inverse`](crate::Layout::left_inverse) |
//! | elements of another size | [`recast`](crate::Layout::recast) |
//! | a picture | [`draw::Picture`](crate::draw::Picture) |
