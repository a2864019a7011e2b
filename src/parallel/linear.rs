//! Linear layers whose weights are divided among ranks by columns or by rows, and transfers beside their products.
#![allow(unsafe_code)]

use std::ops::Range;

use super::{Error, Float, Rank, Shards, chunks};
use crate::kernels::models::{gated, gated_gemm};
use crate::matmul::{Activation, Matmul};
use crate::models::launch;
use crate::runtime::Fork;
use crate::runtime::nccl::{Combine, Slice, Transfer};
use crate::{Argument, DeviceTensor, HostRef, Stream, TensorMut, TensorRef};

/// A rank's part of a matrix, row-major on the rank's device.
fn upload<T: Float>(
    stream: &Stream,
    matrix: HostRef<'_, T, 2>,
    [rows, columns]: [Range<usize>; 2],
) -> Result<DeviceTensor<T, 2>, Error> {
    let extents = [rows.len(), columns.len()];
    let values: Vec<T> = rows.flat_map(|row| columns.clone().map(move |column| matrix.at([row, column]))).collect();
    Ok(DeviceTensor::from_elements(stream, extents, [extents[1], 1], &values)?)
}

fn upload_vector<T: Float>(
    stream: &Stream,
    vector: HostRef<'_, T, 1>,
    part: Range<usize>,
) -> Result<DeviceTensor<T, 1>, Error> {
    let values: Vec<T> = part.map(|at| vector.at([at])).collect();
    Ok(DeviceTensor::from_elements(stream, [values.len()], [1], &values)?)
}

/// Refuses a tensor of other extents.
fn has_extents(what: &str, found: &[usize], expected: &[usize]) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let text = |extents: &[usize]| extents.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
    let message = format!("{what} is {}, and {} is expected", text(found), text(expected));
    Err(Error::refused(message, "give the part of this rank: `shards` of the layer has the parts of all ranks"))
}

/// Refuses a tensor that is not one piece of rows, since it is transferred as it is stored.
fn is_packed<T: Float>(what: &str, tensor: TensorRef<'_, T, 2>, extents: [usize; 2]) -> Result<(), Error> {
    has_extents(what, &tensor.shape(), &extents)?;
    let tensor = Argument::from(tensor);
    if tensor.strides() == [extents[1] as i64, 1] || extents[0] == 1 && tensor.strides()[1] == 1 {
        return Ok(());
    }
    Err(Error::refused(format!("{what} has gaps or is column-major"), "make it row-major, without gaps"))
}

/// A row-major tensor for a result.
pub(super) fn result<T: Float>(stream: &Stream, extents: [usize; 2]) -> Result<DeviceTensor<T, 2>, Error> {
    Ok(DeviceTensor::for_results(stream, extents, true)?)
}

/// y = f(x·Wᵀ + bias), of which each rank has some columns: its part of the rows of W, (outputs, inputs). With a gate,
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
    pub fn new<'w>(rank: &Rank, stream: &Stream, weight: impl Into<HostRef<'w, T, 2>>) -> Result<Column<T>, Error> {
        let weight = weight.into();
        let [outputs, inputs] = weight.shape();
        let shards = Shards::new(outputs, rank.ranks())?;
        Column::from_shard(rank, outputs, upload(stream, weight, [shards.of(rank.rank()), 0..inputs])?)
    }

    /// A layer of this number of outputs, of which the rank has loaded its part: the rows [`Shards::of`] of W.
    pub fn from_shard(rank: &Rank, outputs: usize, weight: DeviceTensor<T, 2>) -> Result<Column<T>, Error> {
        let shards = Shards::new(outputs, rank.ranks())?;
        has_extents("the weight", &weight.shape(), &[shards.of(rank.rank()).len(), weight.shape()[1]])?;
        Ok(Column { weight, gate: None, bias: None, activation: None, shards, rank: rank.rank() })
    }

    /// Adds a bias, of which the rank takes its part.
    pub fn with_bias<'b>(mut self, stream: &Stream, bias: impl Into<HostRef<'b, T, 1>>) -> Result<Self, Error> {
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

    /// Adds a gate, of which the rank takes its part. Without another function, its function is silu.
    pub fn with_gate<'g>(self, stream: &Stream, gate: impl Into<HostRef<'g, T, 2>>) -> Result<Self, Error> {
        let gate = gate.into();
        let part = upload(stream, gate, [self.part(), 0..gate.shape()[1]])?;
        self.with_gate_shard(part)
    }

    /// Adds a gate, of which the rank has loaded its part.
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
    pub fn run<'x>(&self, stream: &Stream, x: impl Into<TensorRef<'x, T, 2>>) -> Result<DeviceTensor<T, 2>, Error> {
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
            Some(_) => return Err(Error::refused("a gate has the function silu or gelu", "choose one of these")),
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
            is_packed("this rank's part of x", own.clone(), [all.of(rank.rank()).len(), self.weight.shape()[1]])?;
            is_packed("x", x.view(), [rows, self.weight.shape()[1]])?;
            has_extents("y", &y.shape(), &[rows, self.part().len()])?;
            let part = all.of(rank.rank());
            self.run_into(stream, own.clone(), y.view_mut().part(0, part))?;
            shards = Some(all);
            Ok(())
        })();
        let outputs: usize = self.shards.ranges().iter().map(Range::len).sum();
        rank.agree(&format!("a Column layer {inputs} to {outputs} of {rows} gathered rows, {}", T::ELEM), checked)?;
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
            for (from, rows) in step.iter().enumerate().filter(|(from, rows)| *from != rank.rank() && !rows.is_empty()) {
                let start = shards.of(from).start;
                let rows = start + rows.start..start + rows.end;
                self.run_into(stream, x.view().part(0, rows.clone()), y.view_mut().part(0, rows))?;
            }
        }
        Ok(())
    }
}

/// The rows of each rank's part that are transferred together: chunks of the longest part, as far as others have them.
fn steps(shards: &Shards, bytes_of_row: usize, count: Option<usize>) -> Vec<Vec<Range<usize>>> {
    let longest = shards.ranges().iter().map(Range::len).max().unwrap_or(0);
    let all = chunks(longest, bytes_of_row * shards.ranges().len(), count);
    let cut = |chunk: &Range<usize>, len: usize| chunk.start.min(len)..chunk.end.min(len);
    all.iter().map(|chunk| shards.ranges().iter().map(|part| cut(chunk, part.len())).collect()).collect()
}

/// The transfers after which a rank has these rows of all ranks: argument 0 is its own part, argument 1 has all.
fn gathers(shards: &Shards, step: &[Range<usize>], own: usize, width: usize) -> Vec<Transfer> {
    let slice = |argument, rows: Range<usize>| Slice { argument, first: rows.start * width, count: rows.len() * width };
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

/// y = x·Wᵀ + bias, of which each rank has the sums over some of the inputs: its part of the columns of W, (outputs, inputs). Results are
/// summed over the ranks, chunk by chunk beside the products of later chunks.
#[derive(Debug)]
pub struct Row<T: Float> {
    weight: DeviceTensor<T, 2>,
    /// At rank 0.
    bias: Option<DeviceTensor<T, 1>>,
    shards: Shards,
    rank: usize,
    chunks: Option<usize>,
}

impl<T: Float> Row<T> {
    /// The rank's part of a whole weight, (outputs, inputs).
    pub fn new<'w>(rank: &Rank, stream: &Stream, weight: impl Into<HostRef<'w, T, 2>>) -> Result<Row<T>, Error> {
        let weight = weight.into();
        let [outputs, inputs] = weight.shape();
        let shards = Shards::new(inputs, rank.ranks())?;
        Row::from_shard(rank, inputs, upload(stream, weight, [0..outputs, shards.of(rank.rank())])?)
    }

    /// A layer of this number of inputs, of which the rank has loaded its part: the columns [`Shards::of`] of W.
    pub fn from_shard(rank: &Rank, inputs: usize, weight: DeviceTensor<T, 2>) -> Result<Row<T>, Error> {
        let shards = Shards::new(inputs, rank.ranks())?;
        has_extents("the weight", &weight.shape(), &[weight.shape()[0], shards.of(rank.rank()).len()])?;
        Ok(Row { weight, bias: None, shards, rank: rank.rank(), chunks: None })
    }

    /// Adds a bias, once.
    pub fn with_bias<'b>(mut self, stream: &Stream, bias: impl Into<HostRef<'b, T, 1>>) -> Result<Self, Error> {
        let bias = bias.into();
        has_extents("the bias", &bias.shape(), &[self.outputs()])?;
        if self.rank == 0 {
            self.bias = Some(upload_vector(stream, bias, 0..self.outputs())?);
        }
        Ok(self)
    }

    /// Sets the number of chunks of rows, the same for all ranks; otherwise it follows from the sizes ([`chunks`]).
    pub fn with_chunks(mut self, count: usize) -> Self {
        self.chunks = Some(count);
        self
    }

    /// The columns of x that each rank has.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    fn outputs(&self) -> usize {
        self.weight.shape()[0]
    }

    /// All of y at each rank, from the rank's columns of x.
    pub fn run<'x>(
        &self,
        rank: &mut Rank,
        stream: &Stream,
        x: impl Into<TensorRef<'x, T, 2>>,
    ) -> Result<DeviceTensor<T, 2>, Error> {
        let x = x.into();
        let y = result(stream, [x.shape()[0], self.outputs()]);
        let mut y = match y {
            Ok(y) => y,
            Err(error) => return rank.agree(&self.call(x.shape()[0], "summed"), Err(error)),
        };
        self.run_into(rank, stream, x, &mut y)?;
        Ok(y)
    }

    /// The call of this layer, which is the same at all ranks.
    fn call(&self, rows: usize, what: &str) -> String {
        let inputs: usize = self.shards.ranges().iter().map(Range::len).sum();
        let (outputs, chunks) = (self.outputs(), self.chunks);
        format!("a Row layer {inputs} to {outputs} of {rows} {what} rows, {}, chunks: {chunks:?}", T::ELEM)
    }

    /// The same in a tensor that is there already, row-major without gaps, so that it can be captured into a graph.
    pub fn run_into<'x>(
        &self,
        rank: &mut Rank,
        stream: &Stream,
        x: impl Into<TensorRef<'x, T, 2>>,
        y: &mut DeviceTensor<T, 2>,
    ) -> Result<(), Error> {
        let x = x.into();
        let [rows, _] = x.shape();
        let all = chunks(rows, self.outputs() * size_of::<T>(), self.chunks);
        // The first product runs before ranks agree: it may have to be compiled, and it fails before others wait for this rank.
        let began = is_packed("y", y.view(), [rows, self.outputs()])
            .and_then(|()| self.product(stream, &x, all[0].clone(), y.view_mut().part(0, all[0].clone())));
        rank.agree(&self.call(rows, "summed"), began)?;
        let summed = self.sum(rank, stream, &x, y, &all);
        summed.map_err(|error| rank.broken(error))
    }

    fn sum(
        &self,
        rank: &Rank,
        stream: &Stream,
        x: &TensorRef<'_, T, 2>,
        y: &mut DeviceTensor<T, 2>,
        all: &[Range<usize>],
    ) -> Result<(), Error> {
        let width = self.outputs();
        let sums = |rows: &Range<usize>| {
            let slice = Slice { argument: 0, first: rows.start * width, count: rows.len() * width };
            [Transfer::AllReduce(slice, Combine::Sum)]
        };
        let mut chunk = all[0].clone();
        if all.len() > 1 {
            let side = rank.side();
            // SAFETY: only this rank has its second stream, and sums wait for the products of their rows.
            let fork = unsafe { Fork::new(stream, &side)? };
            fork.reserve(rank.blocks().unwrap_or(0));
            for next in &all[1..] {
                rank.transfer_beside(&side, &mut [(&mut *y).into()], &sums(&chunk))?;
                self.product(stream, x, next.clone(), y.view_mut().part(0, next.clone()))?;
                fork.side_waits()?;
                chunk = next.clone();
            }
        }
        // The main stream has waited for the second one. Nothing runs beside the last sums.
        rank.transfer(stream, &mut [y.into()], &sums(&chunk))
    }

    fn product(
        &self,
        stream: &Stream,
        x: &TensorRef<'_, T, 2>,
        rows: Range<usize>,
        y: TensorMut<'_, T, 2>,
    ) -> Result<(), Error> {
        let mut product = Matmul::new();
        if let Some(bias) = &self.bias {
            product = product.bias(bias);
        }
        product.run_into(stream, x.clone().part(0, rows), self.weight.view().transposed(), y)?;
        Ok(())
    }

    /// Some rows of y at each rank: [`Shards::new`] of the rows has them. `terms` is memory for the rank's own sums of all rows, row-major
    /// without gaps, in another order.
    pub fn run_scattered<'x>(
        &self,
        rank: &mut Rank,
        stream: &Stream,
        x: impl Into<TensorRef<'x, T, 2>>,
        terms: &mut DeviceTensor<T, 2>,
        y: &mut DeviceTensor<T, 2>,
    ) -> Result<(), Error> {
        let (x, width) = (x.into(), self.outputs());
        let [rows, _] = x.shape();
        let mut shards = None;
        let began = (|| {
            let all = Shards::new(rows, rank.ranks())?;
            is_packed("the memory for sums", terms.view(), [rows, width])?;
            is_packed("this rank's part of y", y.view(), [all.of(rank.rank()).len(), width])?;
            let first = steps(&all, width * size_of::<T>(), self.chunks).swap_remove(0);
            self.products(stream, &x, terms, &all, &first, 0)?;
            shards = Some(all);
            Ok(())
        })();
        rank.agree(&self.call(rows, "scattered"), began)?;
        let Some(shards) = shards else { unreachable!("the check has made them") };
        let scattered = self.scatter(rank, stream, &x, terms, y, &shards);
        scattered.map_err(|error| rank.broken(error))
    }

    fn scatter(
        &self,
        rank: &Rank,
        stream: &Stream,
        x: &TensorRef<'_, T, 2>,
        terms: &mut DeviceTensor<T, 2>,
        y: &mut DeviceTensor<T, 2>,
        shards: &Shards,
    ) -> Result<(), Error> {
        let (width, side) = (self.outputs(), rank.side());
        // SAFETY: only this rank has its second stream, and sums wait for the products of their rows.
        let fork = unsafe { Fork::new(stream, &side)? };
        fork.reserve(rank.blocks().unwrap_or(0));
        let mut start = 0;
        for (number, step) in steps(shards, width * size_of::<T>(), self.chunks).iter().enumerate() {
            if number > 0 {
                self.products(stream, x, terms, shards, step, start)?;
                fork.side_waits()?;
            }
            let transfers = scatters(step, start, rank.rank(), width);
            rank.transfer_beside(&side, &mut [(&mut *terms).into(), (&mut *y).into()], &transfers)?;
            start += step.iter().map(Range::len).sum::<usize>();
        }
        Ok(())
    }

    /// The sums of a step's rows, which are rows of `terms` from this one on, in the order of ranks.
    fn products(
        &self,
        stream: &Stream,
        x: &TensorRef<'_, T, 2>,
        terms: &mut DeviceTensor<T, 2>,
        shards: &Shards,
        step: &[Range<usize>],
        mut start: usize,
    ) -> Result<(), Error> {
        for (rows, part) in step.iter().zip(shards.ranges()).filter(|(rows, _)| !rows.is_empty()) {
            let to = terms.view_mut().part(0, start..start + rows.len());
            self.product(stream, x, part.start + rows.start..part.start + rows.end, to)?;
            start += rows.len();
        }
        Ok(())
    }
}

/// The transfers after which a rank has the sums of its rows of a step: argument 0 has the terms from this row on, argument 1 is its part.
fn scatters(step: &[Range<usize>], mut start: usize, own: usize, width: usize) -> Vec<Transfer> {
    let slice = |argument, first: usize, rows: usize| Slice { argument, first: first * width, count: rows * width };
    let to = slice(1, step[own].start, step[own].len());
    if step.iter().all(|rows| rows.len() == step[own].len()) {
        let all = step[own].len() * step.len();
        return vec![Transfer::ReduceScatter { from: slice(0, start, all), to }];
    }
    let mut transfers = Vec::new();
    for (root, rows) in step.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
        let from = slice(0, start, rows.len());
        // Elsewhere the result is not used, and is the terms themselves.
        transfers.push(Transfer::Reduce { from, to: if root == own { to } else { from }, root });
        start += rows.len();
    }
    transfers
}
