//! The inputs of a random kernel: sizes, strides and offsets of tensors, elements, scalar arguments.

use std::collections::BTreeMap;

use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::definition::Generated;
use tilewright_codegen::launch::{self, Given};
use tilewright_codegen::thread::Fact;
use tilewright_codegen::tile::{self, Program, Space};
use tilewright_codegen::{Elem, element::Element, with_element};
use tilewright_layout::{Symbol, Value};
use tilewright_sim::Arg;

use crate::number;
use crate::random::Random;
use crate::whole::{Buffer, Num};

/// Guard elements before and after every tensor, which must not be written. Their number keeps addresses
/// aligned.
pub const GUARD: usize = 64;

/// How sizes, gaps and offsets are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The properties that the fastest variant needs.
    Whole,
    /// Aligned addresses and strides, and any sizes.
    Aligned,
    /// Any.
    Any,
}

/// A tensor in a buffer of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The parameter's name.
    pub name: String,
    /// Type of its elements.
    pub elem: Elem,
    /// Does the kernel write it?
    pub written: bool,
    /// Elements along each mode.
    pub extents: Vec<i64>,
    /// Strides of each mode.
    pub strides: Vec<i64>,
    /// Elements before the first one.
    pub offset: usize,
    /// The elements of the buffer; `None` in guards and gaps.
    pub all: Vec<Option<f64>>,
}

/// The inputs of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// How they were chosen.
    pub fit: Fit,
    /// The values of symbols, in the order of their first use.
    pub symbols: Vec<(Symbol, i64)>,
    /// The tensors, in the order of arguments.
    pub tensors: Vec<Tensor>,
    /// The scalars, in their order.
    pub scalars: Vec<f64>,
}

/// Allowed sizes of a draw.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// Fixed by shrinking.
    pub set: BTreeMap<String, i64>,
}

/// The names of flags and counts, which are 0 at launch, begin like this.
pub const ZERO: &str = "zero";

/// Limit of elements of one tensor.
const MOST_ELEMENTS: i64 = 60_000;

impl Case {
    /// Draws one; `None` if no small one fits.
    pub fn draw(program: &Program, kernel: &Generated, fit: Fit, seed: u64, sizes: &Sizes) -> Option<Case> {
        let mut random = Random::new(seed);
        let divisors = if fit == Fit::Whole { divisors(kernel)? } else { BTreeMap::new() };
        let mut symbols: Vec<(Symbol, i64)> = Vec::new();
        let all = extents(program);
        // Along which there are loops: without blocks they would not run.
        let loops = |of: Symbol| program.vars.iter().any(|var| tile_of(&var.to, of).is_some());
        let looped: Vec<Symbol> =
            all.iter().filter(|known| !known.2 && loops(known.0)).map(|known| known.0).collect();
        let none = (!looped.is_empty() && random.chance(20)).then(|| random.pick(&looped));
        for (symbol, over, _) in all {
            let by = divisors.get(symbol.name()).copied().unwrap_or(1);
            let size = match sizes.set.get(symbol.name()) {
                Some(&size) => size,
                None if none == Some(symbol) => 0,
                None => extent(&mut random, over.min(64), by, fit),
            };
            symbols.push((symbol, size));
        }
        for require in &program.requires {
            let drawn = |of: Symbol| symbols.iter().find(|known| known.0 == of).map(|known| known.1);
            if let Some((of, size)) = require.computed(&drawn)
                && let Some(extent) = symbols.iter_mut().find(|known| known.0 == of)
            {
                extent.1 = size;
            }
        }
        let mut tensors = Vec::new();
        for arg in &program.args {
            if let tile::Arg::Tensor(id) = arg {
                tensors.push(tensor(program.tensor(*id), &mut symbols, &divisors, fit, &mut random)?);
            }
        }
        let scalars = program.scalars.iter().map(|scalar| scalar_value(scalar.elem, &mut random)).collect();
        Some(Case { fit, symbols, tensors, scalars })
    }

    /// The value of a symbol.
    pub fn symbol(&self, symbol: Symbol) -> Option<i64> {
        self.symbols.iter().find(|known| known.0 == symbol).map(|known| known.1)
    }

    /// Blocks along x, y, z.
    pub fn grid(&self, program: &Program) -> Option<[i64; 3]> {
        let mut grid = [1; 3];
        for (axis, extent) in program.grid.iter().enumerate() {
            grid[axis] = match extent {
                Some(extent) => extent.evaluate(&|symbol| self.symbol(symbol))?,
                None => 1,
            };
            for more in &program.more[axis] {
                grid[axis] *= more.evaluate(&|symbol| self.symbol(symbol))?;
            }
        }
        Some(grid)
    }

    /// Arguments for the simulator, in order.
    pub fn args(&self, program: &Program) -> Vec<Arg> {
        let mut tensors = self.tensors.iter();
        let one = |arg: &tile::Arg| match arg {
            tile::Arg::Tensor(_) => tensors.next().expect("a tensor for each argument").arg(),
            tile::Arg::Scalar(id) => {
                number_arg(program.scalars[*id as usize].elem, self.scalars[*id as usize])
            }
        };
        program.args.iter().map(one).collect()
    }

    /// Arguments for a launch plan, as if each buffer were aligned to many bytes.
    pub fn given(&self, program: &Program) -> Vec<Given> {
        let mut tensors = self.tensors.iter();
        let one = |(index, arg): (usize, &tile::Arg)| match arg {
            tile::Arg::Tensor(_) => {
                let tensor = tensors.next().expect("a tensor for each argument");
                let size = u64::from(tensor.elem.bytes());
                Given::Tensor(launch::Tensor {
                    elem: tensor.elem,
                    mutable: tensor.written,
                    extents: tensor.extents.clone(),
                    strides: tensor.strides.clone(),
                    len: (tensor.all.len() - tensor.offset) as u64,
                    address: ((index as u64 + 1) << 40) + tensor.offset as u64 * size,
                })
            }
            tile::Arg::Scalar(id) => Given::Scalar(program.scalars[*id as usize].elem),
        };
        program.args.iter().enumerate().map(one).collect()
    }

    /// Buffers for the oracle.
    pub fn buffers(&self) -> Vec<Buffer> {
        let one = |tensor: &Tensor| Buffer {
            all: tensor.all.iter().map(|value| value.map(|value| tensor.num(value))).collect(),
            offset: tensor.offset,
            extents: tensor.extents.clone(),
            strides: tensor.strides.clone(),
        };
        self.tensors.iter().map(one).collect()
    }

    /// Its unusual properties, as rows of the coverage.
    pub fn facts(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        let mut has = |what, present: bool| {
            if present && !all.contains(&what) {
                all.push(what);
            }
        };
        for tensor in &self.tensors {
            let hostile = |value: &f64| value.abs() > 1000.0 || *value == -128.0;
            let integers = !tensor.elem.is_float();
            has("integers: hostile", integers && tensor.all.iter().flatten().any(hostile));
            has("sizes: 1", tensor.extents.contains(&1));
            has("tensors: odd strides", tensor.strides.iter().any(|stride| *stride > 1 && stride % 2 == 1));
            has("tensors: odd offsets", tensor.offset % 2 == 1);
            let rank = tensor.extents.len();
            has(
                "tensors: one row",
                rank > 1 && tensor.extents.contains(&1) && !tensor.strides.iter().all(|d| *d == 1),
            );
            let bytes = i64::from(tensor.elem.bytes());
            has(
                "rows: bytes that no 4 divide",
                rank > 1 && tensor.extents.iter().any(|n| n * bytes % 4 != 0),
            );
        }
        all
    }

    /// A description in one line.
    pub fn text(&self) -> String {
        let sizes: Vec<String> = self.symbols.iter().map(|(of, n)| format!("{} = {n}", of.name())).collect();
        let offsets: Vec<String> = self
            .tensors
            .iter()
            .map(|tensor| format!("`{}` from element {}", tensor.name, tensor.offset - GUARD))
            .collect();
        format!("{}; {}; scalars {:?}", sizes.join(", "), offsets.join(", "), self.scalars)
    }
}

/// The symbols that are extents, the tile of each along the grid, and whether it numbers blocks.
fn extents(program: &Program) -> Vec<(Symbol, i64, bool)> {
    let mut all: Vec<(Symbol, i64, bool)> = Vec::new();
    for arg in &program.args {
        let tile::Arg::Tensor(id) = arg else { continue };
        for (extent, _) in program.tensor(*id).plain().leaves() {
            let Value::Sym { of, .. } = extent else { continue };
            if all.iter().any(|(known, ..)| *known == of) {
                continue;
            }
            let along = |extent: &Option<Value>| match extent {
                Some(Value::Sym { of: symbol, over, .. }) if *symbol == of => Some(i64::from(*over)),
                _ => None,
            };
            let along = program.grid.iter().find_map(along);
            let looped = || program.vars.iter().find_map(|var| tile_of(&var.to, of));
            all.push((of, along.or_else(looped).unwrap_or(12), along.is_some()));
        }
    }
    all
}

/// The tile over which a loop's end divides an extent.
fn tile_of(end: &Affine, extent: Symbol) -> Option<i64> {
    let tile = std::cell::Cell::new(None);
    end.any(&|coord| {
        if let Coord::Size { of, over } = coord
            && *of == extent
        {
            tile.set(Some(i64::from(*over)));
        }
        false
    });
    tile.get()
}

/// Divisors of sizes and strides that the fastest variant needs.
fn divisors(kernel: &Generated) -> Option<BTreeMap<String, i64>> {
    let mut all = BTreeMap::new();
    for need in &kernel.variants[0].program.needs {
        if let Fact::Divides(obligation) = need
            && let Value::Sym { of, over: 1, .. } = obligation.of
        {
            let known: &mut i64 = all.entry(of.name().to_owned()).or_insert(1);
            *known = lcm(*known, obligation.divisor)?;
        }
    }
    all.values().all(|&n| n <= 512).then_some(all)
}

fn lcm(a: i64, b: i64) -> Option<i64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

fn extent(random: &mut Random, over: i64, by: i64, fit: Fit) -> i64 {
    if fit == Fit::Whole {
        return by * random.within(1, if by >= 16 { 2 } else { (24 / by).clamp(1, 8) });
    }
    let tiles = random.within(1, 3);
    match random.below(20) {
        0 if fit == Fit::Any && random.chance(50) => 0,
        0 | 1 => 1,
        2..=4 => (over * tiles - 1).max(1),
        5..=7 => over * tiles + 1,
        8..=9 => over * tiles,
        _ => random.within(1, over * 5 / 2 + 1),
    }
}

fn tensor(
    of: &tile::Tensor,
    symbols: &mut Vec<(Symbol, i64)>,
    divisors: &BTreeMap<String, i64>,
    fit: Fit,
    random: &mut Random,
) -> Option<Tensor> {
    let known = |symbols: &[(Symbol, i64)], value: Value| {
        value.evaluate(&|symbol| symbols.iter().find(|known| known.0 == symbol).map(|known| known.1))
    };
    let leaves: Vec<(Value, Value)> = of.plain().leaves().collect();
    let extents: Vec<i64> = leaves.iter().map(|(n, _)| known(symbols, *n)).collect::<Option<_>>()?;
    let mut strides: Vec<Option<i64>> = leaves.iter().map(|(_, d)| known(symbols, *d)).collect();
    let reach = |strides: &[Option<i64>]| -> i64 {
        let steps = extents.iter().zip(strides).filter_map(|(n, d)| Some((n - 1).max(0) * (*d)?));
        steps.sum::<i64>() + 1
    };
    let aligned = fit != Fit::Any;
    let open: Vec<usize> = (0..strides.len()).filter(|&mode| strides[mode].is_none()).collect();
    for mode in random.shuffled(&open) {
        let Value::Sym { of: symbol, .. } = leaves[mode].1 else { return None };
        let stride = match known(symbols, leaves[mode].1) {
            Some(stride) => stride,
            None => {
                let step = if aligned { 16 } else { 1 };
                let step = lcm(step, divisors.get(symbol.name()).copied().unwrap_or(1))?;
                // The stride of a mode of one element is not used.
                let any = extents[mode] <= 1 && random.chance(40);
                let least =
                    if any { random.within(0, 3) } else { reach(&strides) + random.within(0, 2) * step };
                let stride = if any { least } else { (least + step - 1) / step * step };
                symbols.push((symbol, stride));
                known(symbols, leaves[mode].1)?
            }
        };
        strides[mode] = Some(stride);
    }
    let strides: Vec<i64> = strides.into_iter().collect::<Option<_>>()?;
    let len = extents.iter().zip(&strides).map(|(n, d)| (n - 1).max(0) * d).sum::<i64>() + 1;
    if !(1..=MOST_ELEMENTS).contains(&len) || extents.iter().product::<i64>() > MOST_ELEMENTS {
        return None;
    }
    let offset = GUARD + if aligned { random.below(2) * 16 } else { random.below(6) };
    let mut all = vec![None; offset + len as usize + GUARD];
    let written = matches!(of.space, Space::Global { mutable: true });
    let made =
        Tensor { name: of.name.clone(), elem: of.elem, written, extents, strides, offset, all: Vec::new() };
    let light = random.chance(30);
    // Tensors that are read as integers mostly have one mode.
    let likely = match OFTEN_HOSTILE.contains(&of.elem) {
        true => 40,
        false if made.extents.len() == 1 => 25,
        false => 4,
    };
    let hostile = !of.elem.is_float() && random.chance(likely);
    let buffer =
        Buffer { all: Vec::new(), offset, extents: made.extents.clone(), strides: made.strides.clone() };
    for element in 0..buffer.count() {
        all[buffer.index_of(element)] = Some(match hostile && random.chance(30) {
            _ if of.name.starts_with(ZERO) => 0.0,
            true => hostile_value(of.elem, random),
            false => element_value(of.elem, light, random),
        });
    }
    Some(Tensor { all, ..made })
}

/// An integer that is no sensible index: the limits of its type, and integers that wrap around when they are scaled or squared.
fn hostile_value(elem: Elem, random: &mut Random) -> f64 {
    let (least, most) = number::range(elem);
    let all =
        [least, most, least + 1.0, -1.0, 46_341.0, 65_536.0, 67_108_864.0, -67_108_864.0, 67_108_865.0, 1e6];
    let wide: [f64; 5] = [4_294_967_297.0, 1_099_511_627_776.0, -2_147_483_649.0, 3_037_000_500.0, 9e15];
    if elem.bytes() == 8 && random.chance(50) {
        return random.pick(&wide).clamp(least, most);
    }
    random.pick(&all).clamp(least, most)
}

/// Types of 64 and of 16 bits, whose tensors often have such integers.
const OFTEN_HOSTILE: [Elem; 4] = [Elem::I64, Elem::U64, Elem::I16, Elem::U16];

/// A small integer, so that sums of many are exact in every type.
fn element_value(elem: Elem, light: bool, random: &mut Random) -> f64 {
    let signed = number::range(elem).0 < 0.0;
    match (light, signed) {
        (true, true) => random.within(-1, 1) as f64,
        (true, false) => random.within(0, 1) as f64,
        (false, true) => random.within(-3, 3) as f64,
        (false, false) => random.within(0, 4) as f64,
    }
}

fn scalar_value(elem: Elem, random: &mut Random) -> f64 {
    let signed = number::range(elem).0 < 0.0;
    if signed { random.within(-2, 3) as f64 } else { random.within(0, 3) as f64 }
}

impl Tensor {
    /// The bits of the whole buffer.
    pub fn bits(&self) -> Vec<u64> {
        let bits = |value: &Option<f64>| match value {
            Some(value) => number::bits(self.elem, *value),
            None => number::poison(self.elem),
        };
        self.all.iter().map(bits).collect()
    }

    /// The element that a value is stored as.
    fn num(&self, value: f64) -> Num {
        Num::of_bits(self.elem, number::bits(self.elem, value))
    }

    fn arg(&self) -> Arg {
        fn of<T: Element>(tensor: &Tensor) -> Arg {
            let data: Vec<T> = tensor.bits().into_iter().map(T::from_raw).collect();
            let sizes = |all: &[i64]| all.iter().map(|&n| n as usize).collect::<Vec<_>>();
            let extents = sizes(&tensor.extents);
            let arg = if tensor.written { Arg::in_out(&data, extents) } else { Arg::tensor(&data, extents) };
            arg.strides(sizes(&tensor.strides)).offset(tensor.offset)
        }
        with_element!(self.elem, T => of::<T>(self))
    }

    /// The bits of each element of a buffer.
    pub fn decoded(&self, bytes: &[u8]) -> Vec<u64> {
        let one = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        bytes.chunks(self.elem.bytes() as usize).map(one).collect()
    }

    /// The first difference between a buffer after a run and the expected one.
    pub fn wrong(&self, got: &[u64], wanted: &Buffer) -> Option<String> {
        let before = self.bits();
        for (index, (&got, known)) in got.iter().zip(&wanted.all).enumerate() {
            match known {
                Some(num) if !num.admits(self.elem, got) => {
                    let value = Num::of_bits(self.elem, got);
                    let at = self.coordinates(wanted, index);
                    let bound = match num.is_exact() {
                        true => String::new(),
                        false => format!(" up to {:.1e}", num.error),
                    };
                    return Some(format!("`{}` at {at:?} is {value}, and {num} is right{bound}", self.name));
                }
                None if got != before[index] => {
                    let at = index as i64 - self.offset as i64;
                    return Some(format!("`{}` was written out of bounds, at offset {at}", self.name));
                }
                Some(_) | None => {}
            }
        }
        None
    }

    fn coordinates(&self, wanted: &Buffer, index: usize) -> Vec<i64> {
        let element =
            (0..wanted.count()).find(|&element| wanted.index_of(element) == index).unwrap_or(0) as i64;
        let mut rest = element;
        let coordinate = |extent: &i64| {
            let coordinate = rest % extent;
            rest /= extent;
            coordinate
        };
        self.extents.iter().map(coordinate).collect()
    }
}

fn number_arg(elem: Elem, value: f64) -> Arg {
    let bits = number::bits(elem, value);
    with_element!(elem, T => Arg::number(T::from_raw(bits)))
}
