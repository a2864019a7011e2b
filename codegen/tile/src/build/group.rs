//! Warp specialisation: groups of warps with different roles, and the rings of shared memory slots between
//! them.

use super::Builder;
use crate::source::problem::Result;
use crate::thread::Id;
use crate::tile::{Group, Op, Ring};
use crate::values::affine::{Affine, Coord};

/// The work of a group, as calls on the builder.
pub type Role<'r> = Box<dyn FnOnce(&mut Builder) -> Result<()> + 'r>;

impl Builder {
    /// Some warps of the block, as a group.
    ///
    /// ```
    /// # use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("roles");
    /// let consumers = b.group("consumers", (0, 8), Some(232));
    /// let producer = b.group("producer", (8, 12), Some(40));
    /// assert_eq!(b.program().groups[producer as usize].threads, 128);
    /// assert_eq!(b.program().threads(), 384);
    /// ```
    pub fn group(&mut self, name: &str, warps: (u32, u32), registers: Option<u32>) -> Id {
        self.family(name, warps, 1, registers)
    }

    /// Several groups of equally many warps that run the same program, each on its own tiles.
    ///
    /// ```
    /// # use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("roles");
    /// // two warpgroups; each computes every other tile of the block
    /// let consumers = b.family("consumers", (0, 8), 2, Some(232));
    /// assert_eq!(b.program().groups[consumers as usize].threads, 128);
    /// assert_eq!(b.program().threads(), 256);
    /// ```
    pub fn family(&mut self, name: &str, warps: (u32, u32), members: u32, registers: Option<u32>) -> Id {
        let group = Group { name: name.into(), warps: Some(warps), members, threads: 0, registers };
        let threads = group.member_warps().unwrap_or(0).saturating_mul(32);
        self.program.groups.push(Group { threads, ..group });
        self.partitions.push(Some(format!("the group has {threads} threads")));
        self.program.groups.len() as Id - 1
    }

    /// The index of the family's member that performs this, for tiles that each member has for itself.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, problem::Result};
    /// # use tilewright_codegen::view::At;
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let consumers = b.family("consumers", (0, 8), 2, None);
    /// let tiles = b.shared("staged", Elem::Bf16, layout!((64, 64, 2)))?; // a tile for each member
    /// let own = b.slice(&tiles, &[At::All, At::All, At::Index(b.member(consumers))])?;
    /// assert_eq!(own.shape().to_string(), "(64,64)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn member(&self, family: Id) -> Affine {
        match self.program.groups[family as usize].members {
            0 | 1 => 0.into(),
            _ => Coord::Member(family).into(),
        }
    }

    /// Statements that another group with the same threads performs: the warps or warpgroups of
    /// a group, as a family.
    ///
    /// ```
    /// # use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("parts");
    /// let warps = b.family("warps", (0, 4), 4, None);
    /// b.within(warps, |b| b.sync()); // the threads of each warp meet
    /// assert_eq!(b.finish().body[0].by, warps);
    /// ```
    pub fn within<T>(&mut self, group: Id, body: impl FnOnce(&mut Builder) -> T) -> T {
        let by = std::mem::replace(&mut self.by, group);
        let done = body(self);
        self.by = by;
        done
    }

    /// A ring of shared memory slots between two groups: a producer and a consumer.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Ring};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let (consumers, producer) = (b.group("consumers", (0, 4), None), b.group("producer", (4, 5), None));
    /// let tiles = b.shared("tiles", Elem::Bf16, layout!((64, 64, 2)))?; // the last mode is the slot
    /// let ring = b.ring(Ring {
    ///     name: "ring".into(),
    ///     slots: 2,
    ///     buffers: vec![tiles.tensor],
    ///     from: producer,
    ///     to: consumers,
    ///     arrivals: 1,
    ///     over_cluster: false,
    /// });
    /// assert_eq!(b.program().rings[ring as usize].slots, 2);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn ring(&mut self, ring: Ring) -> Id {
        self.program.rings.push(ring);
        self.program.rings.len() as Id - 1
    }

    /// Warp-specialised roles: groups that do different things at the same time.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, problem::Result};
    /// # let mut b = Builder::new("example");
    /// let (consumers, producer) = (b.group("consumers", (0, 4), None), b.group("producer", (4, 5), None));
    /// b.roles(vec![
    ///     (producer, Box::new(|b: &mut Builder| -> Result<()> { Ok(b.sync()) })), // the producer's own barrier
    ///     (consumers, Box::new(|b: &mut Builder| -> Result<()> { Ok(b.sync()) })),
    /// ])?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn roles(&mut self, roles: Vec<(Id, Role<'_>)>) -> Result<()> {
        let (span, by) = (self.span, self.by);
        let mut all = Vec::new();
        for (group, body) in roles {
            self.by = group;
            let done = self.body(body);
            (self.span, self.by) = (span, by);
            all.push((group, done?));
        }
        self.push(Op::Roles(all));
        Ok(())
    }

    /// Groups alternate at a body, in a cyclic order: the first, the second, …, and the first again when
    /// the last is done. A family means its members. So one group multiplies while another runs its
    /// epilogue.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, problem::Result};
    /// # let mut b = Builder::new("example");
    /// let consumers = b.family("consumers", (0, 8), 2, None);
    /// b.roles(vec![(
    ///     consumers,
    ///     Box::new(|b: &mut Builder| {
    ///         b.ordered(&[consumers], |_| -> Result<()> { Ok(()) })?; // products
    ///         b.ordered(&[consumers], |_| -> Result<()> { Ok(()) }) // stores
    ///     }),
    /// )])?;
    /// assert_eq!(b.finish().orders, 2);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn ordered(&mut self, groups: &[Id], body: impl FnOnce(&mut Builder) -> Result<()>) -> Result<()> {
        let (span, body) = (self.span, self.body(body)?);
        self.span = span;
        let order = self.program.orders;
        self.program.orders += 1;
        self.push(Op::Ordered { order, groups: groups.to_vec(), body });
        Ok(())
    }

    /// The ring's current slot, for the last mode of its buffers.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::*};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// # let (consumers, producer) = (b.group("consumers", (0, 4), None), b.group("producer", (4, 5), None));
    /// # let tiles = b.shared("tiles", Elem::Bf16, layout!((64, 64, 2)))?;
    /// # let ring = b.ring(Ring {
    /// #     name: "ring".into(), slots: 2, buffers: vec![tiles.tensor], from: producer, to: consumers, arrivals: 1,
    /// #     over_cluster: false,
    /// # });
    /// use tilewright_codegen::view::At;
    /// let slot = b.slot(ring);
    /// let tile = b.slice(&tiles, &[At::All, At::All, At::Index(slot)])?;
    /// assert_eq!(tile.shape().to_string(), "(64,64)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn slot(&self, ring: Id) -> Affine {
        let slots = self.program.rings[ring as usize].slots;
        Affine::from(Coord::Phase(ring)).submode(1, Some(i64::from(slots)))
    }
}
