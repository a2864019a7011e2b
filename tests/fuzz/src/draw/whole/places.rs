//! Gathers and scatters: accesses to elements at computed indices.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Binary, Expr};

use super::super::scene::Extent;
use super::super::tree::{
    binary, call, cast, choice, closure, field, index, int, literal, name, negative, text, tuple, with,
};
use super::{Known, Space, Whole};

impl Whole {
    /// An index from an element and its coordinates.
    fn index_of(&mut self, of: &Known) -> Expr {
        let element = match of.elem {
            Elem::I32 => name("x"),
            _ => cast(name("x"), Elem::I32),
        };
        let at = |scene: &mut super::Scene| {
            let mode = scene.random.below(of.shape.len());
            field("at", &mode.to_string())
        };
        let mut made = match (of.placed, self.scene.random.below(3)) {
            (true, 0 | 1) => at(&mut self.scene),
            _ => element,
        };
        for _ in 0..self.scene.random.below(3) {
            let by = self.scene.random.within(1, 5);
            made = match self.scene.random.below(14) {
                6 | 7 => binary(Binary::Mul, made.clone(), made),
                8 => negative(made),
                9 => choice(binary(Binary::Lt, made.clone(), int(0)), negative(made.clone()), made),
                10 => {
                    let far = self.scene.random.pick(&[4096, 65_537, 1_000_003]);
                    binary(Binary::Mul, made, int(far))
                }
                11 | 12 if !self.scene.sizes.is_empty() => {
                    let size = name(&self.scene.random.pick(&self.scene.sizes.clone()));
                    let square = binary(Binary::Mul, made.clone(), made);
                    binary(self.scene.random.pick(&[Binary::Rem, Binary::Rem, Binary::Mul]), square, size)
                }
                13 => call("abs", vec![made]),
                0 => binary(Binary::Add, made, int(by)),
                1 => binary(Binary::Sub, int(by), made),
                2 => binary(Binary::Mul, made, int(by)),
                3 => binary(Binary::Rem, made, int(by)),
                4 if of.placed => binary(Binary::Add, made, at(&mut self.scene)),
                _ => call("max", vec![made, int(0)]),
            };
        }
        made
    }

    /// `map(x, |x, at| t[(at.0, x)])`
    pub(super) fn gathered(&mut self) {
        let Some(of) = self.pick(|known| known.placed || !known.elem.is_float() || known.elem == Elem::F32)
        else {
            return;
        };
        let shared = self.pick(|known| known.space == Space::Shared);
        let (table, elem, rank) = match shared {
            Some(shared) if self.scene.random.chance(70) => (shared.name, shared.elem, shared.shape.len()),
            _ => {
                let elem = self.scene.elem();
                let rank = self.scene.random.within(1, 2) as usize;
                let extents: Vec<Extent> = (0..rank).map(|_| self.scene.extent(8)).collect();
                (self.scene.tensor(elem, &extents, false), elem, rank)
            }
        };
        let mut at: Vec<Expr> = (0..rank).map(|_| self.index_of(&of)).collect();
        if rank > 1 && self.scene.random.chance(30) {
            at[0] = int(self.scene.random.within(-1, 3));
        }
        let there = index(name(&table), at);
        let own = if of.elem == elem { name("x") } else { cast(name("x"), elem) };
        let value = match self.scene.random.below(3) {
            0 => binary(Binary::Add, there, own),
            1 => binary(Binary::Mul, there, literal(2.0, elem)),
            _ => there,
        };
        let params: &[&str] = if of.placed { &["x", "at"] } else { &["x"] };
        let value = cast(value, elem);
        self.made(call("map", vec![name(&of.name), closure(params, value)]), elem, of.shape);
    }

    pub(super) fn scattered(&mut self) {
        if self.depth > 0 {
            return;
        }
        if self.scene.random.chance(50) {
            return self.counted();
        }
        let Some(of) = self.pick(|known| known.own.is_some()) else { return };
        let Some(extents) = of.own.clone() else { return };
        let to = self.scene.tensor(of.elem, &extents, true);
        let at: Vec<Expr> = extents
            .iter()
            .enumerate()
            .map(|(mode, extent)| {
                let at = field("at", &mode.to_string());
                match self.scene.random.below(4) {
                    0 => {
                        let last = binary(Binary::Sub, extent.expr(), int(1));
                        binary(Binary::Sub, last, at)
                    }
                    1 => binary(Binary::Add, at, int(self.scene.random.within(-2, 3))),
                    2 if mode == 0 => {
                        let zero = literal(1.0, of.elem);
                        choice(binary(Binary::Lt, name("x"), zero), at, negative(int(1)))
                    }
                    _ => at,
                }
            })
            .collect();
        let value = if self.scene.random.chance(50) {
            name("x")
        } else {
            binary(Binary::Add, name("x"), literal(1.0, of.elem))
        };
        let pair = tuple(vec![tuple(at), value]);
        self.push(call("scatter", vec![name(&of.name), name(&to), closure(&["x", "at"], pair)]));
    }

    /// A histogram.
    fn counted(&mut self) {
        let Some(of) = self.pick(|known| known.placed || !known.elem.is_float()) else { return };
        let bins = self.scene.random.pick(&[1, 3, 8, 32]);
        let mut rank = 1;
        let to = match self.scene.random.chance(60) {
            true => {
                rank = self.scene.random.weighted(&[(4, 1), (1, 2)]);
                let extents: Vec<Extent> =
                    (0..rank)
                        .map(|_| {
                            if self.scene.random.chance(40) {
                                Extent::Int(bins)
                            } else {
                                self.scene.extent(8)
                            }
                        })
                        .collect();
                self.scene.tensor(Elem::I32, &extents, true)
            }
            false => {
                let shape = super::list_of(&[bins]);
                let to = self.scene.bind("sh", super::typed("shared", Elem::I32, vec![shape]));
                self.push(call("fill", vec![name(&to), int(0)]));
                let shape = vec![bins];
                self.pool.push(Known {
                    name: to.clone(),
                    elem: Elem::I32,
                    shape,
                    space: Space::Shared,
                    own: None,
                    placed: false,
                });
                to
            }
        };
        let coordinates = tuple((0..rank).map(|_| self.index_of(&of)).collect());
        let value = match self.scene.random.chance(50) {
            true => int(1),
            false if of.elem == Elem::I32 => name("x"),
            false => cast(name("x"), Elem::I32),
        };
        let params: &[&str] = if of.placed { &["x", "at"] } else { &["x"] };
        let scatter = call(
            "scatter",
            vec![name(&of.name), name(&to), closure(params, tuple(vec![coordinates, value]))],
        );
        self.push(with(scatter, "how", text("atomic_add")));
    }
}
