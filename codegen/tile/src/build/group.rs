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
        let group = Group { name: name.into(), warps: Some(warps), members: 1, threads: 0, registers };
        let threads = group.member_warps().unwrap_or(0).saturating_mul(32);
        self.program.groups.push(Group { threads, ..group });
        self.partitions.push(Some(format!("the group has {threads} threads")));
        self.program.groups.len() as Id - 1
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
