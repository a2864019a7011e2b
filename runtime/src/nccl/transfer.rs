//! Transfers of tensors among ranks, submitted to a stream in its order.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::nccl::sys::{ncclDataType_t, ncclRedOp_t};
use tilewright_program::Elem;
use tilewright_program::launch::Refusal;

use super::{Communicator, SUCCESS, failed};
use crate::argument::{Argument, Kind};
use crate::error::{Error, While};
use crate::launch::{Order, first_byte};
use crate::stream::Stream;

/// How elements of ranks become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// Their sum.
    Sum,
    /// Their maximum.
    Max,
}

/// Elements of an argument, as they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The number of the argument.
    pub argument: usize,
    /// The first element.
    pub first: usize,
    /// The number of elements.
    pub count: usize,
}

/// A transfer, in which all ranks or two of them take part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// All ranks' elements become one, in the same memory.
    AllReduce(Slice, Combine),
    /// The sums of all ranks' `from`. Each rank gets its part: `from` has the parts of all ranks in order.
    ReduceScatter {
        /// The terms.
        from: Slice,
        /// The rank's own sums.
        to: Slice,
    },
    /// The sums of all ranks' `from` at one rank.
    Reduce {
        /// The terms.
        from: Slice,
        /// The sums, at the root.
        to: Slice,
        /// The rank that gets the sums.
        root: usize,
    },
    /// All ranks' `from`, in the order of ranks.
    AllGather {
        /// The rank's own part.
        from: Slice,
        /// The parts of all ranks.
        to: Slice,
    },
    /// The root's elements at all ranks.
    Broadcast {
        /// The elements, at the root.
        from: Slice,
        /// The copy.
        to: Slice,
        /// The rank that has the elements.
        root: usize,
    },
    /// Elements for another rank, which receives them.
    Send {
        /// The elements.
        from: Slice,
        /// The other rank.
        peer: usize,
    },
    /// Elements of another rank, which sends them.
    Receive {
        /// The copy.
        to: Slice,
        /// The other rank.
        peer: usize,
    },
}

impl Transfer {
    /// What is read and what is written.
    fn slices(&self) -> [Option<(Slice, bool)>; 2] {
        match *self {
            Transfer::AllReduce(slice, _) => [Some((slice, true)), None],
            Transfer::ReduceScatter { from, to }
            | Transfer::AllGather { from, to }
            | Transfer::Reduce { from, to, .. }
            | Transfer::Broadcast { from, to, .. } => [Some((from, false)), Some((to, true))],
            Transfer::Send { from, .. } => [Some((from, false)), None],
            Transfer::Receive { to, .. } => [Some((to, true)), None],
        }
    }
}

/// The addresses of an argument.
struct Bound {
    elem: Elem,
    writable: bool,
    start: u64,
    len: usize,
}

impl Bound {
    fn address(&self, slice: Slice) -> *mut c_void {
        (self.start + slice.first as u64 * u64::from(self.elem.bytes())) as *mut c_void
    }
}

impl Communicator {
    /// Submits transfers to a stream, together, after everything that uses the arguments so far. Returns once they are submitted. `go_on` is
    /// asked while NCCL works; if it is false, the communicator is ended.
    ///
    /// # Safety
    /// All ranks submit transfers that match, in the same order: the same kinds with the same numbers of elements of the same types, and
    /// to each `Send` a `Receive`.
    pub unsafe fn submit(
        &self,
        stream: &Stream,
        arguments: &mut [Argument<'_>],
        transfers: &[Transfer],
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        if stream.device() != self.device() {
            return Err(Error::refused("the stream is on another device than the rank"));
        }
        let mut order = Order::find(stream, &|_| "", arguments)?;
        let streams: Vec<Arc<CudaStream>> =
            arguments.iter().filter_map(crate::launch::stream_of_cudarc).collect();
        let (mut streams, mut tracked, mut bound) = (streams.iter(), Vec::new(), Vec::new());
        for argument in arguments.iter_mut() {
            let Kind::Tensor(lent) = &mut argument.kind else {
                return Err(Error::refused("only tensors are transferred"));
            };
            let (first, len) = lent.first();
            let (elem, writable) = (lent.elem, lent.buffer.is_writable());
            let start =
                first_byte(&mut lent.buffer, (first, len), &mut streams, &mut tracked, &mut order)? + first;
            bound.push(Bound { elem, writable, start, len: len as usize });
        }
        order.check_errors().doing("ordering what cudarc submitted before")?;
        transfers.iter().try_for_each(|transfer| self.check_bounds(transfer, &bound))?;
        order.before()?;
        // SAFETY: the addresses are inside of the arguments, which are borrowed for this call, and afterwards freed in the order of their
        // streams, which wait for the transfers from `after` on. The caller promises that ranks match.
        let submitted = unsafe { self.enqueue(stream, &bound, transfers, go_on) };
        if let Err(error) = submitted {
            // The communicator has ended, so no kernel waits for other ranks.
            let _ = stream.cuda().synchronize();
            return Err(error);
        }
        order.after(|| drop(tracked))?;
        Ok(())
    }

    fn check_bounds(&self, transfer: &Transfer, bound: &[Bound]) -> Result<(), Error> {
        for (Slice { argument, first, count }, written) in transfer.slices().into_iter().flatten() {
            let Some(bound) = bound.get(argument) else {
                return Err(Error::refused(format!(
                    "a transfer names argument {argument}, which is not given"
                )));
            };
            if first.checked_add(count).is_none_or(|end| end > bound.len) {
                let message = format!(
                    "elements {first} to {first} + {count} are transferred, and {} are there",
                    bound.len
                );
                return Err(Error::refused(message));
            }
            if written && !bound.writable {
                return Err(Error::refused("a transfer writes a tensor that was given for reading"));
            }
            data_type(bound.elem)?;
        }
        // The slice of one rank, the slice of all, and the number of ranks in it.
        let (one, all, ranks) = match *transfer {
            Transfer::ReduceScatter { from, to } => (to, from, self.ranks),
            Transfer::AllGather { from, to } => (from, to, self.ranks),
            Transfer::Reduce { from, to, .. } | Transfer::Broadcast { from, to, .. } => (from, to, 1),
            Transfer::AllReduce(..) | Transfer::Send { .. } | Transfer::Receive { .. } => return Ok(()),
        };
        if all.count != one.count * ranks || bound[one.argument].elem != bound[all.argument].elem {
            return Err(Error::refused(format!(
                "{} elements of {ranks} ranks are not {}",
                one.count, all.count
            )));
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Communicator::submit`], and each slice is inside of its argument.
    unsafe fn enqueue(
        &self,
        stream: &Stream,
        bound: &[Bound],
        transfers: &[Transfer],
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        const DOING: &str = "submitting a transfer";
        let cuda = stream.cuda();
        cuda.context().bind_to_thread().doing(DOING)?;
        let status = {
            let handle = self.locked();
            if handle.0.is_null() {
                return Err(failed(DOING, "the communicator was ended, because another rank failed"));
            }
            // SAFETY: a group is of this thread, and ends below.
            let mut status = unsafe { (self.library.group_start)() };
            for transfer in transfers {
                if status == SUCCESS || status == super::IN_PROGRESS {
                    // SAFETY: the caller's; the communicator is alive while its lock is held.
                    status = unsafe { self.add(transfer, bound, handle.0, cuda.cu_stream().cast()) };
                }
            }
            // SAFETY: the group began above.
            let ended = unsafe { (self.library.group_end)() };
            if status == SUCCESS || status == super::IN_PROGRESS { ended } else { status }
        };
        self.settle(DOING, status, go_on)
    }

    /// # Safety
    /// As for [`Communicator::enqueue`]; the communicator and the stream are alive.
    unsafe fn add(
        &self,
        transfer: &Transfer,
        bound: &[Bound],
        comm: *mut super::ncclComm,
        stream: cudarc::nccl::sys::cudaStream_t,
    ) -> super::Status {
        let at = |slice: Slice| bound[slice.argument].address(slice);
        let elem = |slice: Slice| data_type(bound[slice.argument].elem).unwrap_or(ncclDataType_t::ncclInt8);
        let library = self.library;
        // SAFETY: the caller's.
        unsafe {
            match *transfer {
                Transfer::AllReduce(s, combine) => {
                    let op = match combine {
                        Combine::Sum => ncclRedOp_t::ncclSum,
                        Combine::Max => ncclRedOp_t::ncclMax,
                    };
                    (library.all_reduce)(at(s), at(s), s.count, elem(s), op, comm, stream)
                }
                Transfer::ReduceScatter { from, to } => {
                    let op = ncclRedOp_t::ncclSum;
                    (library.reduce_scatter)(at(from), at(to), to.count, elem(from), op, comm, stream)
                }
                Transfer::Reduce { from, to, root } => {
                    let (op, root) = (ncclRedOp_t::ncclSum, root as c_int);
                    (library.reduce)(at(from), at(to), from.count, elem(from), op, root, comm, stream)
                }
                Transfer::AllGather { from, to } => {
                    (library.all_gather)(at(from), at(to), from.count, elem(from), comm, stream)
                }
                Transfer::Broadcast { from, to, root } => {
                    (library.broadcast)(at(from), at(to), to.count, elem(to), root as c_int, comm, stream)
                }
                Transfer::Send { from, peer } => {
                    (library.send)(at(from), from.count, elem(from), peer as c_int, comm, stream)
                }
                Transfer::Receive { to, peer } => {
                    (library.receive)(at(to), to.count, elem(to), peer as c_int, comm, stream)
                }
            }
        }
    }
}

fn data_type(elem: Elem) -> Result<ncclDataType_t, Refusal> {
    Ok(match elem {
        Elem::F64 => ncclDataType_t::ncclFloat64,
        Elem::F32 | Elem::Tf32 => ncclDataType_t::ncclFloat32,
        Elem::F16 => ncclDataType_t::ncclFloat16,
        Elem::Bf16 => ncclDataType_t::ncclBfloat16,
        Elem::I64 => ncclDataType_t::ncclInt64,
        Elem::U64 => ncclDataType_t::ncclUint64,
        Elem::I32 => ncclDataType_t::ncclInt32,
        Elem::U32 => ncclDataType_t::ncclUint32,
        Elem::I8 => ncclDataType_t::ncclInt8,
        Elem::U8 => ncclDataType_t::ncclUint8,
        elem => {
            return Err(Refusal::new(format!("NCCL does not transfer elements of {elem}"))
                .help("convert them to f32, f16 or bf16 first"));
        }
    })
}
