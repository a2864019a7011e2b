//! Integers that are not known while compiling: requirements on sizes, computed sizes, elements that are read as integers.

use tilewright_layout::{Symbol, Value};

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::whole::is_combined;
use crate::tile::{Op, Purpose, Read, Require, Space};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use crate::values::limits;

impl Builder {
    /// A requirement on sizes: a launch with other sizes is refused, with this text. A divisor of a size
    /// allows longer vectors, and a constant that is compared with a size is its limit.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Affine, build::Builder, condition::Test};
    /// # use tilewright_layout::Value;
    /// let mut b = Builder::new("fours");
    /// b.tensor("x", Elem::F32, (Value::symbol("N"),), None, false)?;
    /// let rest = Affine::from(Value::symbol("N")).submode(1, Some(4));
    /// b.require(Test::Equal(rest, 0.into()), "N % 4 == 0")?;
    /// assert_eq!(b.program().requires[0].divides(), Some((Value::symbol("N"), 4)));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn require(&mut self, test: Test, text: &str) -> Result<()> {
        let others =
            |coord: &Coord| !matches!(coord, Coord::Size { .. } | Coord::Submode { .. } | Coord::Two(..));
        if test.any(&others) || !test.scalars().is_empty() {
            return Err(Problem::new("an assertion is checked at launch, and depends on sizes alone")
                .help("write a condition on extents, such as `assert(N % 4 == 0)`"));
        }
        for (size, least, most) in test.limits() {
            if let Some(limit) = least {
                self.at_least(size, limit);
            }
            if let Some(limit) = most.filter(|limit| *limit > 0) {
                self.at_most(size, limit);
            }
        }
        self.program.requires.push(Require { test, text: text.into(), of: None });
        Ok(())
    }

    /// A new symbol for an extent or a number of blocks that is computed from other sizes: a launch computes it, and checks that
    /// an extent has this value.
    pub fn computed(&mut self, of: &Affine) -> Result<Value> {
        const LONGEST: usize = 64;
        if of.terms.is_empty() {
            return Ok(of.constant.into());
        }
        let is_equal = |known: &&Require| matches!(&known.test, Test::Equal(_, known) if known == of);
        if let Some(symbol) = self.program.requires.iter().find(is_equal).and_then(|known| known.of) {
            return Ok(Value::Sym { times: 1, of: symbol, over: 1 });
        }
        let text = crate::tile::verify::text(&self.program, of).trim_matches('`').to_owned();
        let mut name = String::new();
        for word in text.split([' ', '(', ')', ',']).filter(|word| !word.is_empty()) {
            let word = match word {
                "+" => "plus",
                "*" => "times",
                "-" => "minus",
                "/" => "over",
                "%" => "mod",
                word => &word.replace('-', "minus_"),
            };
            name = if name.is_empty() { word.to_owned() } else { format!("{name}_{word}") };
        }
        // A long sum would have a long name, and different sums can have one text.
        let is_taken = |known: &Require| known.of.is_some_and(|of| of.name() == name);
        if name.len() > LONGEST || self.program.requires.iter().any(is_taken) {
            name = format!("size_{}", self.program.requires.len());
        }
        limits::name("a size", &name)?;
        let size = Value::symbol(&name);
        let Value::Sym { of: symbol, .. } = size else { return Ok(size) };
        let test = Test::Equal(size.into(), of.clone());
        self.program.requires.push(Require { test, text, of: Some(symbol) });
        Ok(size)
    }

    /// Sizes that no argument has, but computed extents determine: `R` of `{R + 1}` is that extent less 1. A launch refuses
    /// extents with which such a size would be negative.
    pub fn solved(&mut self) -> Vec<(Symbol, Affine)> {
        let mut all: Vec<(Symbol, Affine)> = Vec::new();
        let known = self.program.symbols();
        for order in 0..self.program.requires.len() {
            let require = &self.program.requires[order];
            let (Some(extent), Test::Equal(_, of)) = (require.of, &require.test) else { continue };
            let &[(Coord::Size { of: unknown, over: 1 }, 1)] = &of.terms[..] else { continue };
            if known.contains(&unknown) {
                continue;
            }
            let least = of.constant;
            let size = Affine::from(Value::Sym { times: 1, of: extent, over: 1 });
            let Some(solved) = size.plus(&least.into(), -1) else { continue };
            let text = format!("{} >= {least}", require.text);
            let own = Require { test: Test::less(size, least).negated(), text, of: None };
            self.program.requires[order] = own;
            let unknown_size = Coord::Size { of: unknown, over: 1 };
            for require in &mut self.program.requires {
                require.test.each_mut(&mut |at| *at = at.with(&unknown_size, &solved).unwrap_or(at.clone()));
            }
            all.push((unknown, solved));
        }
        all
    }

    /// Sizes of computed extents that neither an argument has nor [`Builder::solved`] determines, each with the number of the first
    /// requirement on it.
    pub fn undetermined(&self) -> Vec<(usize, Symbol)> {
        let mut known = self.program.symbols();
        let mut all = Vec::new();
        for (order, require) in self.program.requires.iter().enumerate() {
            let Test::Equal(_, of) = &require.test else { continue };
            for size in of.symbols().into_iter().filter(|_| require.of.is_some()) {
                if !known.contains(&size) {
                    known.push(size);
                    all.push((order, size));
                }
            }
        }
        all
    }

    /// Loads an element of memory or registers as an integer: a coordinate, a loop bound, a side of a
    /// condition. Out of bounds an index is -1, and a value 0.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::Purpose, view::At};
    /// # use tilewright_layout::Value;
    /// let mut b = Builder::new("gather");
    /// let ids = b.tensor("ids", Elem::I32, (Value::symbol("N"),), None, false)?;
    /// let table = b.tensor("table", Elem::F32, (Value::symbol("V"), Value::symbol("D")), None, false)?;
    /// let id = b.slice(&ids, &[At::Index(Coord::Block(0).into())])?;
    /// let row = b.take("row", &id, Purpose::Index)?;
    /// let row = b.slice(&table, &[At::Index(row), At::All])?;
    /// assert_eq!(row.shape().to_string(), "D");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn take(&mut self, name: &str, from: &View, purpose: Purpose) -> Result<Affine> {
        limits::name("a number that is read", name)?;
        if from.extents().map(|all| all.iter().product()) != Some(1i64) {
            return Err(Problem::new(format!(
                "`{}` has the shape {}, and an integer is one element",
                from.name,
                from.shape()
            ))
            .help(format!("index one element of it, such as {}[(block.x)]", from.name)));
        }
        // All threads have the same element of a tile that they share, and of one that they have combined.
        let own = matches!(self.space(from), Space::Registers { .. })
            && !self.program.forms.contains_key(&from.tensor)
            && !is_combined(from.tensor, self.open.iter().flatten());
        let (elem, per_thread) = (self.elem(from), own || from.per_thread());
        let number = self.program.reads.len() as Id;
        self.program.reads.push(Read { name: name.into(), elem, per_thread, purpose });
        self.push(Op::Take { number, from: from.clone() });
        Ok(Coord::Loaded { number, per_thread }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_computed_sizes_have_different_symbols() {
        let mut b = Builder::new("sizes");
        let of = |over: i64| {
            let rounded = Affine::from(Value::symbol("N")).plus(&Affine::from(7), 1).unwrap();
            rounded.submode(over, None).plus(&Affine::from(1), 1).unwrap()
        };
        let mut name = |over| match b.computed(&of(over)).unwrap() {
            Value::Sym { of, .. } => of.name().to_owned(),
            other => panic!("{other}"),
        };
        assert_eq!(name(4), "N_plus_7_over_4_plus_1");
        assert_eq!(name(8), "N_plus_7_over_8_plus_1");
        assert_eq!(name(4), "N_plus_7_over_4_plus_1");
    }
}
