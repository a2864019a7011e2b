//! Tiles of 64-bit and 16-bit integers and of conditions: loads and stores, arithmetic, comparisons, conversions, reductions, gathers,
//! scatters, atomic updates with their old values, coordinates and conditions of statements.

use tilewright_codegen::Elem;

use super::super::scene::Extent;
use super::super::text::{as_elem, cast, choice, decide, literal, repeat, tuple};
use super::{Known, Space, Whole};

/// The types, and some types that they are converted from and to.
const TYPES: [(u32, Elem); 9] = [
    (6, Elem::I64),
    (5, Elem::U64),
    (4, Elem::I16),
    (4, Elem::U16),
    (5, Elem::Bool),
    (2, Elem::I32),
    (1, Elem::U8),
    (1, Elem::F32),
    (1, Elem::F64),
];

/// The types with atomic updates.
const ATOMIC: [(u32, Elem); 4] = [(4, Elem::I64), (4, Elem::U64), (1, Elem::I32), (1, Elem::U32)];

/// Atomic updates whose result does not depend on their order.
const UPDATES: [&str; 7] =
    ["atomic_add", "atomic_sub", "atomic_min", "atomic_max", "atomic_and", "atomic_or", "atomic_xor"];

fn is_integer(elem: Elem) -> bool {
    !elem.is_float() && elem != Elem::Bool
}

impl Whole {
    pub(super) fn typed_elements(&mut self) {
        self.frame = self.shape();
        self.scene.threads = self.scene.random.pick(&[32, 64, 128, 256]);
        self.set_threads();
        self.axes();
        for _ in 0..self.scene.random.within(2, 3) {
            let elem = self.scene.random.weighted(&TYPES);
            let narrow = self.scene.random.chance(15);
            let mut shape = self.frame.clone();
            if narrow {
                let mode = self.scene.random.below(shape.len());
                shape[mode] = 1;
            }
            let tile = self.tile(elem, shape, false);
            if self.scene.random.chance(25) {
                self.stored_elsewhere(&tile);
            }
        }
        for _ in 0..self.scene.random.within(2, 6) {
            match self.scene.random.below(20) {
                0..4 => self.computed(),
                4..7 => self.related(),
                7..9 => self.converted(),
                9..11 => self.totalled(),
                11..13 => self.looked_up(),
                13..15 => self.counted_up(),
                15..17 => self.updated(),
                17..19 => self.numbered_by_elements(),
                _ => self.decided_by_elements(),
            }
        }
        for _ in 0..self.scene.random.within(1, 2) {
            if let Some(from) = self.pick(|known| known.space != Space::Global) {
                self.kept(&from);
            }
        }
        self.scene.number();
    }

    /// A tile in shared memory or in registers, perhaps of another type.
    fn stored_elsewhere(&mut self, of: &Known) {
        let elem = match of.elem {
            Elem::Bool => Elem::Bool,
            elem if self.scene.random.chance(60) => elem,
            _ => self.number_type(),
        };
        if self.scene.random.chance(50) {
            let to = self.shared(elem, &of.shape);
            self.copy(of, &to);
            self.pool.push(to);
        } else {
            let value = if elem == Elem::Bool { "false".into() } else { literal(0.0, elem) };
            let to = self.filled_with(elem, &of.shape, value);
            self.copy(of, to);
        }
    }

    /// A tile of a function's elements. Conditions are written to a tile, or made one by their name.
    fn tile_of_elements(&mut self, value: String, elem: Elem, shape: Vec<i64>) -> Known {
        if elem != Elem::Bool {
            return self.made(value, elem, shape);
        }
        let (filled, assigned) = (self.scene.random.chance(50), self.scene.random.chance(50));
        // No further number is drawn, so that later statements of a seed are the same.
        if self.pool.len() % 2 == 1 {
            return self.made(value, elem, shape);
        }
        let to = self.filled_with(elem, &shape, filled);
        match assigned {
            true => self.scene.push(format!("{to} = {value};")),
            false => self.copy(value, &to),
        }
        to
    }

    fn number_type(&mut self) -> Elem {
        loop {
            let elem = self.scene.random.weighted(&TYPES);
            if elem != Elem::Bool {
                return elem;
            }
        }
    }

    /// Stores a tile, perhaps in another type.
    fn kept(&mut self, from: &Known) {
        let elem = match from.elem {
            Elem::Bool => Elem::Bool,
            elem if self.scene.random.chance(70) => elem,
            _ => self.number_type(),
        };
        let to = self.result(elem, &from.shape);
        match self.scene.random.below(3) {
            0 if elem == from.elem => self.scene.push(format!("{to} = {from};")),
            1 if elem == from.elem => self.scene.push(format!("map({from}, {to}, |x| x);")),
            _ => self.copy(from, to),
        }
    }

    /// Another tile of this type and shape, or the same.
    pub(super) fn like(&mut self, of: &Known) -> Known {
        self.pick(|known| known.elem == of.elem && known.shape == of.shape).unwrap_or_else(|| of.clone())
    }

    /// Arithmetic of elements of one type.
    fn arithmetic(&mut self, elem: Elem, operands: &[&str], depth: u32) -> String {
        if depth == 0 || self.scene.random.chance(15) {
            if self.scene.random.chance(75) {
                return self.scene.random.pick(operands).into();
            }
            return literal(self.scene.random.within(0, 7) as f64, elem);
        }
        if elem == Elem::Bool {
            let (x, y) = (self.logic(operands, depth - 1), self.logic(operands, depth - 1));
            return format!("({x} {} {y})", self.scene.random.pick(&["&", "|", "^"]));
        }
        let x = self.arithmetic(elem, operands, depth - 1);
        let y = self.arithmetic(elem, operands, depth - 1);
        let op = match elem.is_float() {
            true => self.scene.random.pick(&["+", "-", "*"]),
            false => self.scene.random.pick(&["+", "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]),
        };
        match self.scene.random.below(10) {
            0 => format!("{}({x}, {y})", self.scene.random.pick(&["min", "max"])),
            // A literal alone would have no type.
            1 if is_integer(elem) => {
                let own = self.scene.random.pick(operands);
                match self.scene.random.below(4) {
                    0 => format!("!{own}"),
                    1 => format!("count_ones({own})"),
                    2 => format!("leading_zeros({own})"),
                    _ => format!("abs({own})"),
                }
            }
            2 => choice(format!("{x} < {y}"), &x, &y),
            _ => format!("({x} {op} {y})"),
        }
    }

    fn logic(&mut self, operands: &[&str], depth: u32) -> String {
        let own = match depth {
            0 => self.scene.random.pick(operands).into(),
            _ => self.arithmetic(Elem::Bool, operands, depth),
        };
        if self.scene.random.chance(25) { format!("!{own}") } else { own }
    }

    /// A function of two tiles of one type.
    fn computed(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let y = self.like(&x);
        if self.scene.random.chance(25) && is_integer(x.elem) {
            let op = self.scene.random.pick(&["+", "-", "*", "^"]);
            self.made(format!("{x} {op} {y}"), x.elem, x.shape);
            return;
        }
        let own = self.scene.random.pick(&["a", "b"]);
        let value = match x.elem {
            Elem::Bool => self.logic(&["a", "b"], 2),
            elem => format!("{own} + {}", self.arithmetic(elem, &["a", "b"], 3)),
        };
        self.tile_of_elements(format!("map(({x}, {y}), |a, b| {value})"), x.elem, x.shape);
    }

    /// A comparison, and perhaps a choice by it.
    fn related(&mut self) {
        let Some(x) = self.pick(|known| known.elem != Elem::Bool) else { return };
        let y = self.like(&x);
        let op = self.scene.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
        let other = match self.scene.random.chance(70) {
            true => y.name.clone(),
            false => literal(self.scene.random.within(0, 3) as f64, x.elem),
        };
        if self.scene.random.chance(50) {
            let mask = self.made(format!("{x} {op} {other}"), Elem::Bool, x.shape.clone());
            match self.scene.random.chance(50) {
                true => {
                    self.made(choice(mask, &x, y), x.elem, x.shape);
                }
                false => {
                    let to = self.result(Elem::Bool, &x.shape);
                    self.copy(mask, to);
                }
            }
            return;
        }
        let compared = format!("map(({x}, {y}), |a, b| a {op} b)");
        let flags = self.tile_of_elements(compared, Elem::Bool, x.shape.clone());
        let value = choice("h", "a", "b");
        self.made(format!("map(({flags}, {x}, {y}), |h, a, b| {value})"), x.elem, x.shape);
    }

    /// `x as u64`
    fn converted(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let to = self.number_type();
        let value = match self.scene.random.chance(50) {
            true => format!("{x} as {to}"),
            false => format!("map({x}, |x| x as {to})"),
        };
        self.made(value, to, x.shape);
    }

    /// A sum, a minimum or a maximum.
    fn totalled(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let function = match x.elem {
            Elem::Bool => "sum",
            _ => self.scene.random.pick(&["sum", "sum", "minimum", "maximum"]),
        };
        let elem = if function == "sum" { x.elem.accumulator() } else { x.elem };
        let mode = self.scene.random.below(x.shape.len());
        let mut shape = x.shape.clone();
        shape[mode] = 1;
        // `sum` counts tiles of conditions as well.
        self.made(format!("{function}({x}, {mode})"), elem, shape);
    }

    /// An index from elements: as they are, or arithmetic on them.
    fn position(&mut self, elem: Elem) -> String {
        let by = literal(self.scene.random.within(1, 7) as f64, elem);
        match self.scene.random.below(6) {
            0 => format!("x % {by}"),
            1 => format!("x + {by}"),
            2 => "x * x".into(),
            3 => format!("abs(x - {by})"),
            _ => "x".into(),
        }
    }

    /// `map(x, |x| t[(x)])`
    fn looked_up(&mut self) {
        let Some(x) = self.pick(|known| is_integer(known.elem)) else { return };
        let elem = self.scene.random.weighted(&TYPES);
        let rank = self.scene.random.within(1, 2);
        let extents: Vec<Extent> = (0..rank).map(|_| self.scene.extent(8)).collect();
        let table = self.scene.tensor(elem, &extents, false);
        let at: Vec<String> = (0..rank).map(|_| self.position(x.elem)).collect();
        self.tile_of_elements(format!("map({x}, |x| {table}[{}])", tuple(&at)), elem, x.shape);
    }

    /// Atomic updates at indices that may collide.
    fn counted_up(&mut self) {
        let Some(x) = self.pick(|known| is_integer(known.elem)) else { return };
        let elem = self.scene.random.weighted(&ATOMIC);
        let how = self.scene.random.pick(&UPDATES);
        let extent = if self.scene.random.chance(50) { Extent::Int(3) } else { self.scene.extent(8) };
        let to = self.scene.tensor(elem, &[extent], true);
        let (at, value) = (self.position(x.elem), as_elem("x", x.elem, elem));
        self.scene.push(format!("scatter({x}, {to}, |x| ({at}, {value}), how = {how:?});"));
    }

    /// Atomic updates of a tile that only this block has, and its old values.
    fn updated(&mut self) {
        let elem = self.scene.random.weighted(&ATOMIC);
        // No element of it is out of bounds.
        let mode = self.scene.random.below(self.frame.len());
        let shape = self.frame.clone();
        let numbers = self.made(format!("iota({}, {mode})", tuple(&shape)), Elem::I32, shape.clone());
        let factor = literal(self.scene.random.within(1, 9) as f64, elem);
        let end = literal(self.scene.random.within(2, 8) as f64, elem);
        let value = format!("{} * {factor} % {end}", cast("i", elem));
        let x = self.made(format!("map({numbers}, |i| {value})"), elem, shape);
        let to = self.result(elem, &x.shape);
        let option = match self.scene.random.below(3) {
            0 => {
                let expected = literal(self.scene.random.within(0, 2) as f64, elem);
                format!("how = \"atomic_compare_exchange\", expected = {expected}")
            }
            1 => "how = \"atomic_exchange\"".into(),
            _ => format!("how = {:?}", self.scene.random.pick(&UPDATES)),
        };
        let update = format!("copy({x}, {to}, {option})");
        if self.scene.random.chance(70) {
            self.made(update, elem, x.shape);
        } else {
            self.scene.push(format!("{update};"));
        }
    }

    /// One element of a small argument, in bounds.
    fn element(&mut self, elem: Elem) -> String {
        let extent = self.scene.random.within(2, 5);
        let table = self.scene.tensor(elem, &[Extent::Int(extent)], false);
        format!("{table}[{}]", self.scene.random.within(0, extent - 1))
    }

    /// A type whose elements are integers of memory.
    fn index_type(&mut self) -> Elem {
        self.scene.random.pick(&[Elem::I64, Elem::U64, Elem::I16, Elem::U16])
    }

    /// A tile whose coordinate is an element, or arithmetic on one.
    fn numbered_by_elements(&mut self) {
        let (elem, of) = (self.scene.random.weighted(&TYPES), self.index_type());
        let shape = self.frame.clone();
        let extents: Vec<Extent> = shape.iter().map(|&tile| self.scene.extent(tile)).collect();
        let table = self.scene.tensor(elem, &extents, false);
        let mut at = vec!["0".to_owned(); shape.len()];
        let mode = self.scene.random.below(shape.len());
        let number = self.element(of);
        at[mode] = match self.scene.random.below(4) {
            0 => format!("{number} % {}", self.scene.random.within(2, 5)),
            1 => format!("{number} - 1"),
            2 => format!("{number} + {}", self.scene.random.within(1, 2)),
            _ => number,
        };
        let tile = self.scene.bind("x", format!("tile({table}, {}, {})", tuple(&shape), tuple(&at)));
        let known = self.global(tile, elem, shape);
        self.pool.push(known.clone());
        self.stored_elsewhere(&known);
    }

    /// Statements that elements decide: a condition in memory, a comparison, the end of a loop.
    fn decided_by_elements(&mut self) {
        let Some(x) = self.pick(|known| is_integer(known.elem)) else { return };
        let to = self.full(x.elem, &x.shape, 0.0);
        let update = format!("{to} += {x};\n");
        let of = self.index_type();
        let stmt = match self.scene.random.below(3) {
            0 => {
                let go = self.element(Elem::Bool);
                let go = if self.scene.random.chance(30) { format!("!{go}") } else { go };
                decide(&go, &update, "")
            }
            1 => {
                let op = self.scene.random.pick(&["<", ">=", "=="]);
                let condition = format!("{} {op} {}", self.element(of), self.scene.random.within(0, 2));
                decide(&condition, &update, "")
            }
            _ => {
                let var = self.scene.fresh("k");
                repeat(&var, &format!("0..{} % 4", self.element(of)), &update)
            }
        };
        self.scene.push(stmt);
    }
}
