//! The choice of a softmax, layer norm or RMS norm for rows of a length: by lanes, in registers, in shared memory, or read twice.

use super::{
    BETWEEN, BLOCKS, Choice, DENSE, Matrix, OWN, PART, PROCESSORS, SHARED, SHORT, WIDEST, Work,
    clusters_at_once,
};

/// Elements of two bytes of a row up to which clusters with a ring are faster at a softmax.
const RING: usize = 40_000;
/// The bytes of these that a block needs besides its part of a row.
const BESIDE: usize = 1536;
/// Threads of a multiprocessor with 40 registers each.
const THREADS: usize = 1536;

impl Matrix {
    /// Rows that one block does not keep in registers: in the shared memory of clusters, one after another, or read
    /// twice.
    fn longer(&self) -> Option<Choice> {
        let Matrix { elem, rows, columns, wide, .. } = *self;
        let [long, streamed] = match self.work {
            Work::Softmax => ["softmax_long", "softmax_streamed"],
            Work::Layernorm => ["layernorm_long", "layernorm_streamed"],
            _ => ["rmsnorm_long", "rmsnorm_streamed"],
        };
        if columns <= PART {
            return None;
        }
        let value = WIDEST / elem.bytes() as usize;
        if wide < (if columns > 3 * PART { value } else { value.min(4) })
            && let Some(choice) = self.between_vectors()
        {
            return Some(choice);
        }
        // The rows of a softmax may begin between vectors.
        let wide = if self.work == Work::Softmax { value } else { wide };
        // Rows of a few blocks stay in registers if there are enough of them.
        if wide > 1 && columns <= 3 * PART && rows >= PROCESSORS {
            let few = columns <= 5 * PART / 4;
            match (self.work, elem.bytes()) {
                (Work::Softmax, 4..) => return Some(self.in_registers("softmax_row", 3 * PART / 4, 24)),
                (Work::Softmax, _) => return Some(self.in_registers("softmax_row", 3 * PART, 40)),
                (Work::Layernorm, 4..) if few => {
                    return Some(self.in_registers("layernorm_row", 2 * PART, 40));
                }
                (Work::Layernorm, 4..) => return Some(self.in_registers("layernorm_row", 3 * PART / 2, 24)),
                (Work::Layernorm, _) => {}
                (_, 4..) => {
                    let half = columns.div_ceil(2).max(3 * PART / 4);
                    return Some(self.in_registers("rmsnorm_row", half, 24));
                }
                _ => return Some(self.in_registers("rmsnorm_row", 3 * PART / 4, 24)),
            }
        }
        // Two shifted weights cost more than narrower accesses of several elements, unless there are many longer rows. Asynchronous copies
        // have four bytes or more.
        let narrow = self.work == Work::Layernorm
            && (rows < PROCESSORS / 2 || columns <= 3 * PART)
            && wide > 1
            && wide * elem.bytes() as usize >= 4;
        let kept = self.long_at(long, if narrow { wide } else { value });
        // Few rows at a time, so that the L2 cache has them when they are read again.
        let all = [("W", 1024 * OWN), ("L", 1024), ("V", self.wide), ("C", BLOCKS), ("Q", 1)];
        Some(kept.unwrap_or_else(|| self.own(streamed, &all)))
    }

    /// Rows in the shared memory of clusters, one after another, with accesses of `wide` elements.
    fn long_at(&self, kernel: &'static str, wide: usize) -> Option<Choice> {
        let Matrix { work, elem, rows, columns, .. } = *self;
        // Few rows take as many threads as possible.
        let limit = if rows * BLOCKS > PROCESSORS { 4 } else { 2 };
        // Reductions cost fewer threads less; RMS norm has little to reduce, and more of them load its weights, unless these are shifted.
        let all = if work == Work::Rmsnorm && wide == self.wide { THREADS } else { THREADS / 2 };
        // The threads of a block that is alone on a multiprocessor; more of them shift two weights.
        let alone = if work == Work::Layernorm && wide > self.wide { 896 } else { 448 };
        // A row, and the elements before it in its first vector.
        let own = columns + wide - self.wide.min(wide);
        let bytes = elem.bytes() as usize;
        let shape = |blocks| long_rows(bytes, wide, own.div_ceil(blocks), (limit, all, alone));
        let enough = |blocks: &usize| rows * blocks >= PROCESSORS && shape(*blocks).2 >= 3;
        let mut blocks = [1, 2, 4, 8].into_iter().find(enough).unwrap_or(BLOCKS);
        let (mut width, mut threads, mut resident) = shape(blocks);
        // The fewest resident blocks that take all rows at once, so that each thread has more registers.
        let shifted = work == Work::Layernorm && wide > self.wide;
        let at_once = |resident: &usize| rows <= clusters_at_once(blocks, *resident);
        let all_rows = (1..=resident).find(at_once);
        // Two rows of two bytes an element share shifted weights, by twice as many threads, if two such blocks are resident, or in the
        // largest clusters, if three are.
        let mut each = 1;
        if shifted && bytes < 4 && all_rows.is_none() {
            let more = (2 * threads).min(1024);
            let longer = width.next_multiple_of(4 * wide * more);
            let fit = (resident / 2).min(SHARED / (2 * longer * bytes + BESIDE));
            let shared = long_rows(2 * bytes, wide, own.div_ceil(BLOCKS), (3, 1024, alone));
            if fit > 1 {
                (each, threads, width, resident) = (2, more, longer, fit);
            } else if shared.2 > 2 {
                (each, blocks, (width, threads, resident)) = (2, BLOCKS, shared);
            }
        }
        // Else a thread shifts the weights of two vectors at a time.
        let mut pieces = 4;
        if shifted && each == 1 && resident > 0 {
            resident = all_rows.unwrap_or(resident);
            if let Some(shape) = two_vectors(bytes, wide, own.div_ceil(blocks), resident) {
                (width, threads, pieces) = shape;
            }
        }
        // Asynchronous copies have four bytes or more.
        if resident == 0 || wide * (elem.bytes() as usize) < 4 {
            return None;
        }
        let most = clusters_at_once(blocks, resident);
        // Single blocks find room anywhere: as many take equally many rows. Clusters overlap more where there are more.
        let clusters = if blocks == 1 { rows.div_ceil(rows.div_ceil(most)) } else { most };
        // Idle clusters would read rows too.
        let clusters = if shifted { clusters.min(wide * rows.div_ceil(wide * each)) } else { clusters };
        let mut choice = self.own(
            kernel,
            &[("W", width), ("L", threads), ("V", wide), ("C", blocks), ("G", clusters), ("Q", resident)],
        );
        choice.constants.extend((wide > self.wide).then_some(("S", wide)));
        choice.constants.extend((each > 1).then_some(("R", each)));
        choice.constants.extend((pieces != 4).then_some(("P", pieces)));
        Some(choice)
    }

    /// Rows that begin between vectors, as vectors that begin before them, in the registers of clusters.
    fn between_vectors(&self) -> Option<Choice> {
        let (rows, value) = (self.rows, WIDEST / self.elem.bytes() as usize);
        // A row, and the elements before it in its first vector.
        let columns = self.columns + value - 1;
        if self.work != Work::Softmax || self.elem.bytes() < 4 && self.columns <= RING {
            return (columns <= BLOCKS * BETWEEN).then(|| self.by_clusters()).flatten();
        }
        // Few rows take several blocks each, all resident at once. Large clusters leave multiprocessors without work: many
        // such rows are in shared memory.
        let few = (4 * PROCESSORS / rows).next_power_of_two().min(BLOCKS);
        let blocks = few.max(columns.div_ceil(BETWEEN).next_power_of_two());
        if blocks > BLOCKS {
            return None;
        }
        let part = columns.div_ceil(blocks);
        let elements = match (self.elem.bytes() > 2, few < BLOCKS / 4) {
            (true, true) => 28,
            (true, false) => 16,
            (false, _) => 32,
        };
        let threads = part.div_ceil(elements).next_multiple_of(32).clamp(128, 512);
        if blocks > 8 && rows > 4 * clusters_at_once(blocks, 1152 / threads) {
            return None;
        }
        let width = part.next_multiple_of(threads * value);
        Some(self.own("softmax_unaligned", &[("W", width), ("L", threads), ("V", value), ("C", blocks)]))
    }

    /// The same where a cluster takes several of them, which share its weights.
    fn by_clusters(&self) -> Option<Choice> {
        let Matrix { work, elem, rows, columns, .. } = *self;
        let bytes = elem.bytes() as usize;
        let value = WIDEST / bytes;
        let (kernel, weights) = match work {
            Work::Softmax => ("softmax_unaligned", 0),
            Work::Layernorm => ("layernorm_unaligned", 2),
            _ => ("rmsnorm_unaligned", 1),
        };
        // A row, and the elements before it in its first vector.
        let from = columns + value - 1;
        // Shared memory has the weights, or the next row and this one.
        let tiles = if weights > 0 { weights } else { 2 };
        // The threads and the tile of a block, and how many of these blocks are resident on a multiprocessor, where each of its `all`
        // threads has enough registers for `elements` elements.
        let shape = |blocks: usize, (elements, all): (usize, usize)| {
            let part = from.div_ceil(blocks);
            let threads = part.div_ceil(elements).next_multiple_of(32).clamp(128, 512);
            let width = part.next_multiple_of(threads * value);
            (threads, width, (all / threads).min(SHARED / (tiles * width * bytes + BESIDE)))
        };
        let constants = |blocks, (threads, width, resident), groups| {
            vec![("W", width), ("L", threads), ("V", value), ("C", blocks), ("G", groups), ("Q", resident)]
        };
        if bytes > 2 && rows > PROCESSORS {
            // Five rows for each cluster, so that one begins while others end. Two weights leave fewer registers.
            let few = (4 * PROCESSORS / rows).next_power_of_two();
            let (longest, kept) = match (few < BLOCKS / 4, weights) {
                (true, 1) => (BETWEEN, (28, 768)),
                (true, _) => (16 * 512, (16, 1024)),
                _ => (BETWEEN, (16, 1280)),
            };
            let blocks = few.max(from.div_ceil(longest).next_power_of_two());
            let block = shape(blocks, kept);
            let clusters = rows.div_ceil(5).max(PROCESSORS * block.2 / blocks).min(rows);
            return Some(self.own(kernel, &constants(blocks, block, clusters.div_ceil(value))));
        }
        // As many threads as possible for few rows with one weight.
        if let (true, 1, block @ (_, ..=5120, _)) = (rows <= 48, weights, shape(BLOCKS, (16, 896)))
            && bytes > 2
        {
            return Some(self.own(kernel, &constants(BLOCKS, block, 0)));
        }
        let kept = match (bytes > 2, weights) {
            // Shorter rows of single elements: as many for each thread as two weights leave registers for, or fewer in a tile that fits
            // the row better.
            (false, 2) if columns <= PART / 2 => {
                let tile = |kept| shape(1, kept).1;
                let (fewer, more) = ((24, 1152), (32, 1024));
                [if tile(more) <= tile(fewer) { more } else { fewer }; 2]
            }
            (true, 1) => [(28, 768), (16, 1152)],
            (true, _) => [(16, 1152), (16, 896)],
            (false, 0) => [(32, 1024), (24, 1152)],
            (false, _) => [(32, 960), (24, 1152)],
        };
        let plan = |blocks: usize, kept: (usize, usize)| {
            let (threads, width, resident) = shape(blocks, kept);
            if from.div_ceil(blocks) > 512 * kept.0 || resident < 2 {
                return None;
            }
            // The rows of a cluster are a multiple of a vector's elements apart.
            let at_once = clusters_at_once(blocks, resident);
            let groups = if rows <= at_once { rows.div_ceil(value) } else { at_once / value };
            if groups == 0 {
                return None;
            }
            // In picoseconds: an iteration moves its rows at 2.9 TB/s, and takes at least as long as its latencies; other resident blocks
            // hide a part of them.
            let clusters = (value * groups).min(rows);
            let iteration = |rows: usize| (2 * rows * columns * bytes * 1000 / 2900 + 250_000).max(3_400_000);
            let iterations = rows.div_ceil(clusters);
            let time = (iterations - 1) * iteration(clusters)
                + iteration(rows - (iterations - 1) * clusters)
                + (iterations - 1) * 600_000 / resident;
            // Rows that are all resident are over sooner with more threads for each.
            let order = if iterations == 1 { BLOCKS - blocks } else { blocks };
            // Rows that are all resident share no weights.
            let groups = if iterations == 1 { 0 } else { groups };
            let mut constants = constants(blocks, (threads, width, resident), groups);
            constants.extend((weights == 0 && groups > 0).then_some(("S", 2)));
            Some(((time, order, kept.0), constants))
        };
        // Many shorter rows have a block each, or two.
        let shorter = bytes < 4 && columns <= PART && rows > 4 * PROCESSORS;
        let most = if shorter { columns.div_ceil(PART / 2) } else { BLOCKS };
        let plans = (1..=most).flat_map(|blocks| kept.map(|kept| plan(blocks, kept))).flatten();
        let (_, constants) = plans.min_by_key(|(time, _)| *time)?;
        Some(self.own(kernel, &constants))
    }

    /// Such rows of a softmax that one block keeps in registers, with about this many elements for each thread.
    fn by_vectors(&self, elements: usize) -> Choice {
        let value = WIDEST / self.elem.bytes() as usize;
        let columns = self.columns + value - 1;
        let threads = columns.div_ceil(elements).next_multiple_of(32).clamp(128, 1024);
        let width = columns.next_multiple_of(threads * value);
        self.own("softmax_unaligned", &[("W", width), ("L", threads), ("V", value), ("C", 1)])
    }

    /// Threads of a block that keeps a row in registers, with about this many elements for each.
    fn keeping(&self, elements: usize) -> usize {
        self.columns.div_ceil(elements).next_multiple_of(32).clamp(128, 1024)
    }

    /// A norm of rows that lanes or a block keep in registers.
    fn norm_in_registers(&self) -> Choice {
        let Matrix { work, elem, columns, wide, rows: count, .. } = *self;
        let keeping = |elements| self.keeping(elements);
        let (layernorm, kept) = (work == Work::Layernorm, keeping(if wide == 1 { 40 } else { OWN }));
        let (row, rows) =
            if layernorm { ("layernorm_row", "layernorm_rows") } else { ("rmsnorm_row", "rmsnorm_rows") };
        if elem.bytes() > 2 {
            let long = layernorm && columns > PART / 2;
            // Single elements would take too many registers.
            if let (true, 1, Some(choice)) = (long, wide, self.between_vectors()) {
                return choice;
            }
            // A few hundred rows are over sooner with two blocks for each.
            if long && wide > 1 && count <= 8 * PROCESSORS {
                return self.in_registers(row, PART / 2, 16);
            }
            // Long rows of two weights have fewer threads, each with twice the elements.
            let few = long && columns <= 3 * PART / 4;
            return self.in_rows(row, rows, if few { keeping(2 * OWN) } else { kept });
        }
        let own = |kernel, constants: &[(&'static str, usize)]| self.own(kernel, constants);
        if wide == 1 {
            // Many elements of RMS norms for each thread.
            let few = !layernorm && (1280..=2304).contains(&columns);
            return self.in_rows(row, rows, if few { 64 } else { kept });
        }
        // Long rows have fewer threads, each with twice the elements, so that several blocks are resident.
        let least = match (layernorm, wide) {
            (true, _) => 6144,
            (false, ..4) => PART / 8,
            (false, _) => 3 * PART / 4,
        };
        if (least + 1..=PART).contains(&columns) {
            let threads = keeping(2 * OWN);
            let (width, resident) = (columns.next_multiple_of(wide * threads), (1024 / threads).max(1));
            return own(row, &[("W", width), ("L", threads), ("V", wide), ("C", 1), ("Q", resident)]);
        }
        if layernorm && wide == 8 && (32 * SHORT + 1..=48 * SHORT).contains(&columns) {
            return own(rows, &[("W", 48 * SHORT), ("R", 1), ("V", wide), ("G", 32)]);
        }
        // Narrow accesses of short rows occupy two warps.
        let threads = if layernorm && wide < 4 && columns <= 64 * OWN { 64 } else { kept };
        let mut choice = self.in_rows(row, rows, threads);
        if choice.kernel == row {
            // Converted 16-bit weights take 32-bit registers: without a register bound fewer blocks would be resident.
            choice.constants.push(("Q", if threads < 128 { 16 } else { (THREADS / threads).max(1) }));
        }
        choice
    }

    pub(super) fn norms(&self) -> Choice {
        let Matrix { work, elem, rows, columns, wide } = *self;
        let own = |kernel, constants: &[(&'static str, usize)]| self.own(kernel, constants);
        let in_rows = |long, short, threads| self.in_rows(long, short, threads);
        let keeping = |elements| self.keeping(elements);
        // A softmax of longer rows is as fast by single elements.
        let longest = if work == Work::Softmax { 64 } else { DENSE };
        if self.is_dense() && columns <= longest {
            return self.dense(match work {
                Work::Softmax => "softmax_dense",
                Work::Layernorm => "layernorm_dense",
                _ => "rmsnorm_dense",
            });
        }
        // Fewer long rows than multiprocessors, and those whose single elements have two bytes.
        let few = match (work, elem.bytes()) {
            (Work::Softmax, _) => rows <= PROCESSORS && columns > PART / 4,
            (Work::Layernorm, ..4) => false,
            _ => rows <= PROCESSORS && columns > 3 * PART / 4,
        };
        let least = match work {
            Work::Layernorm if rows > 4 * PROCESSORS => 3 * PART / 16,
            Work::Layernorm => PART / 4,
            _ => PART / 2,
        };
        let single =
            work != Work::Softmax && wide == 1 && elem.bytes() < 4 && rows > PROCESSORS && columns > least;
        if columns <= PART
            && (few || single)
            && let Some(choice) = self.between_vectors()
        {
            return choice;
        }
        let kept = keeping(if wide == 1 { 40 } else { OWN });
        // Elements of two bytes, several in an access.
        let narrow = elem.bytes() < 4 && wide > 1;
        match work {
            // Rows of few bytes spend more of their time at barriers: fewer threads for each, so that more rows are
            // resident, or a second reading, which needs few registers.
            Work::Softmax if narrow && (PART / 2 + 1..=PART).contains(&columns) => {
                let threads = keeping(2 * OWN);
                let constants =
                    [("W", threads * OWN), ("L", threads), ("V", wide), ("C", 1), ("Q", THREADS / threads)];
                own("softmax_streamed", &constants)
            }
            Work::Softmax if wide == 1 && (2048..=PART).contains(&columns) => {
                self.by_vectors(if elem.bytes() < 4 { 40 } else { OWN })
            }
            Work::Softmax => self.longer().unwrap_or_else(|| {
                let few = narrow && columns <= 6144;
                let threads = if few { keeping(24) } else { kept };
                let mut choice = in_rows("softmax_row", "softmax_rows", threads);
                if narrow && !few {
                    // All threads of a multiprocessor, with 32 registers each.
                    choice.constants.push(("Q", 2048 / threads));
                }
                choice
            }),
            _ => self.longer().unwrap_or_else(|| self.norm_in_registers()),
        }
    }
}

/// Of a block that keeps `part` elements of a row in shared memory, in four pieces, with this many bytes for each: its tile, its threads,
/// and how many such blocks are resident on a multiprocessor.
fn long_rows(
    bytes: usize,
    wide: usize,
    part: usize,
    (limit, all, alone): (usize, usize, usize),
) -> (usize, usize, usize) {
    let resident = |width: usize| SHARED / (width * bytes + BESIDE);
    let blocks = resident(part).clamp(1, limit);
    let most = if blocks == 1 { alone } else { (all / blocks / 32 * 32).min(1024) };
    let each = part.div_ceil(4 * wide * most);
    let threads = |each| part.div_ceil(4 * wide * each).next_multiple_of(32).max(128);
    // Some more threads where so large a tile leaves room for fewer blocks.
    let fits = |each: &usize| resident(4 * wide * each * threads(*each)).min(limit) == blocks;
    let each = (1..=each).rev().take(3).find(fits).unwrap_or(each);
    let (threads, width) = (threads(each), 4 * wide * each * threads(each));
    (width, threads, resident(width).min(blocks).min(THREADS / threads))
}

/// The same with as many pieces as leave each thread two vectors of one, and room for `resident` blocks: the most threads that waste little,
/// with 48 registers each.
fn two_vectors(bytes: usize, wide: usize, part: usize, resident: usize) -> Option<(usize, usize, usize)> {
    let shapes = (4..=(40 / resident).min(16)).rev().map(|warps| {
        let threads = 32 * warps;
        let pieces = part.div_ceil(2 * wide * threads);
        (2 * wide * threads * pieces, threads, pieces)
    });
    let fits = |(width, ..): &(usize, usize, usize)| SHARED / (width * bytes + BESIDE) >= resident;
    let fitting: Vec<_> = shapes.filter(fits).collect();
    let little = fitting.iter().find(|(width, ..)| 10 * width <= 11 * part);
    little.or(fitting.iter().min()).copied()
}
