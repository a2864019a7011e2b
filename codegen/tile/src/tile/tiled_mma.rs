//! A tiled matrix instruction: a row of the table, the arrangement of its warps or warpgroups over a tile, and the elements
//! of tiles that each thread has.

use tilewright_layout::{Distribution, Layout, Tiler, Tuple, Value};

use crate::isa;
use crate::isa::atom::{Atom, Effect, OperandKind, OperandName};
use crate::isa::scope::Scope;
use crate::source::problem::{Problem, Result};
use crate::tile::view::{At, View, position};
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;
use crate::values::id::Id;
use crate::values::narrow::Int4;
use crate::values::target::{BLOCK_THREADS, WARP};

/// A matrix instruction of a warp or a warpgroup, and their arrangement over a tile of the accumulators: each has one
/// contiguous part.
#[derive(Clone, Debug, PartialEq)]
pub struct TiledMma {
    /// The instruction.
    pub row: &'static Atom,
    /// From coordinates in (M, N, K) to the index of the warp or warpgroup.
    pub groups: Layout,
    /// The thread group.
    pub of: Id,
    /// The operand (`a` or `b`) whose tiles pack two 4-bit numbers in each element, adjacent along K.
    pub pairs: Option<(OperandName, Int4)>,
    /// How many terms of the instruction's type represent an element of f32.
    pub terms: Terms,
}

/// Padding of rows of sums in shared memory, in elements: the rows that half a warp stores are in different banks.
pub const PAD: i64 = 8;

/// How many terms of the instruction's type represent an element of an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Terms {
    /// One: the nearest number.
    #[default]
    One,
    /// Two terms: the nearest number, and the rest, whose last bit is lost. A product of elements is the sum of three
    /// products, since the product of both lower terms is negligible. Sums over up to 16 elements along K are promoted:
    /// they are added to accumulators by ordinary additions, which round to nearest, while tensor cores truncate.
    Two,
}

impl TiledMma {
    /// An instruction of the table for warps arranged over (M, N, K) as the layout says.
    ///
    /// ```
    /// use tilewright_codegen::tiled::TiledMma;
    /// use tilewright_layout::layout;
    /// let mma = TiledMma::new("mma_m16n8k16_bf16", &layout!((2, 4, 1)))?;
    /// assert_eq!((mma.threads()?, mma.shape()), (256, [16, 8, 16]));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn new(row: &str, groups: &Layout) -> Result<TiledMma> {
        let Some(atom) = isa::find(row) else {
            let known: Vec<&str> =
                isa::all().filter(|row| is_warp_product(row)).map(|row| row.name).collect();
            let help = crate::source::spelling::did_you_mean(row, known.iter().copied())
                .unwrap_or_else(|| format!("take one of {}", known.join(", ")));
            return Err(Problem::new(format!("there is no matrix instruction `{row}`")).help(help));
        };
        if !is_warp_product(atom) {
            return Err(Problem::new(format!("`{row}` is not a matrix product of one warp"))
                .help("take an instruction whose name begins with `mma_`"));
        }
        let groups = match groups.rank() {
            2 => Layout::from_modes(groups.modes().chain([Layout::new(1i64, 0i64)?]))?,
            _ => groups.clone(),
        };
        if groups.rank() != 3 || groups.right_inverse()?.size()? != groups.size()? {
            let problem = Problem::new(format!("{groups} does not number warps over (M, N, K)"));
            return Err(problem.help("write a compact layout of three modes, such as layout!((2, 4, 1))"));
        }
        if groups.mode(2)?.size()? != 1 {
            let problem =
                Problem::new(format!("{groups} has warps share K, and their sums would have to be added up"));
            return Err(problem.help("write 1 for the third mode"));
        }
        Ok(TiledMma { row: atom, groups, of: 0, pairs: None, terms: Terms::One })
    }

    /// The largest instruction of an architecture, and the arrangement of `warps` warps over a tile of the
    /// accumulators with the fewest fragment loads.
    ///
    /// ```
    /// use tilewright_codegen::{Elem, tiled::TiledMma};
    /// let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [128, 256], 8)?;
    /// assert_eq!(mma.row.name, "mma_m16n8k16_bf16");
    /// assert_eq!(mma.groups.to_string(), "(2,4,1):(1,2,0)"); // 64x64 each
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn best(elem: Elem, acc: Elem, arch: u32, tile: [i64; 2], warps: i64) -> Result<TiledMma> {
        let row = TiledMma::row(elem, acc, arch).ok_or_else(|| {
            let newer = TiledMma::row(elem, acc, u32::MAX).map(|row| row.arch);
            let others: Vec<String> = Elem::all()
                .filter(|other| TiledMma::row(elem, *other, arch).is_some())
                .map(|other| other.to_string())
                .collect();
            let problem = Problem::new(format!(
                "no matrix instruction of sm_{arch} multiplies {elem} into sums of {acc}"
            ));
            match (newer, &others[..]) {
                (Some(newer), _) => problem.help(format!("write arch = {newer}")),
                (None, []) => {
                    let known = |of: &Elem| Elem::all().any(|acc| TiledMma::row(*of, acc, arch).is_some());
                    let all: Vec<_> = Elem::all().filter(known).map(Elem::name).collect();
                    problem.help(format!(
                        "they multiply {}; other types are multiplied on CUDA cores: full::<{acc}>((BM, BN), 0) for the sums",
                        all.join(", ")
                    ))
                }
                (None, _) => problem.help(format!("sum in {}", others.join(" or "))),
            }
        })?;
        TiledMma::arranged(row, tile, warps)
    }

    /// The widest asynchronous instruction for a tile of the accumulators that `groups` groups of warps share, each with its own rows.
    ///
    /// ```
    /// use tilewright_codegen::{Elem, tiled::TiledMma};
    /// let mma = TiledMma::asynchronous(Elem::Bf16, Elem::F32, [128, 256], 2)?;
    /// assert_eq!((mma.row.name, mma.threads()?), ("wgmma_m64n256k16_bf16", 256));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn asynchronous(elem: Elem, acc: Elem, tile: [i64; 2], groups: i64) -> Result<TiledMma> {
        let rows = |row: &&Atom| {
            is_asynchronous(row)
                && row.has(OperandName::A, elem)
                && row.has(OperandName::B, elem)
                && row.has(OperandName::D, acc)
        };
        let width = |row: &Atom| match row.effect {
            Effect::Mma { n, .. } => i64::from(n),
            _ => 0,
        };
        let family = isa::all().find(|row| is_asynchronous(row)).map_or("", |row| row.family.name);
        if !isa::all().any(|row| rows(&row)) {
            let problem = Problem::new(format!("no {family} multiplies {elem} into sums of {acc}"));
            return Err(problem.help("write tiled_mma with `warps = 8` for an instruction of warps"));
        }
        let fits = |row: &&Atom| width(row) <= tile[1] && tile[1] % width(row).max(1) == 0;
        let Some(row) = isa::all().filter(rows).filter(fits).max_by_key(|row| width(row)) else {
            let problem = Problem::new(format!(
                "{family} multiplies a multiple of 8 columns, and this tile has {}",
                tile[1]
            ));
            return Err(problem.help("use a tile with such a number of columns, such as 256"));
        };
        TiledMma::arranged(row, tile, groups)
    }

    /// The same product with the left operand in registers, if the table has it.
    pub fn of_registers(&self) -> Option<TiledMma> {
        let of = |row: &Atom, name: OperandName| row.operand(name).map(|operand| operand.elem);
        let same = |row: &&Atom| {
            row.family.issued_by == self.row.family.issued_by
                && row.effect == self.row.effect
                && [OperandName::A, OperandName::B, OperandName::D]
                    .into_iter()
                    .all(|name| of(row, name) == of(self.row, name))
        };
        let row = isa::all().filter(same).find(|row| has_fragment(row, OperandName::A))?;
        Some(TiledMma { row, ..self.clone() })
    }

    /// The arrangement of `warps` warps over a tile of the accumulators with the fewest fragment loads.
    ///
    /// ```
    /// use tilewright_codegen::{isa, tiled::TiledMma};
    /// let row = isa::find("mma_m16n8k16_f16").unwrap();
    /// assert_eq!(TiledMma::arranged(row, [128, 128], 4)?.groups.to_string(), "(2,2,1):(1,2,0)");
    /// assert!(TiledMma::arranged(row, [16, 8], 4).unwrap_err().message.starts_with("4 warps cannot share"));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn arranged(row: &'static Atom, tile: [i64; 2], warps: i64) -> Result<TiledMma> {
        let Effect::Mma { m, n, .. } = row.effect else {
            return Err(Problem::new(format!("`{}` is not a matrix product", row.name)));
        };
        let (m, n) = (i64::from(m), i64::from(n));
        let over = |warps: i64| {
            let fits = move |over: &i64| tile[0] % (over * m) == 0 && tile[1] % (warps / over * n) == 0;
            (1..=warps).filter(move |over| warps % over == 0).filter(fits)
        };
        // The elements that a warp loads for each k-step; ties go to the squarer part. Pairs of narrow fragments are
        // loaded at once.
        let cost = |over: &i64| {
            let part = [tile[0] / over, tile[1] / (warps / over)];
            (part[0] + part[1], part[1] % (2 * n) != 0, part[0].abs_diff(part[1]), *over)
        };
        let Some(best) = over(warps).min_by_key(cost) else {
            let what = row.family.issued_by.name();
            let problem = Problem::new(format!(
                "{warps} {what}s cannot share a tile of {}x{} by products of {m}x{n}",
                tile[0], tile[1]
            ));
            let most = i64::from(BLOCK_THREADS / row.family.issued_by.threads().unwrap_or(1));
            let mut others = (1..=most).filter(|other| over(*other).next().is_some()).peekable();
            return Err(problem.help(match others.peek() {
                None => format!("use a tile whose extents are multiples of {m} and {n}"),
                Some(_) => {
                    let all: Vec<String> = others.map(|other| other.to_string()).collect();
                    format!("write {what}s = {}, or another tile", all.join(" or "))
                }
            }));
        };
        let groups = Layout::new((best, warps / best, 1i64), (1i64, best, 0i64))?;
        Ok(TiledMma { row, groups, of: 0, pairs: None, terms: Terms::One })
    }

    /// The largest instruction of an architecture with at most four registers of the left operand.
    ///
    /// ```
    /// use tilewright_codegen::{Elem, tiled::TiledMma};
    /// assert_eq!(TiledMma::row(Elem::I8, Elem::I32, 80).unwrap().name, "mma_m16n8k32_i8");
    /// assert_eq!(TiledMma::row(Elem::F32, Elem::F32, 80), None); // only rounded, as tf32
    /// ```
    pub fn row(elem: Elem, acc: Elem, arch: u32) -> Option<&'static Atom> {
        isa::all()
            .filter(|row| is_warp_product(row) && row.arch <= arch && !row.arch_specific)
            .filter(|row| {
                row.has(OperandName::A, elem) && row.has(OperandName::B, elem) && row.has(OperandName::D, acc)
            })
            .max_by_key(|row| match row.effect {
                // Larger fragments leave too few registers for accumulators.
                Effect::Mma { m, n, k, .. } => (elem.bytes_of(m * k) <= WARP * MOST_BYTES, m * n * k),
                _ => (false, 0),
            })
    }

    /// The same for tiles of an operand whose elements, of `u8`, pack two 4-bit numbers each, along K.
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, build::Builder, narrow::Int4, tiled::TiledMma};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [64, 64], 4)?.with_pairs(OperandName::A, Int4::Signed);
    /// let sa = b.shared("sa", Elem::U8, layout!((64, 16) : (16, 1)))?; // 32 along K
    /// assert_eq!(b.partition_operand(&mma, OperandName::A, &sa)?.shape().to_string(), "((2,2),2,2)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn with_pairs(self, operand: OperandName, of: Int4) -> TiledMma {
        TiledMma { pairs: Some((operand, of)), ..self }
    }

    /// The same for operands of f32 whose elements are sums of this number of terms.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Order, tiled::{Terms, TiledMma}};
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::best(Elem::Tf32, Elem::F32, 80, [64, 64], 4)?.in_terms(Terms::Two);
    /// let (sa, sb) = (b.shared_tile("sa", Elem::F32, (64, 16))?, b.shared_tile("sb", Elem::F32, (64, 16))?);
    /// let acc = b.sums("acc", &mma, [64, 64])?;
    /// b.gemm(&sa, &sb, &acc, Order::Plain)?; // about as precise as multiply-adds in f32
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn in_terms(self, terms: Terms) -> TiledMma {
        TiledMma { terms, ..self }
    }

    /// `parts` times the warps, which share K: each sums a part of K, and the sums are added.
    ///
    /// ```
    /// use tilewright_codegen::{Elem, tiled::TiledMma};
    /// let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [32, 16], 1)?.over_k(8)?;
    /// assert_eq!((mma.groups.to_string(), mma.threads()?), ("(1,1,8):(1,1,1)".into(), 256));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn over_k(self, parts: i64) -> Result<TiledMma> {
        let own = Layout::from_modes([self.groups.mode(0)?, self.groups.mode(1)?])?;
        let groups = Layout::from_modes(own.modes().chain([Layout::new(parts, own.size()?)?]))?;
        Ok(TiledMma { groups, ..self })
    }

    /// How many parts of K warps share.
    pub fn parts_of_k(&self) -> Result<i64> {
        Ok(self.groups.mode(2)?.size()?)
    }

    /// The 4-bit type of an operand's tiles, if its elements pack two numbers each.
    pub(crate) fn pairs_of(&self, operand: OperandName) -> Option<Int4> {
        self.pairs.filter(|(paired, _)| *paired == operand).map(|(_, of)| of)
    }

    /// The number of threads.
    pub fn threads(&self) -> Result<i64> {
        Ok(self.groups.size()? * self.lanes())
    }

    /// Threads that execute one instruction together.
    pub(crate) fn lanes(&self) -> i64 {
        i64::from(self.row.family.issued_by.threads().unwrap_or(1))
    }

    /// Does it run beside the instructions that follow it, with operands in shared memory?
    pub fn is_asynchronous(&self) -> bool {
        self.row.family.is_asynchronous()
    }

    /// Rows, columns and K of one instruction.
    pub fn shape(&self) -> [i64; 3] {
        match self.row.effect {
            Effect::Mma { m, n, k, .. } => [m, n, k].map(i64::from),
            _ => [1; 3],
        }
    }

    /// Which thread owns which accumulators of a tile of (M, N), in the order of registers.
    ///
    /// ```
    /// use tilewright_codegen::{Elem, tiled::TiledMma};
    /// let mma = TiledMma::best(Elem::F16, Elem::F32, 80, [128, 128], 4)?;
    /// let sums = mma.distribution([128, 128])?;
    /// assert_eq!((sums.threads(), sums.values()), (128, 128));
    /// assert_eq!(sums.coordinate(33, 1), [64, 3]); // warp 1 has the rows from 64; lane 1 the columns 2 and 3 of row 0
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn distribution(&self, tile: [i64; 2]) -> Result<Distribution> {
        let (atom, _) = self.tile_of(OperandName::D);
        // Checked as partitions are.
        let part =
            self.part(&View::whole(Id::MAX, "the tile of sums", &Tuple::flat(&tile))?, OperandName::D)?;
        let part = part.extents().unwrap_or_default();
        let one = Layout::compact((1i64, 1i64))?;
        let warp = Distribution::of_atom(&part, &atom, &self.tv(OperandName::D)?, &one)?;
        Ok(warp.repeated(&Layout::from_modes([self.groups.mode(0)?, self.groups.mode(1)?])?)?)
    }

    /// The distribution of a tile of the left operand, (M, K), over threads, in the order of its fragments; `None` if
    /// several warps would have the same elements.
    ///
    /// ```
    /// use tilewright_codegen::tiled::TiledMma;
    /// use tilewright_layout::{Exchange, layout};
    /// let mma = TiledMma::new("mma_m16n8k16_bf16", &layout!((4, 1)))?;
    /// let (sums, left) = (mma.distribution([64, 32])?, mma.left([64, 32])?.unwrap());
    /// assert_eq!(sums.exchange(&left), Exchange::Registers); // sums of one product are an operand of the next
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn left(&self, tile: [i64; 2]) -> Result<Option<Distribution>> {
        if self.groups.mode(1)?.size()? != 1 || self.groups.mode(2)?.size()? != 1 {
            return Ok(None);
        }
        let (atom, _) = self.tile_of(OperandName::A);
        let part = self.part(&View::whole(Id::MAX, "the operand", &Tuple::flat(&tile))?, OperandName::A)?;
        let part = part.extents().unwrap_or_default();
        let warp =
            Distribution::of_atom(&part, &atom, &self.tv(OperandName::A)?, &Layout::compact((1i64, 1i64))?)?;
        Ok(Some(warp.repeated(&Layout::from_modes([self.groups.mode(0)?, Layout::new(1i64, 0i64)?])?)?))
    }

    /// Extents of an operand's tile of one instruction, and the modes of (M, N, K) along which they are.
    pub(crate) fn tile_of(&self, operand: OperandName) -> ([i64; 2], [usize; 2]) {
        let [m, n, k] = self.shape();
        let k = if self.pairs_of(operand).is_some() { k / 2 } else { k };
        match operand {
            OperandName::A => ([m, k], [0, 2]),
            OperandName::B => ([n, k], [1, 2]),
            _ => ([m, n], [0, 1]),
        }
    }

    pub(crate) fn tv(&self, operand: OperandName) -> Result<Layout> {
        let missing =
            || Problem::new(format!("operand `{operand}` of `{}` is not spread over threads", self.row.name));
        let tv = self.row.tv(operand).ok_or_else(missing)?;
        match self.pairs_of(operand).is_some() {
            true => paired(&tv, self.tile_of(operand).0[0]),
            false => Ok(tv),
        }
    }

    /// This warp's part of a tile of an operand: (M, K), (N, K) or (M, N).
    pub(crate) fn part(&self, view: &View, operand: OperandName) -> Result<View> {
        self.part_of(view, operand, &Affine::from(Coord::Thread(self.of)).submode(self.lanes(), None))
    }

    /// The same of a given warp.
    pub fn part_of(&self, view: &View, operand: OperandName, warp: &Affine) -> Result<View> {
        let (tile, modes) = self.tile_of(operand);
        let extents = view.extents().filter(|extents| extents.len() == 2).ok_or_else(|| {
            Problem::new(format!("`{}` is not a tile of two known extents: {}", view.name, view.shape()))
        })?;
        let (mut tiler, mut at) = (Vec::new(), Vec::new());
        for (mode, ((extent, size), along)) in extents.iter().zip(tile).zip(modes).enumerate() {
            let groups = self.groups.mode(along)?;
            let count = groups.size()?;
            if extent % (count * size) != 0 {
                let what = ["M", "N", "K"][along];
                return Err(Problem::new(format!(
                    "mode {mode} of `{}` has {extent} elements, which {count} warps do not share in parts of {size}, as `{}` takes them along {what}",
                    view.name, self.row.name
                ))
                .help(format!("use a multiple of {}", count * size)));
            }
            tiler.push((extent / count).into());
            at.push(At::Index(position(&groups, warp)?));
        }
        view.tile(&Tiler::Modes(tiler), &at)
    }

    /// The elements of this lane under a thread-value layout of tiles of this warp's part: `((values), rest, rest)`.
    pub(crate) fn lane(&self, part: &View, tile: [i64; 2], tv: &Layout) -> Result<View> {
        let lane = Affine::from(Coord::Thread(self.of)).submode(1, Some(self.lanes()));
        part.partition(&tile, tv, &lane, &[])
    }
}

/// Bytes of a fragment of the left operand in a thread: four registers.
const MOST_BYTES: u32 = 16;

/// Is it an asynchronous matrix product from shared memory?
fn is_asynchronous(row: &Atom) -> bool {
    matches!(row.effect, Effect::Mma { .. })
        && row.family.is_asynchronous()
        && !has_fragment(row, OperandName::A)
}

/// Is an operand in registers?
fn has_fragment(row: &Atom, operand: OperandName) -> bool {
    row.operands.iter().any(|own| own.name == operand && matches!(own.kind, OperandKind::Frag { .. }))
}

/// Is it a dense matrix product of one warp from registers?
fn is_warp_product(row: &Atom) -> bool {
    matches!(row.effect, Effect::Mma { .. }) && row.family.issued_by == Scope::Warp && row.operands.len() == 3
}

/// The thread-value layout of an operand of `rows` rows, over a tile whose elements pack two values each, adjacent along K.
fn paired(tv: &Layout, rows: i64) -> Result<Layout> {
    let k = tv.cosize()? / rows;
    let pairs = Layout::new((rows, (2i64, k / 2)), (1i64, (0i64, rows)))?.composition(tv)?;
    // Both values of a pair are the same element.
    let both = pairs.mode(1)?;
    let values = both.leaves().filter(|(_, stride)| *stride != Value::Int(0));
    let values = values.map(|(extent, stride)| Layout::new(extent, stride));
    let values = Layout::from_modes(values.collect::<std::result::Result<Vec<_>, _>>()?)?;
    Ok(Layout::from_modes([pairs.mode(0)?, values])?)
}
