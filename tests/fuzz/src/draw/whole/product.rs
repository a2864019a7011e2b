//! Products of whole tiles, and producers.

use tilewright_codegen::Elem;

use super::super::scene::{Extent, block};
use super::super::text::{choice, literal, repeat, tuple, with};
use super::{Known, Space, Whole};

/// Types of operands, of sums, and whether tensor cores multiply them.
const TYPES: [(u32, (Elem, Elem, bool)); 7] = [
    (5, (Elem::F32, Elem::F32, false)),
    (2, (Elem::I32, Elem::I32, false)),
    (2, (Elem::F64, Elem::F64, false)),
    (2, (Elem::F16, Elem::F32, false)),
    (4, (Elem::F16, Elem::F32, true)),
    (4, (Elem::Bf16, Elem::F32, true)),
    (2, (Elem::I8, Elem::I32, true)),
];

/// Operands of a product: their tiles in global memory, and where they are in shared memory.
struct Operands {
    tiles: Vec<(String, Vec<i64>)>,
    slots: Vec<Known>,
    /// What is multiplied instead of the slots, and its value.
    computed: Vec<(String, Known)>,
}

impl Whole {
    /// Needs the newest of the architectures that are drawn.
    pub(super) fn hopper(&mut self) {
        if !self.keys.iter().any(|key| key.starts_with("arch")) {
            self.keys.push("arch = 90".into());
        }
    }

    /// The keys of a pipelined loop.
    pub(super) fn ahead(&mut self, range: &str) -> String {
        let all = format!("pipelined({range}, stages = {})", self.scene.random.within(1, 4));
        let likely = match self.warpgroups {
            _ if self.listed => 100,
            0 => 30,
            _ => 90,
        };
        if !self.scene.random.chance(likely) {
            return all;
        }
        self.hopper();
        with(all, "producer", "warp")
    }

    /// A shape that tensor cores multiply, and how many warpgroups do.
    pub(super) fn product_shape(&mut self) -> Vec<i64> {
        let columns = self.scene.random.pick(&[8, 16, 32, 32, 64]);
        if self.scene.random.chance(45) {
            self.hopper();
            self.warpgroups = self.scene.random.weighted(&[(3, 1), (4, 2), (1, 3)]);
            return vec![64 * self.warpgroups, columns];
        }
        vec![self.scene.random.pick(&[16, 32, 64, 64, 128]), columns]
    }

    /// The rows or columns of an operand: their extent, and the tile of the block.
    pub(super) fn rows_of_block(&mut self, axis: usize, size: i64) -> (Extent, String) {
        let fits = |at: &usize| self.scene.axes[*at].tile == size && (axis == 0 || *at > 0);
        match (0..self.scene.axes.len()).find(fits) {
            Some(axis) => {
                self.scene.numbered[axis] = true;
                (self.scene.axes[axis].extent.clone(), block(axis))
            }
            None => (self.scene.extent(size), "0".into()),
        }
    }

    /// Accumulators of a product on tensor cores.
    pub(super) fn accumulators(&mut self, mma: &str, sums: Elem, shape: &[i64]) -> Known {
        let zero = literal(0.0, sums);
        self.made(format!("{mma}.accumulators({}, {zero})", tuple(shape)), sums, shape.to_vec())
    }

    /// The instruction by which all threads multiply.
    pub(super) fn tiled_mma(&self, elem: Elem, sums: Elem) -> String {
        match self.warpgroups {
            0 => format!("tiled_mma::<{elem}, {sums}>(warps = {})", self.scene.threads / 32),
            groups => format!("tiled_mma::<{elem}, {sums}>(warpgroups = {groups})"),
        }
    }

    /// Sums of products, tile by tile along K, or of one tile; on tensor cores if asked for.
    pub(super) fn product(&mut self, on_cores: bool) {
        let [rows, columns] = self.frame[..] else { return self.controlled() };
        let types = TYPES.iter().copied().filter(|(_, of)| of.2 || !on_cores).collect::<Vec<_>>();
        let (elem, sums, cores) = self.scene.random.weighted(&types);
        let cores = cores && rows % 16 == 0 && columns % 8 == 0;
        let bk = match cores {
            true if self.warpgroups > 0 => self.scene.random.pick(&[32, 64]),
            true => self.scene.random.pick(&[16, 32, 64]),
            false => self.scene.random.pick(&[1, 3, 4, 7, 8, 8, 16]),
        };
        let looped = self.scene.extent(bk);
        let mut tiles = Vec::new();
        for (axis, size) in [(0, rows), (1, columns)] {
            let (extent, at) = self.rows_of_block(axis, size);
            tiles.push(self.operand(elem, [extent, looped.clone()], [size, bk], &at));
        }
        let acc = match cores {
            true => {
                let mma = self.tiled_mma(elem, sums);
                let mma = self.scene.bind("mma", mma);
                self.accumulators(&mma, sums, &[rows, columns])
            }
            false => self.full(sums, &[rows, columns], 0.0),
        };
        let slots: Vec<Known> = tiles.iter().map(|(_, shape)| self.shared(elem, shape)).collect();
        let computed = if self.computes { self.computed_operands(elem, &tiles, &slots) } else { Vec::new() };
        let operands = Operands { tiles, slots, computed };
        // Products of warpgroups take what producers have copied.
        let bulk = on_cores && self.warpgroups > 0;
        if !self.listed && self.scene.random.chance(if bulk { 5 } else { 25 }) {
            let at = self.somewhere();
            self.product_step(&operands, &acc, &at);
        } else {
            self.product_loop(&operands, &acc, bulk);
        }
        if on_cores {
            self.examined(25, &acc);
            let acc = if self.scene.random.chance(30) { self.masked(&acc) } else { acc };
            self.store(&acc);
        } else {
            self.examined(30, &acc);
        }
    }

    fn product_loop(&mut self, operands: &Operands, acc: &Known, bulk: bool) {
        let var = self.scene.fresh("k");
        let listed = if self.listed || self.scene.random.chance(25) { Some(self.listed()) } else { None };
        let body = self.in_loop(&var, |whole| {
            let at = match &listed {
                Some((table, _)) => whole.scene.bind("j", format!("{table}[{var}]")),
                None => whole.iteration(&var),
            };
            whole.product_step(operands, acc, &at);
            if whole.scene.random.chance(12) {
                whole.changed();
            }
        });
        let all = match listed {
            Some((_, all)) => all,
            None => self.span(&format!("{}.size(2)", operands.tiles[0].0)),
        };
        let all = if self.scene.random.chance(if bulk { 100 } else { 75 }) { self.ahead(&all) } else { all };
        self.scene.push(repeat(&var, &all, &body));
    }

    /// Copies of a tile of each operand, and their product.
    fn product_step(&mut self, operands: &Operands, acc: &Known, at: &str) {
        let Operands { tiles, slots, computed } = operands;
        let copies: String = tiles
            .iter()
            .zip(slots)
            .map(|((tiles, _), slot)| format!("copy({tiles}[(_, _, {at})], {slot});\n"))
            .collect();
        let operand = |at: usize| computed.get(at).map_or(&slots[at], |(_, to)| to);
        let multiplied = format!("gemm({}, {}, {acc});\n", operand(0), operand(1));
        if self.computes {
            self.scene.push(copies.trim_end());
            for (value, to) in computed {
                self.copy(value, to);
            }
            self.scene.push(multiplied.trim_end());
            return;
        }
        if !self.listed && self.scene.random.chance(12) {
            self.perhaps(100, &(copies + &multiplied));
            return;
        }
        self.scene.push(copies.trim_end());
        self.perhaps(30, &multiplied);
    }

    /// Further tiles in shared memory, functions of the copied tiles, which are multiplied instead of these.
    fn computed_operands(
        &mut self,
        elem: Elem,
        tiles: &[(String, Vec<i64>)],
        slots: &[Known],
    ) -> Vec<(String, Known)> {
        let mut all: Vec<(String, Known)> = Vec::new();
        let (zero, one) = (literal(0.0, elem), literal(1.0, elem));
        for at in 0..slots.len() {
            let from = match all.last() {
                Some((_, known)) if tiles[0].1 == tiles[1].1 && self.scene.random.chance(15) => known,
                _ => &slots[at],
            };
            let value = match self.scene.random.below(5) {
                0 => "x".into(),
                1 => "-x".into(),
                2 => "x + x".into(),
                3 => choice(format!("x > {zero}"), "x", &zero),
                _ => format!("x + {one}"),
            };
            let mut value = format!("map({from}, |x| {value})");
            if tiles[0].1 == tiles[1].1 && self.scene.random.chance(20) {
                value = format!("map(({}, {}), |x, y| x - y)", slots[at], slots[1 - at.min(1)]);
            }
            let to = self.shared(elem, &tiles[at].1);
            all.push((value, to));
        }
        all
    }

    /// Some elements, by their coordinates.
    pub(super) fn masked(&mut self, of: &Known) -> Known {
        let condition = self.mask(of.shape.len());
        self.mapped_to(of, "x, at", choice(condition, "x", literal(0.0, of.elem)))
    }

    fn operand(&mut self, elem: Elem, extents: [Extent; 2], shape: [i64; 2], at: &str) -> (String, Vec<i64>) {
        let tensor = match self.listed && self.scene.random.chance(75) {
            true => self.scene.rows(elem, &extents),
            false => self.scene.tensor(elem, &extents, false),
        };
        let tiles = self.scene.bind("x", format!("tile({tensor}, {}, ({at}, _))", tuple(&shape)));
        (tiles, shape.to_vec())
    }

    /// An element of an argument, which is a number.
    pub(super) fn single(&mut self) {
        let elem = self.scene.elem();
        let extent = self.scene.extent(1);
        let tensor = self.scene.tensor(elem, &[extent], false);
        let at = self.somewhere();
        let name = self.scene.bind("e", format!("{tensor}[{at}]"));
        let shape = vec![1];
        self.pool.push(Known { name, elem, shape, space: Space::Global, own: None, placed: false });
    }

    /// Statements about the launch.
    pub(super) fn launch(&mut self) {
        if self.scene.random.chance(8) {
            self.scene.push("persistent();");
        }
        if self.scene.random.chance(6) && !self.scene.axes.is_empty() {
            self.hopper();
            let blocks = self.scene.random.pick(&[1, 2, 2, 4]);
            self.scene.push(format!("cluster({blocks});"));
        }
    }

    /// Adds to a result that all blocks share.
    pub(super) fn added_up(&mut self) {
        let Some(from) = self.pick(|known| known.elem == Elem::I32) else { return };
        let extents: Vec<Extent> = from.shape.iter().map(|&n| self.scene.extent(n)).collect();
        let tensor = self.scene.tensor(Elem::I32, &extents, true);
        let at = super::list(&vec![0; from.shape.len()]);
        let to = format!("tile({tensor}, {}, {at})", tuple(&from.shape));
        self.scene.push(format!("copy({from}, {to}, how = \"atomic_add\");"));
    }
}
