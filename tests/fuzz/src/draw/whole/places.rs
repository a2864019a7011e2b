//! Gathers and scatters: accesses to elements at computed indices.

use tilewright_codegen::Elem;

use super::super::scene::Extent;
use super::super::text::{as_elem, cast, choice, list, literal, tuple, with};
use super::{Known, Space, Whole};

impl Whole {
    /// An index from an element and its coordinates.
    fn index_of(&mut self, of: &Known) -> String {
        let at = |scene: &mut super::Scene| format!("at.{}", scene.random.below(of.shape.len()));
        let mut made = match (of.placed, self.scene.random.below(3)) {
            (true, 0 | 1) => at(&mut self.scene),
            _ => as_elem("x", of.elem, Elem::I32),
        };
        for _ in 0..self.scene.random.below(3) {
            let by = self.scene.random.within(1, 5);
            made = match self.scene.random.below(14) {
                6 | 7 => format!("({made} * {made})"),
                8 => format!("(-{made})"),
                9 => choice(format!("{made} < 0"), format!("-{made}"), made),
                10 => format!("({made} * {})", self.scene.random.pick(&[4096, 65_537, 1_000_003])),
                11 | 12 if !self.scene.sizes.is_empty() => {
                    let size = self.scene.random.pick(&self.scene.sizes);
                    format!("({made} * {made} {} {size})", self.scene.random.pick(&["%", "%", "*"]))
                }
                13 => format!("abs({made})"),
                0 => format!("({made} + {by})"),
                1 => format!("({by} - {made})"),
                2 => format!("({made} * {by})"),
                3 => format!("({made} % {by})"),
                4 if of.placed => format!("({made} + {})", at(&mut self.scene)),
                _ => format!("max({made}, 0)"),
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
        let mut at: Vec<String> = (0..rank).map(|_| self.index_of(&of)).collect();
        if rank > 1 && self.scene.random.chance(30) {
            at[0] = self.scene.random.within(-1, 3).to_string();
        }
        let there = format!("{table}[{}]", tuple(&at));
        let value = match self.scene.random.below(3) {
            0 => format!("({there} + {})", as_elem("x", of.elem, elem)),
            1 => format!("({there} * {})", literal(2.0, elem)),
            _ => there,
        };
        let (params, value) = (parameters(&of), cast(value, elem));
        self.made(format!("map({of}, |{params}| {value})"), elem, of.shape);
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
        let one = literal(1.0, of.elem);
        let at: Vec<String> = extents
            .iter()
            .enumerate()
            .map(|(mode, extent)| match self.scene.random.below(4) {
                0 => format!("{extent} - 1 - at.{mode}"),
                1 => format!("at.{mode} + {}", self.scene.random.within(-2, 3)),
                2 if mode == 0 => choice(format!("x < {one}"), format!("at.{mode}"), "-1"),
                _ => format!("at.{mode}"),
            })
            .collect();
        let value = if self.scene.random.chance(50) { "x".into() } else { format!("x + {one}") };
        self.scene.push(format!("scatter({of}, {to}, |x, at| ({}, {value}));", tuple(&at)));
    }

    /// A histogram.
    fn counted(&mut self) {
        let Some(of) = self.pick(|known| known.placed || !known.elem.is_float()) else { return };
        let bins = self.scene.random.pick(&[1, 3, 8, 32]);
        let mut rank = 1;
        let to = match self.scene.random.chance(60) {
            true => {
                rank = self.scene.random.weighted(&[(4, 1), (1, 2)]);
                let extent = |scene: &mut super::Scene| match scene.random.chance(40) {
                    true => Extent::Int(bins),
                    false => scene.extent(8),
                };
                let extents: Vec<Extent> = (0..rank).map(|_| extent(&mut self.scene)).collect();
                self.scene.tensor(Elem::I32, &extents, true)
            }
            false => {
                let to = self.shared(Elem::I32, &[bins]);
                self.scene.push(format!("fill({to}, 0);"));
                self.pool.push(to.clone());
                to.name
            }
        };
        let coordinates: Vec<String> = (0..rank).map(|_| self.index_of(&of)).collect();
        let value = if self.scene.random.chance(50) { "1".into() } else { as_elem("x", of.elem, Elem::I32) };
        let pair = list(&[tuple(&coordinates), value]);
        let scatter = format!("scatter({of}, {to}, |{}| {pair})", parameters(&of));
        self.scene.push(format!("{};", with(scatter, "how", "\"atomic_add\"")));
    }
}

/// The parameters of a function of a tile's elements, with their coordinates if they have any.
fn parameters(of: &Known) -> &'static str {
    if of.placed { "x, at" } else { "x" }
}
