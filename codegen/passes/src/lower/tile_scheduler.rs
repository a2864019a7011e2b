//! Tile schedulers: for a persistent kernel, whose tiles are distributed over the resident clusters, and for
//! a grid with one block for each tile.

use tilewright_layout::Value;

use super::Lower;
use crate::source::diagnostic::Diagnostic;
use crate::thread::index::{ConstantName, Int, Ix};
use crate::thread::{Id, Op, Scope, Unroll};
use crate::tile::range::most;
use crate::tile::{self, LaunchRule, Raster};
use crate::values::affine::Coord;

/// The tiles of a member of a family.
struct Share {
    /// The first, and the distance to the next.
    first: Ix,
    apart: Ix,
    /// For each ring that members share, the slots of the tiles in between.
    others: Vec<(Id, Ix)>,
}

/// The tiles of a persistent kernel that divides the tiles of a last wave.
struct LastWave {
    /// Whole tiles.
    whole: Ix,
    /// Whole tiles, and the parts of the others.
    all: Ix,
    /// The number of a whole tile's part.
    parts: Ix,
}

impl Lower<'_> {
    /// The persistent tile scheduler: a cluster begins with the tile of its index and advances by the
    /// number of clusters. Members of a family take its tiles round-robin.
    pub(super) fn tiles(
        &mut self,
        vars: &[Id],
        (raster, divided): (Raster, u32),
        body: &[tile::Stmt],
    ) -> std::result::Result<(), Diagnostic> {
        let extents: Vec<Value> =
            vars.iter().filter_map(|&var| self.program.vars[var as usize].extent()).collect();
        if self.program.launch == LaunchRule::PerTile {
            return self.tile_of_block(vars, raster, &extents, body);
        }
        let mut counts: Vec<Ix> = extents.iter().map(|&extent| self.value(extent)).collect();
        counts.truncate(counts.len() - usize::from(divided > 0));
        let one = self.int(1);
        let all = counts.iter().fold(one, |all, &count| self.exprs().mul(all, count));
        // Launch rejects more tiles.
        self.exprs().assume(all, 1, i64::from(i32::MAX));
        let mut all = self.name(all, "tiles");
        let (first, between) = self.cluster_of_grid();
        let last_wave = (divided > 0).then(|| self.last_wave(all, between, divided));
        all = last_wave.as_ref().map_or(all, |wave| wave.all);
        // Launch starts no more clusters than there are tiles.
        let left = self.exprs().sub(all, first);
        let hi = self.kernel.exprs.get(all).hi;
        self.exprs().assume(left, 0, hi);
        self.before_exchanges(body);
        let Share { first, apart, others } = self.share_of_member(first, between, body)?;
        // For a member without tiles this is in `0..apart`: other members of its family come before it.
        let left = self.exprs().sub(all, first);
        let left = self.exprs().add(left, apart);
        let left = self.exprs().sub(left, one);
        self.exprs().assume(left, 0, i64::from(i32::MAX));
        let waves = self.exprs().quotient(left, apart);
        let waves = self.name(waves, "waves");
        let last = self.kernel.exprs.get(waves).hi.max(1) - 1;
        let wave = self.var("wave", last > i64::from(i32::MAX));
        let at = self.exprs().leaf(Int::Var(wave), 0, last, 1, Scope::Cluster);
        let (body, ()) = self.nested(|lower| {
            let far = lower.exprs().mul(at, apart);
            let tile = lower.exprs().add(first, far);
            let hi = lower.kernel.exprs.get(all).hi - 1;
            lower.exprs().assume(tile, 0, hi);
            let mut tile = lower.name_here(tile, "tile");
            let part = last_wave.as_ref().map(|wave| lower.part_of_tile(wave, &mut tile));
            let mut coordinates = lower.tile_coordinates(tile, &counts, raster, Lower::name_here);
            coordinates.extend(part);
            for ((&var, position), extent) in vars.iter().zip(coordinates).zip(&extents) {
                lower.exprs().assume(position, 0, most(*extent).max(1) - 1);
                let name = lower.program.vars[var as usize].name.clone();
                let position = lower.name_here(position, &name);
                lower.bind(var, position);
            }
            lower.scope.loops += 1;
            lower.statements(body)?;
            others.iter().for_each(|&(ring, slots)| lower.skip(ring, slots));
            Ok::<(), Diagnostic>(())
        })?;
        let zero = self.int(0);
        self.emit(Op::For { var: wave, from: zero, to: waves, step: 1, unroll: Unroll::No, body });
        Ok(())
    }

    /// The whole tiles, and the parts of tiles of a last wave that is not full.
    fn last_wave(&mut self, tiles: Ix, clusters: Ix, divided: u32) -> LastWave {
        let parts = self.int(i64::from(divided));
        let rest = self.exprs().remainder(tiles, clusters);
        let rest = self.name(rest, "last_tiles");
        let whole = self.exprs().sub(tiles, rest);
        self.exprs().assume(whole, 0, i64::from(i32::MAX));
        let whole = self.name(whole, "whole_tiles");
        let of_rest = self.exprs().mul(rest, parts);
        let all = self.exprs().add(whole, of_rest);
        self.exprs().assume(all, 1, i64::from(i32::MAX));
        LastWave { whole, all: self.name(all, "all"), parts }
    }

    /// The number of a tile's part; `tile` becomes the number of the tile itself.
    fn part_of_tile(&mut self, wave: &LastWave, tile: &mut Ix) -> Ix {
        let &LastWave { whole, parts, .. } = wave;
        let most = self.kernel.exprs.get(*tile).hi.max(0);
        let after = self.exprs().sub(*tile, whole);
        let after = self.exprs().max(after, 0);
        self.exprs().assume(after, 0, most);
        let after = self.name_here(after, "after");
        let is_whole = self.exprs().lt(*tile, whole);
        // Neighbours share a tile.
        let (part, number) = (self.exprs().remainder(after, parts), self.exprs().quotient(after, parts));
        let divided = self.exprs().add(whole, number);
        self.exprs().assume(divided, 0, most);
        let own = self.exprs().select(is_whole, *tile, divided);
        self.exprs().assume(own, 0, most);
        *tile = self.name_here(own, "own_tile");
        self.exprs().select(is_whole, parts, part)
    }

    /// This member's share of the cluster's tiles. The ring slots of tiles before its first are skipped here.
    fn share_of_member(
        &mut self,
        first: Ix,
        between: Ix,
        body: &[tile::Stmt],
    ) -> std::result::Result<Share, Diagnostic> {
        let by = self.scope.by;
        let members = i64::from(self.program.groups[by as usize].members);
        if members < 2 {
            return Ok(Share { first, apart: between, others: Vec::new() });
        }
        let (member, count, fewer) = (self.member(by), self.int(members), self.int(members - 1));
        let before = self.exprs().mul(member, between);
        let first = self.exprs().add(first, before);
        let apart = self.exprs().mul(between, count);
        let mut others = Vec::new();
        for (ring, slots) in self.shared_slots(body) {
            let before = self.exprs().mul(member, slots);
            self.skip(ring, before);
            others.push((ring, self.exprs().mul(slots, fewer)));
        }
        Ok(Share { first: self.name(first, "first"), apart: self.name(apart, "apart"), others })
    }

    /// The tile of this block, or the tiles of its cluster: blocks are numbered along x first, the order in which they are launched.
    fn tile_of_block(
        &mut self,
        vars: &[Id],
        raster: Raster,
        extents: &[Value],
        body: &[tile::Stmt],
    ) -> std::result::Result<(), Diagnostic> {
        let mut axes: Vec<Ix> = (0..vars.len() as u8).map(|axis| self.coord(&Coord::Block(axis))).collect();
        let size = i64::from(self.program.cluster.iter().product::<u32>());
        if let (2.., Some(first)) = (size, axes.first_mut()) {
            let cluster = self.exprs().div(*first, size);
            *first = self.name(cluster, "cluster");
        }
        let coordinates = match raster {
            Raster::Plain => axes,
            Raster::Bands(_) => {
                let counts: Vec<Ix> = extents.iter().map(|&extent| self.value(extent)).collect();
                let named = counts.into_iter().zip('x'..);
                let counts: Vec<Ix> =
                    named.map(|(count, axis)| self.name(count, &format!("tiles_{axis}"))).collect();
                let (mut tile, mut step) = (self.int(0), self.int(1));
                for (&axis, &count) in axes.iter().zip(&counts) {
                    let term = self.exprs().mul(axis, step);
                    tile = self.exprs().add(tile, term);
                    step = self.exprs().mul(step, count);
                }
                // Launch rejects more tiles.
                self.exprs().assume(tile, 0, i64::from(i32::MAX) - 1);
                let tile = self.name(tile, "tile");
                self.tile_coordinates(tile, &counts, raster, Lower::name)
            }
        };
        for ((&var, position), extent) in vars.iter().zip(coordinates).zip(extents) {
            self.exprs().assume(position, 0, most(*extent).max(1) - 1);
            let name = self.program.vars[var as usize].name.clone();
            let position = self.name(position, &name);
            self.bind(var, position);
            self.scope.fixed.push(var);
        }
        self.statements(body)
    }

    /// The index of this cluster along x, and the number of clusters.
    fn cluster_of_grid(&mut self) -> (Ix, Ix) {
        let blocks = i64::from(i32::MAX);
        let size = i64::from(self.program.cluster.iter().product::<u32>());
        let block = self.exprs().leaf(Int::Block(0), 0, blocks - 1, 1, Scope::Block);
        let grid = self.exprs().leaf(Int::Grid(0), 1, blocks, size, Scope::Grid);
        if size == 1 {
            return (block, grid);
        }
        let (number, count) = (self.exprs().div(block, size), self.exprs().div(grid, size));
        let most = self.kernel.exprs.get(count).hi;
        self.exprs().assume(count, 1, most);
        (self.name(number, "cluster"), self.name(count, "clusters"))
    }

    /// The coordinates of a tile by its index in raster order. `keep` names expressions that are used more than once.
    fn tile_coordinates(
        &mut self,
        tile: Ix,
        counts: &[Ix],
        raster: Raster,
        keep: fn(&mut Self, Ix, &str) -> Ix,
    ) -> Vec<Ix> {
        match (raster, counts) {
            // Further modes follow once all tiles of the first two are done.
            (Raster::Bands(_), &[rows, columns, ref others @ ..]) if !others.is_empty() => {
                let plane = self.exprs().mul(rows, columns);
                // Launch rejects more tiles.
                self.exprs().assume(plane, 1, i64::from(i32::MAX));
                let plane = keep(self, plane, "plane");
                let (within, rest) =
                    (self.exprs().remainder(tile, plane), self.exprs().quotient(tile, plane));
                let within = keep(self, within, "in_plane");
                let mut coordinates = self.tile_coordinates(within, &[rows, columns], raster, keep);
                coordinates.extend(self.tile_coordinates(rest, others, Raster::Plain, keep));
                coordinates
            }
            (Raster::Bands(tiles), [rows, columns]) if tiles > 1 => {
                let width = self.int(i64::from(tiles));
                let full = self.exprs().mul(*columns, width);
                let (band, within) = (self.exprs().quotient(tile, full), self.exprs().remainder(tile, full));
                let begin = self.exprs().mul(band, width);
                let start = keep(self, begin, "band");
                // The last band can have fewer rows, but at least one.
                let rest = self.exprs().sub(*rows, start);
                let height = self.exprs().min(rest, width);
                let hi = self.kernel.exprs.get(height).hi;
                self.exprs().assume(height, 1, hi);
                let name = ConstantName::new("BAND", i64::from(tiles));
                for at in [full, begin, height] {
                    self.exprs().name_constant(at, &name);
                }
                let (height, within) = (keep(self, height, "height"), keep(self, within, "within"));
                let (row, column) =
                    (self.exprs().remainder(within, height), self.exprs().quotient(within, height));
                vec![self.exprs().add(start, row), column]
            }
            (Raster::Plain | Raster::Bands(_), _) => {
                let (mut coordinates, mut rest) = (Vec::new(), tile);
                for (mode, &count) in counts.iter().enumerate() {
                    if mode + 1 == counts.len() {
                        coordinates.push(rest);
                    } else {
                        coordinates.push(self.exprs().remainder(rest, count));
                        rest = self.exprs().quotient(rest, count);
                    }
                }
                coordinates
            }
        }
    }
}
