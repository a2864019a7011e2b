//! Linear layers whose results are divided among ranks.
#![allow(unsafe_code)]

use std::ops::Range;

use super::linear::{has_extents, is_packed, result, steps, upload, upload_vector};
use super::{Error, Float, Rank, Shards};
use crate::kernels::models::{gated, gated_gemm};
use crate::matmul::{Activation, Matmul};
use crate::models::launch;
use crate::runtime::Fork;
use crate::runtime::nccl::{Slice, Transfer};
use crate::{DeviceTensor, HostRef, Stream, TensorMut, TensorRef};

/// y = f(x·Wᵀ + bias). Each rank has some columns of y: its part of the rows of W, (outputs, inputs). With a gate,
/// y = f(x·Gᵀ) · (x·Wᵀ). All ranks have all of x, or each has some rows of it ([`Column::run_gathered`]).
#[derive(Debug)]
pub struct Column<T: Float> {
    weight: DeviceTensor<T, 2>,
    gate: Option<DeviceTensor<T, 2>>,
    bias: Option<DeviceTensor<T, 1>>,
    activation: Option<Activation>,
    shards: Shards,
    rank: usize,
}

impl<T: Float> Column<T> {
    /// The rank's part of a whole weight, (outputs, inputs).
    pub fn new<'w>(
        rank: &Rank,
        stream: &Stream,
        weight: impl Into<HostRef<'w, T, 2>>,
    ) -> Result<Column<T>, Error> {
        let weight = weight.into();
        let [outputs, inputs] = weight.shape();
        let shards = Shards::new(outputs, rank.ranks())?;
        Column::from_shard(rank, outputs, upload(stream, weight, [shards.of(rank.rank()), 0..inputs])?)
    }

    /// A layer of this number of outputs. The rank has loaded its part: the rows [`Shards::of`] of W.
    pub fn from_shard(rank: &Rank, outputs: usize, weight: DeviceTensor<T, 2>) -> Result<Column<T>, Error> {
        let shards = Shards::new(outputs, rank.ranks())?;
        has_extents("the weight", &weight.shape(), &[shards.of(rank.rank()).len(), weight.shape()[1]])?;
        Ok(Column { weight, gate: None, bias: None, activation: None, shards, rank: rank.rank() })
    }

    /// Adds a bias. The rank takes its part.
    pub fn with_bias<'b>(
        mut self,
        stream: &Stream,
        bias: impl Into<HostRef<'b, T, 1>>,
    ) -> Result<Self, Error> {
        let bias = bias.into();
        let [.., Range { end, .. }] = self.shards.ranges() else { unreachable!("there are ranks") };
        has_extents("the bias", &bias.shape(), &[*end])?;
        self.bias = Some(upload_vector(stream, bias, self.part())?);
        Ok(self)
    }

    /// Applies a function to the results, or to the gate.
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.activation = Some(activation);
        self
    }

    /// Adds a gate. The rank takes its part. Without another function, its function is silu.
    pub fn with_gate<'g>(self, stream: &Stream, gate: impl Into<HostRef<'g, T, 2>>) -> Result<Self, Error> {
        let gate = gate.into();
        let part = upload(stream, gate, [self.part(), 0..gate.shape()[1]])?;
        self.with_gate_shard(part)
    }

    /// Adds a gate. The rank has loaded its part.
    pub fn with_gate_shard(mut self, gate: DeviceTensor<T, 2>) -> Result<Self, Error> {
        has_extents("the gate", &gate.shape(), &self.weight.shape())?;
        self.gate = Some(gate);
        Ok(self)
    }

    /// The columns of y that each rank has.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    fn part(&self) -> Range<usize> {
        self.shards.of(self.rank)
    }

    /// The rank's columns of y, from all of x.
    pub fn run<'x>(
        &self,
        stream: &Stream,
        x: impl Into<TensorRef<'x, T, 2>>,
    ) -> Result<DeviceTensor<T, 2>, Error> {
        let x = x.into();
        let mut y = result(stream, [x.shape()[0], self.part().len()])?;
        self.run_into(stream, x, &mut y)?;
        Ok(y)
    }

    /// The same in a tensor that is there already, so that it can be captured into a graph.
    pub fn run_into<'x, 'y>(
        &self,
        stream: &Stream,
        x: impl Into<TensorRef<'x, T, 2>>,
        y: impl Into<TensorMut<'y, T, 2>>,
    ) -> Result<(), Error> {
        let (x, y) = (x.into(), y.into());
        let Some(gate) = &self.gate else {
            let mut product = Matmul::new();
            if let Some(bias) = &self.bias {
                product = product.bias(bias);
            }
            if let Some(activation) = self.activation {
                product = product.activation(activation);
            }
            product.run_into(stream, x, self.weight.view().transposed(), y)?;
            return Ok(());
        };
        let kind = match self.activation {
            None | Some(Activation::Silu) => 0,
            Some(Activation::Gelu) => 1,
            Some(_) => {
                return Err(Error::refused("a gate has the function silu or gelu", "choose one of these"));
            }
        };
        if self.bias.is_some() {
            return Err(Error::refused("a layer with a gate has no bias", "leave the bias or the gate out"));
        }
        let types = [("T", T::ELEM)];
        if T::IS_HALF && kind == 0 && stream.device().properties().arch() == 90 {
            let mut arguments = [x.into(), gate.into(), (&self.weight).into(), y.into()];
            launch(stream, &gated_gemm::gated_gemm(), &[], &types, &mut arguments)?;
            return Ok(());
        }
        let [rows, columns] = y.shape();
        let mut both = DeviceTensor::<T, 1>::for_results(stream, [2 * rows * columns], true)?;
        for (half, weight) in [gate, &self.weight].into_iter().enumerate() {
            let to = both.view_mut().offset(half * rows * columns).reshaped([rows, columns], [columns, 1]);
            Matmul::new().run_into(stream, &x, weight.view().transposed(), to)?;
        }
        let both = both.view().reshaped([rows, columns, 2], [columns, 1, rows * columns]);
        launch(stream, &gated::gated(), &[("KIND", kind)], &types, &mut [both.into(), y.into()])?;
        Ok(())
    }

    /// The rank's columns of y, where each rank has some rows of x: [`Shards::new`] of the rows has them. Rows of others arrive while
    /// earlier rows are multiplied. `x` gets all rows.
    pub fn run_gathered<'x>(
        &self,
        rank: &mut Rank,
        stream: &Stream,
        own: impl Into<TensorRef<'x, T, 2>>,
        x: &mut DeviceTensor<T, 2>,
        y: &mut DeviceTensor<T, 2>,
    ) -> Result<(), Error> {
        let (own, [rows, inputs]) = (own.into(), x.shape());
        let mut shards = None;
        let checked = (|| {
            let all = Shards::new(rows, rank.ranks())?;
            is_packed(
                "this rank's part of x",
                own.clone(),
                [all.of(rank.rank()).len(), self.weight.shape()[1]],
            )?;
            is_packed("x", x.view(), [rows, self.weight.shape()[1]])?;
            has_extents("y", &y.shape(), &[rows, self.part().len()])?;
            let part = all.of(rank.rank());
            self.run_into(stream, own.clone(), y.view_mut().part(0, part))?;
            shards = Some(all);
            Ok(())
        })();
        let outputs: usize = self.shards.ranges().iter().map(Range::len).sum();
        rank.agree(
            &format!("a Column layer {inputs} to {outputs} of {rows} gathered rows, {}", T::ELEM),
            checked,
        )?;
        let Some(shards) = shards else { unreachable!("the check has made them") };
        let gathered = self.gather(rank, stream, own, x, y, &shards);
        gathered.map_err(|error| rank.broken(error))
    }

    fn gather(
        &self,
        rank: &Rank,
        stream: &Stream,
        own: TensorRef<'_, T, 2>,
        x: &mut DeviceTensor<T, 2>,
        y: &mut DeviceTensor<T, 2>,
        shards: &Shards,
    ) -> Result<(), Error> {
        let [_, inputs] = x.shape();
        let steps = steps(shards, inputs * size_of::<T>(), None);
        let side = rank.side();
        // SAFETY: only this rank has its second stream, and products wait for the rows that they read.
        let fork = unsafe { Fork::new(stream, &side)? };
        fork.reserve(rank.blocks().unwrap_or(0));
        for step in &steps {
            let transfers = gathers(shards, step, rank.rank(), inputs);
            rank.transfer_beside(&side, &mut [own.clone().into(), (&mut *x).into()], &transfers)?;
            fork.main_waits()?;
            for (from, rows) in
                step.iter().enumerate().filter(|(from, rows)| *from != rank.rank() && !rows.is_empty())
            {
                let start = shards.of(from).start;
                let rows = start + rows.start..start + rows.end;
                self.run_into(stream, x.view().part(0, rows.clone()), y.view_mut().part(0, rows))?;
            }
        }
        Ok(())
    }
}

/// The transfers after which a rank has these rows of all ranks: argument 0 is its own part, argument 1 has all.
fn gathers(shards: &Shards, step: &[Range<usize>], own: usize, width: usize) -> Vec<Transfer> {
    let slice = |argument, rows: Range<usize>| Slice {
        argument,
        first: rows.start * width,
        count: rows.len() * width,
    };
    let is_whole = step.iter().zip(shards.ranges()).all(|(rows, part)| rows.len() == part.len());
    if is_whole && shards.is_even() {
        let all = 0..shards.ranges().iter().map(Range::len).sum();
        return vec![Transfer::AllGather { from: slice(0, step[own].clone()), to: slice(1, all) }];
    }
    let copy = |(root, rows): (usize, &Range<usize>)| {
        let start = shards.of(root).start;
        let to = slice(1, start + rows.start..start + rows.end);
        let from = if root == own { slice(0, rows.clone()) } else { to };
        Transfer::Broadcast { from, to, root }
    };
    step.iter().enumerate().filter(|(_, rows)| !rows.is_empty()).map(copy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::plain::perform;

    #[test]
    fn gathered_rows_are_all_rows() {
        for (ranks, rows, width, bytes) in
            [(1, 7, 3, 1), (2, 300, 2, 1), (3, 1000, 1, 1 << 20), (5, 4096, 2, 1 << 20)]
        {
            let shards = Shards::new(rows, ranks).unwrap();
            let whole: Vec<f64> = (0..rows * width).map(|at| at as f64).collect();
            let own = |rank| whole[shards.of(rank).start * width..shards.of(rank).end * width].to_vec();
            let mut all: Vec<_> = (0..ranks).map(|rank| [own(rank), vec![f64::NAN; rows * width]]).collect();
            for step in steps(&shards, bytes, None) {
                let transfers: Vec<_> = (0..ranks).map(|rank| gathers(&shards, &step, rank, width)).collect();
                perform(&mut all, &transfers);
            }
            assert!(all.iter().all(|arguments| arguments[1] == whole), "{rows} rows of {ranks} ranks");
        }
    }
}
