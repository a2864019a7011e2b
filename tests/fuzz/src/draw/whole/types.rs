//! Tiles of 64-bit and 16-bit integers and of conditions: loads and stores, arithmetic, comparisons, conversions, reductions, gathers,
//! scatters, atomic updates with their old values, coordinates and conditions of statements.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Binary, Expr};

use super::super::scene::Extent;
use super::super::tree::{
    assign, binary, call, cast, choice, closure, decide, index, int, literal, name, not, range, repeat, text,
    truth, tuple, typed, with, word,
};
use super::{Known, Space, Whole, list_of};

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
        self.keys.push(Arg { name: Some(word("threads")), value: int(self.scene.threads) });
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
            let shared = typed("shared", elem, vec![list_of(&of.shape)]);
            let to = self.scene.bind("sh", shared);
            self.copy(&of.name, &to);
            let known = Known { name: to, elem, own: None, placed: false, ..of.clone() };
            self.pool.push(Known { space: Space::Shared, ..known });
        } else {
            let value = if elem == Elem::Bool { truth(false) } else { literal(0.0, elem) };
            let made = typed("full", elem, vec![list_of(&of.shape), value]);
            let to = self.made(made, elem, of.shape.clone());
            self.copy(&of.name, &to.name);
        }
    }

    /// A tile of a function's elements. Conditions are written to a tile, or made one by their name.
    fn tile_of_elements(&mut self, value: Expr, elem: Elem, shape: Vec<i64>) -> Known {
        if elem != Elem::Bool {
            return self.made(value, elem, shape);
        }
        let (filled, assigned) = (self.scene.random.chance(50), self.scene.random.chance(50));
        // No further number is drawn, so that later statements of a seed are the same.
        if self.pool.len() % 2 == 1 {
            return self.made(value, elem, shape);
        }
        let filled = typed("full", elem, vec![list_of(&shape), truth(filled)]);
        let to = self.made(filled, elem, shape);
        match assigned {
            true => self.scene.push(assign(name(&to.name), None, value)),
            false => self.push(call("copy", vec![value, name(&to.name)])),
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
            0 if elem == from.elem => self.scene.push(assign(name(&to.name), None, name(&from.name))),
            1 if elem == from.elem => {
                self.push(call("map", vec![name(&from.name), name(&to.name), closure(&["x"], name("x"))]));
            }
            _ => self.copy(&from.name, &to.name),
        }
    }

    /// Another tile of this type and shape, or the same.
    fn like(&mut self, of: &Known) -> Known {
        self.pick(|known| known.elem == of.elem && known.shape == of.shape).unwrap_or_else(|| of.clone())
    }

    /// Arithmetic of elements of one type.
    fn arithmetic(&mut self, elem: Elem, operands: &[&str], depth: u32) -> Expr {
        if depth == 0 || self.scene.random.chance(15) {
            if self.scene.random.chance(75) {
                return name(self.scene.random.pick(operands));
            }
            return literal(self.scene.random.within(0, 7) as f64, elem);
        }
        if elem == Elem::Bool {
            let x = self.logic(operands, depth - 1);
            let y = self.logic(operands, depth - 1);
            return binary(self.scene.random.pick(&[Binary::And, Binary::Or, Binary::Xor]), x, y);
        }
        let x = self.arithmetic(elem, operands, depth - 1);
        let y = self.arithmetic(elem, operands, depth - 1);
        let op = match elem.is_float() {
            true => self.scene.random.pick(&[Binary::Add, Binary::Sub, Binary::Mul]),
            false => self.scene.random.pick(&[
                Binary::Add,
                Binary::Add,
                Binary::Sub,
                Binary::Mul,
                Binary::Div,
                Binary::Rem,
                Binary::And,
                Binary::Or,
                Binary::Xor,
                Binary::Shl,
                Binary::Shr,
            ]),
        };
        match self.scene.random.below(10) {
            0 => call(self.scene.random.pick(&["min", "max"]), vec![x, y]),
            // A literal alone would have no type.
            1 if is_integer(elem) => {
                let own = name(self.scene.random.pick(operands));
                match self.scene.random.below(4) {
                    0 => not(own),
                    1 => call("count_ones", vec![own]),
                    2 => call("leading_zeros", vec![own]),
                    _ => call("abs", vec![own]),
                }
            }
            2 => choice(binary(Binary::Lt, x.clone(), y.clone()), x, y),
            _ => binary(op, x, y),
        }
    }

    fn logic(&mut self, operands: &[&str], depth: u32) -> Expr {
        let own = match depth {
            0 => name(self.scene.random.pick(operands)),
            _ => self.arithmetic(Elem::Bool, operands, depth),
        };
        if self.scene.random.chance(25) { not(own) } else { own }
    }

    /// A function of two tiles of one type.
    fn computed(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let y = self.like(&x);
        if self.scene.random.chance(25) && is_integer(x.elem) {
            let op = self.scene.random.pick(&[Binary::Add, Binary::Sub, Binary::Mul, Binary::Xor]);
            self.made(binary(op, name(&x.name), name(&y.name)), x.elem, x.shape);
            return;
        }
        let own = name(self.scene.random.pick(&["a", "b"]));
        let value = match x.elem {
            Elem::Bool => self.logic(&["a", "b"], 2),
            elem => {
                let value = self.arithmetic(elem, &["a", "b"], 3);
                binary(Binary::Add, own, value)
            }
        };
        let given = tuple(vec![name(&x.name), name(&y.name)]);
        self.tile_of_elements(call("map", vec![given, closure(&["a", "b"], value)]), x.elem, x.shape);
    }

    /// A comparison, and perhaps a choice by it.
    fn related(&mut self) {
        let Some(x) = self.pick(|known| known.elem != Elem::Bool) else { return };
        let y = self.like(&x);
        let op =
            self.scene.random.pick(&[Binary::Lt, Binary::Le, Binary::Gt, Binary::Ge, Binary::Eq, Binary::Ne]);
        let other = match self.scene.random.chance(70) {
            true => name(&y.name),
            false => literal(self.scene.random.within(0, 3) as f64, x.elem),
        };
        if self.scene.random.chance(50) {
            let mask = self.made(binary(op, name(&x.name), other), Elem::Bool, x.shape.clone());
            match self.scene.random.chance(50) {
                true => {
                    let value = choice(name(&mask.name), name(&x.name), name(&y.name));
                    self.made(value, x.elem, x.shape);
                }
                false => {
                    let to = self.result(Elem::Bool, &x.shape);
                    self.copy(&mask.name, &to.name);
                }
            }
            return;
        }
        let given = tuple(vec![name(&x.name), name(&y.name)]);
        let value = binary(op, name("a"), name("b"));
        let compared = call("map", vec![given, closure(&["a", "b"], value)]);
        let flags = self.tile_of_elements(compared, Elem::Bool, x.shape.clone());
        let given = tuple(vec![name(&flags.name), name(&x.name), name(&y.name)]);
        let value = choice(name("h"), name("a"), name("b"));
        self.made(call("map", vec![given, closure(&["h", "a", "b"], value)]), x.elem, x.shape);
    }

    /// `x as u64`
    fn converted(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let to = self.number_type();
        let value = match self.scene.random.chance(50) {
            true => cast(name(&x.name), to),
            false => call("map", vec![name(&x.name), closure(&["x"], cast(name("x"), to))]),
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
        self.made(call(function, vec![name(&x.name), int(mode as i64)]), elem, shape);
    }

    /// An index from elements: as they are, or arithmetic on them.
    fn position(&mut self, elem: Elem, x: &str) -> Expr {
        let by = literal(self.scene.random.within(1, 7) as f64, elem);
        match self.scene.random.below(6) {
            0 => binary(Binary::Rem, name(x), by),
            1 => binary(Binary::Add, name(x), by),
            2 => binary(Binary::Mul, name(x), name(x)),
            3 => call("abs", vec![binary(Binary::Sub, name(x), by)]),
            _ => name(x),
        }
    }

    /// `map(x, |x| t[(x)])`
    fn looked_up(&mut self) {
        let Some(x) = self.pick(|known| is_integer(known.elem)) else { return };
        let elem = self.scene.random.weighted(&TYPES);
        let rank = self.scene.random.within(1, 2);
        let extents: Vec<Extent> = (0..rank).map(|_| self.scene.extent(8)).collect();
        let table = self.scene.tensor(elem, &extents, false);
        let at = (0..rank).map(|_| self.position(x.elem, "x")).collect();
        let there = index(name(&table), at);
        self.tile_of_elements(call("map", vec![name(&x.name), closure(&["x"], there)]), elem, x.shape);
    }

    /// Atomic updates at indices that may collide.
    fn counted_up(&mut self) {
        let Some(x) = self.pick(|known| is_integer(known.elem)) else { return };
        let elem = self.scene.random.weighted(&ATOMIC);
        let how = self.scene.random.pick(&UPDATES);
        let extent = if self.scene.random.chance(50) { Extent::Int(3) } else { self.scene.extent(8) };
        let to = self.scene.tensor(elem, &[extent], true);
        let value = if x.elem == elem { name("x") } else { cast(name("x"), elem) };
        let pair = tuple(vec![self.position(x.elem, "x"), value]);
        let scatter = call("scatter", vec![name(&x.name), name(&to), closure(&["x"], pair)]);
        self.push(with(scatter, "how", text(how)));
    }

    /// Atomic updates of a tile that only this block has, and its old values.
    fn updated(&mut self) {
        let elem = self.scene.random.weighted(&ATOMIC);
        // No element of it is out of bounds.
        let mode = self.scene.random.below(self.frame.len());
        let numbers = call("iota", vec![list_of(&self.frame), int(mode as i64)]);
        let numbers = self.made(numbers, Elem::I32, self.frame.clone());
        let factor = literal(self.scene.random.within(1, 9) as f64, elem);
        let value = binary(Binary::Mul, cast(name("i"), elem), factor);
        let value = binary(Binary::Rem, value, literal(self.scene.random.within(2, 8) as f64, elem));
        let x = self.made(
            call("map", vec![name(&numbers.name), closure(&["i"], value)]),
            elem,
            self.frame.clone(),
        );
        let to = self.result(elem, &x.shape);
        let update = call("copy", vec![name(&x.name), name(&to.name)]);
        let update = match self.scene.random.below(3) {
            0 => {
                let update = with(update, "how", text("atomic_compare_exchange"));
                with(update, "expected", literal(self.scene.random.within(0, 2) as f64, elem))
            }
            1 => with(update, "how", text("atomic_exchange")),
            _ => {
                let how = self.scene.random.pick(&UPDATES);
                with(update, "how", text(how))
            }
        };
        if self.scene.random.chance(70) {
            self.made(update, elem, x.shape);
        } else {
            self.push(update);
        }
    }

    /// One element of a small argument, in bounds.
    fn element(&mut self, elem: Elem) -> Expr {
        let extent = self.scene.random.within(2, 5);
        let table = self.scene.tensor(elem, &[Extent::Int(extent)], false);
        index(name(&table), vec![int(self.scene.random.within(0, extent - 1))])
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
        let mut at: Vec<Expr> = shape.iter().map(|_| int(0)).collect();
        let mode = self.scene.random.below(shape.len());
        let number = self.element(of);
        at[mode] = match self.scene.random.below(4) {
            0 => binary(Binary::Rem, number, int(self.scene.random.within(2, 5))),
            1 => binary(Binary::Sub, number, int(1)),
            2 => binary(Binary::Add, number, int(self.scene.random.within(1, 2))),
            _ => number,
        };
        let tile = self.scene.bind("x", call("tile", vec![name(&table), list_of(&shape), tuple(at)]));
        let known = self.global(tile, elem, shape);
        self.pool.push(known.clone());
        self.stored_elsewhere(&known);
    }

    /// Statements that elements decide: a condition in memory, a comparison, the end of a loop.
    fn decided_by_elements(&mut self) {
        let Some(x) = self.pick(|known| is_integer(known.elem)) else { return };
        let to = self.full(x.elem, &x.shape, 0.0);
        let update = assign(name(&to.name), Some(Binary::Add), name(&x.name));
        let of = self.index_type();
        match self.scene.random.below(3) {
            0 => {
                let go = self.element(Elem::Bool);
                let go = if self.scene.random.chance(30) { not(go) } else { go };
                self.scene.push(decide(go, vec![update], Vec::new()));
            }
            1 => {
                let op = self.scene.random.pick(&[Binary::Lt, Binary::Ge, Binary::Eq]);
                let condition = binary(op, self.element(of), int(self.scene.random.within(0, 2)));
                self.scene.push(decide(condition, vec![update], Vec::new()));
            }
            _ => {
                let var = self.scene.fresh("k");
                let end = binary(Binary::Rem, self.element(of), int(4));
                self.scene.push(repeat(&var, range(int(0), end), vec![update]));
            }
        }
    }
}
