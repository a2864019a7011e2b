//! Exchanges between the lanes of a warp. All lanes take part, also those whose elements are masked.

use super::Lower;
use super::elementwise::refined;
use super::numbering::{extents_of, named};
use crate::source::problem::Result;
use crate::thread::index::Ix;
use crate::thread::{Bin, Cmp, Lane, Op, Unroll, Val, Vote};
use crate::tile::elements::ElementFacts;
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::values::elem::Elem;
use crate::values::lanes::{self, Lanes};
use crate::values::number::Number;
use crate::values::typing::Types;

/// Lanes of a warp.
const WARP: u32 = 32;

impl Lower<'_> {
    pub(super) fn across_group(
        &mut self,
        ins: &[View],
        to: &View,
        how: &Lanes,
        lanes: u32,
        known: &ElementFacts,
    ) -> Result<()> {
        let target = self.program.tensor(to.tensor);
        self.at_tensor(&target.name);
        let elems: Vec<Elem> = ins.iter().map(|view| self.program.tensor(view.tensor).elem).collect();
        let (ins, to) = refined(ins, to)?;
        self.loops(&named(extents_of(&leaves(&to))), Unroll::Full, &mut |lower, at| {
            let mut values = Vec::new();
            for (view, elem) in ins.iter().zip(&elems) {
                let (reg, index) = lower.own_element(view, at);
                values.push((Val::Reg(reg, index), *elem));
            }
            let coordinates = lower.coordinates(&ins[0], &leaves(&ins[0]), at);
            let inside = lower.inside(&known.masks, &coordinates);
            if let Some(edges) = known.claims.first() {
                lower.claim(&values[0].0, edges, &ins[0], at, Number::Int(0));
            }
            let value = match how {
                Lanes::Shuffle(lane) => lower.shuffle(lane, &values, lanes)?,
                Lanes::Ballot => {
                    let votes = lower.votes(values.remove(0).0, inside);
                    lower.of_group(votes, lanes)
                }
                Lanes::Match => lower.matches(values.remove(0).0, lanes, inside),
            };
            let reg = lower.storage[to.tensor as usize];
            let at = lower.register_index(&to, &leaves(&to), at);
            lower.emit(Op::Assign { reg, at, value });
            Ok(())
        })
    }

    /// The first value of another lane.
    fn shuffle(&mut self, lane: &crate::tile::Expr, values: &[(Val, Elem)], lanes: u32) -> Result<Val> {
        let elems: Vec<Elem> = values.iter().map(|(_, elem)| *elem).collect();
        let types = Types { ins: &elems, scalars: &self.program.scalars };
        let lane = self.of_values(&types.typed(lane, Elem::I32)?, values)?;
        let own = self.lane(lanes);
        let x = values[0].0.clone();
        // The distance of a butterfly is an operand of the instruction.
        if let Val::Bin(Bin::Xor, left, right) = &lane
            && let (Val::Int(of, _), Val::Lit(by, _)) = (&**left, &**right)
            && *of == own
            && let Some(by) = by.int().and_then(|by| i64::try_from(by).ok())
            && (0..i64::from(lanes)).contains(&by)
        {
            let by = self.int(by);
            return Ok(x.butterfly(by));
        }
        Ok(Val::Shuffle(Box::new(x), Lane::InGroup(lanes, Box::new(lane))))
    }

    /// The lanes of the warp where a condition is true and the element is in bounds.
    fn votes(&mut self, condition: Val, inside: Option<Ix>) -> Val {
        let condition = match condition {
            lit @ Val::Lit(..) => lit,
            value => {
                let elem = self.kernel.type_of(&value);
                Val::Cmp(Cmp::Ne, Box::new(value), Box::new(Val::lit(0i64, elem)))
            }
        };
        let condition = match inside {
            Some(inside) => Val::guarded(inside, condition, Val::lit(0i64, Elem::I32)),
            None => condition,
        };
        Val::Vote(Vote::Ballot, Box::new(condition))
    }

    /// The lanes of the group with the same integer, in bounds.
    fn matches(&mut self, value: Val, lanes: u32, inside: Option<Ix>) -> Val {
        let peers = Val::Vote(Vote::Match, Box::new(value));
        let Some(inside) = inside else { return self.of_group(peers, lanes) };
        let votes = self.votes(Val::lit(1i64, Elem::I32), Some(inside));
        let peers = Val::Bin(Bin::And, Box::new(peers), Box::new(votes));
        let peers = self.of_group(peers, lanes);
        let (reg, zero) = (self.register("peers".into(), Elem::U32, 1, false), self.int(0));
        self.emit(Op::Assign { reg, at: zero, value: peers });
        Val::guarded(inside, Val::Reg(reg, zero), Val::lit(0i64, Elem::U32))
    }

    /// The bits of this lane's group, from the lowest on.
    fn of_group(&mut self, bits: Val, lanes: u32) -> Val {
        if lanes == WARP {
            return bits;
        }
        let (lane, own) = (self.lane(WARP), self.lane(lanes));
        let first = self.exprs().sub(lane, own);
        let first = Val::Int(first, Elem::U32);
        let bits = Val::Bin(Bin::Shr, Box::new(bits), Box::new(first));
        let all = i64::from(u32::MAX >> (WARP - lanes));
        Val::Bin(Bin::And, Box::new(bits), Box::new(Val::lit(all, Elem::U32)))
    }

    /// The number of this lane in its group.
    fn lane(&mut self, lanes: u32) -> Ix {
        self.affine(&lanes::own(lanes))
    }
}
