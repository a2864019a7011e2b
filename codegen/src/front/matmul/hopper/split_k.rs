//! Products of few tiles and a long K: the blocks of a cluster compute one tile together, each the sums over its part of
//! K. Then each block adds some rows of all blocks' sums, its own first, through distributed shared memory.

use crate::thread::atom::OperandName;
use tilewright_layout::{Composed, Layout, Value as Size};

use super::epilogue::{Scalars, along_rows, scaled};
use super::{Part, THREADS};
use crate::build::tiled::{Fill, PAD, swizzled_tile};
use crate::build::{Builder, Role};
use crate::front::matmul::Config;
use crate::front::matmul::bulk::batch_of;
use crate::front::matmul::cluster::total;
use crate::front::matmul::product::{Extras, of_batch};
use crate::source::problem::Result;
use crate::thread::Id;
use crate::tile::view::{At, View};
use crate::values::affine::{Affine, Coord};

/// The shared layout of the sums of a tile: contiguous along C's contiguous mode, so that lanes read a row in one piece.
fn layout_of_sums(c: &Config, [bm, bn]: [i64; 2]) -> Result<Composed> {
    match along_rows(c) {
        true => swizzled_tile(c.acc, [bm, bn], 0),
        false => Ok(Layout::new((bm, bn), (bn + PAD, 1i64))?.into()),
    }
}

impl Part<'_> {
    /// The program: one tile for each cluster.
    pub(super) fn product_over_cluster(
        &self,
        b: &mut Builder,
        producer: Id,
        from: [&View; 2],
        slots: [&View; 2],
        out: &View,
        (scalars, extras): (&Scalars, &Extras),
    ) -> Result<()> {
        let ([bm, bn, _], c) = (self.sizes.tile, self.c);
        let split_k = self.sizes.split_k;
        let mut at: Vec<Affine> = vec![Coord::Block(1).into(), Coord::Block(2).into()];
        // Clusters of one batch come after another batch's.
        let mut along = vec![Size::Int(split_k)];
        if c.batched {
            at.push(Affine::from(Coord::Block(0)).submode(split_k, None));
            along.push(Size::symbol("L"));
        }
        b.blocks(0, &along)?;
        // The sums overlay the ring: its last slot has been read before they are written.
        let ring: Vec<&View> = slots.into_iter().chain(self.scales.iter().map(|all| &all.to)).collect();
        let sums = b.shared_over("sums", c.acc, layout_of_sums(c, [bm, bn])?, &ring)?;
        let fill = Box::new(|b: &mut Builder| self.fill(b, &at, from, slots));
        let mut roles: Vec<(Id, Role<'_>)> = vec![(producer, fill)];
        roles.push((
            self.consumers,
            Box::new(|b: &mut Builder| {
                let (own, product) = (self.sums(b)?, b.token());
                self.multiply(b, &own, slots, product)?;
                b.sync();
                let part = b.partition_mma(&sums, self.multiply, OperandName::D, &self.by_warpgroup())?;
                b.copy(&own, &part)
            }),
        ));
        b.roles(roles)?;
        b.sync_cluster();
        match self.storing().0 {
            0 => self.add_and_store(b, &at, &sums, out, (scalars, extras)),
            _ => {
                let body = |b: &mut Builder| self.add_and_store(b, &at, &sums, out, (scalars, extras));
                b.roles(vec![(self.consumers, Box::new(body))])
            }
        }
    }

    /// The threads that add and store, and their number: a power of two. They are the producer and one warpgroup of
    /// consumers, if each thread has an element, or consumers alone.
    fn storing(&self) -> (Id, i64) {
        let ([bm, bn, _], split_k) = (self.sizes.tile, self.sizes.split_k);
        match self.sizes.warpgroups() {
            1 if bm * bn / split_k >= 2 * THREADS => (0, 2 * THREADS),
            warpgroups => (self.consumers, warpgroups * THREADS),
        }
    }

    /// Adds this block's rows of all blocks, and stores them.
    fn add_and_store(
        &self,
        b: &mut Builder,
        at: &[Affine],
        sums: &View,
        out: &View,
        (scalars, extras): (&Scalars, &Extras),
    ) -> Result<()> {
        let ([bm, bn, _], c) = (self.sizes.tile, self.c);
        let place = [0, 1].map(|mode| At::Index(at[mode].clone()));
        let out = of_batch(b, c, out, batch_of(at))?;
        let tile = b.tile(&out, (bm, bn), &place)?;
        let extras = extras.of_batch(b, c, &batch_of(at))?;
        let (of_tile, of_c) = if c.a_is_left() { ([bm, bn], [0, 1]) } else { ([bn, bm], [1, 0]) };
        let extras = extras.tile(b, c, of_tile, of_c.map(|mode| &place[mode]))?;
        let extras = extras.parts(|view| {
            let view = b.permute(view, &of_c)?;
            self.rows_of_rank(b, &view)
        })?;
        let total = total(b, sums, (self.sizes.split_k, c.acc), |b, view| self.rows_of_rank(b, view))?;
        let tile = self.rows_of_rank(b, &tile)?.with_name("out");
        scaled(b, c, (scalars, &extras), &total, &tile, &tile)
    }

    /// A thread's part of the rows of a tile that this block adds and stores.
    fn rows_of_rank(&self, b: &mut Builder, tile: &View) -> Result<View> {
        let (rows, columns) = (self.sizes.tile[0] / self.sizes.split_k, self.sizes.tile[1]);
        let place = [At::Index(Coord::ClusterRank.into()), At::Index(0.into())];
        let mine = b.tile(tile, (rows, columns), &place)?;
        let (of, threads) = self.storing();
        // As wide as loads of so few rows can be if all threads have some.
        let fills = [4, 2, 1]
            .map(|vector| Fill::of([rows, columns], usize::from(!along_rows(self.c)), threads, vector));
        let mut fills = fills.into_iter().collect::<Result<Vec<_>>>()?;
        let even = fills.iter().position(|fill| !fill.partition.ragged).unwrap_or(2);
        let fill = fills.swap_remove(even);
        b.parallelize_over(&mine, &fill.threads, of, &fill.partition)
    }
}
