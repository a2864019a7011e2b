//! Memory-bound works: their tensors, compulsory traffic, and launches.

use tilewright::kernels::memory::{self, Work};
use tilewright_codegen::Elem;

/// A work of one size.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) work: Job,
    pub(crate) elem: Elem,
    /// Rows and columns.
    pub(crate) sizes: [i64; 2],
}

/// The operation; a job may be several launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// One launch of a kernel, or two where few, long rows are divided into pieces.
    One(Work),
    /// The sums of columns: partial sums, and the sums of the partial sums.
    ColumnSums,
    /// The histogram of equal numbers.
    EqualHistogram,
}

/// The initial contents of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Random elements.
    Random,
    /// Random integers from 0 on, less than this.
    Below(u64),
    /// Integers from 0 on, less than this, each at most once, in an order without locality.
    Distinct(u64),
    /// Zeros, to which is added.
    Zeros,
    /// Poison, which is overwritten.
    Poison,
}

/// One tensor: element type, extents, strides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    /// The memory that it is in.
    pub(crate) memory: usize,
    pub(crate) extents: Vec<i64>,
    pub(crate) strides: Vec<i64>,
}

/// An argument of a launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    Tensor(Tensor),
    Scalar(f64),
}

/// A launch: the chooser's kernel, and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) kernel: memory::Choice,
    pub(crate) given: Vec<Given>,
}

/// Names of works, and their default sizes.
pub(crate) const WORKS: &[(&str, Job, &[[i64; 2]])] = &[
    ("transpose", Job::One(Work::Transpose), &[[16384, 8192], [4096, 4097]]),
    ("softmax", Job::One(Work::Softmax), NORMS),
    ("layernorm", Job::One(Work::Layernorm), NORMS),
    ("rmsnorm", Job::One(Work::Rmsnorm), NORMS),
    ("row_sums", Job::One(Work::RowSums), ROWS),
    ("column_sums", Job::ColumnSums, &[[16384, 8192], [65536, 128]]),
    ("sum", Job::One(Work::Sum), &[[16384, 8192]]),
    (
        "cumulative_sums",
        Job::One(Work::CumulativeSums),
        &[[16384, 8192], [64, 262144], [65536, 128], [4096, 4097]],
    ),
    ("gemv", Job::One(Work::Gemv), &[[4096, 4096], [28672, 8192]]),
    ("gravity", Job::One(Work::Gravity), &[[4, 65536]]),
    ("gather", Job::One(Work::Gather), &[[32768, 1024]]),
    ("histogram", Job::One(Work::Histogram), &[[2048, 32768]]),
    ("histogram_of_equal", Job::EqualHistogram, &[[2048, 32768]]),
    ("stencil_5", Job::One(Work::Stencil5), &[[8192, 8192]]),
    ("stencil_7", Job::One(Work::Stencil7), &[[512, 512]]),
];
const ROWS: &[[i64; 2]] = &[[16384, 8192], [65536, 128], [4096, 4097]];
const NORMS: &[[i64; 2]] = &[[16384, 8192], [65536, 128], [64, 262144], [4096, 4097]];

/// Rows of the table for each gathered row.
const TABLE: i64 = 4;
/// Elements of the smallest pieces of rows.
const LEAST_PIECE: usize = 1024;
/// Bins of a histogram.
const BINS: i64 = 256;
/// Factors of an element and of its neighbours.
const STENCIL: [f64; 2] = [0.5, 0.125];

/// Partial sums of each column.
fn pieces(elem: Elem, rows: i64, columns: i64) -> i64 {
    memory::pieces(elem, rows as usize, columns as usize) as i64
}

impl Task {
    pub(crate) fn name(&self) -> &'static str {
        WORKS.iter().find(|(_, job, _)| *job == self.work).map_or("", |row| row.0)
    }

    /// Is there a kernel for it?
    pub(crate) fn exists(&self) -> bool {
        let one_type = match self.work {
            Job::One(work) => work.has_one_type(),
            Job::EqualHistogram => true,
            _ => false,
        };
        !one_type || self.elem == Elem::F32
    }

    /// Its size, as people write it.
    pub(crate) fn problem(&self) -> String {
        let [m, n] = self.sizes;
        match self.work {
            Job::One(Work::Gather) => format!("{m}x{n} from {}x{n}", TABLE * m),
            Job::One(Work::Stencil7) => format!("{m}x{m}x{n}"),
            _ => format!("{m}x{n}"),
        }
    }

    /// Two launches, if they are faster than one.
    fn in_pieces(&self) -> Option<memory::InPieces> {
        let Job::One(work) = self.work else { return None };
        memory::in_pieces(work, self.elem, self.sizes[0] as usize, self.sizes[1] as usize)
    }

    /// Element types and lengths of all memories: inputs first, then results, then workspace.
    pub(crate) fn memories(&self) -> (Vec<(Elem, i64)>, usize) {
        let (mut memories, result) = self.memories_of_one();
        // Alternatives may have smaller pieces.
        let pieces = |[rows, pieces]: [usize; 2]| {
            rows as i64 * pieces.max(self.sizes[1] as usize / LEAST_PIECE + 2) as i64
        };
        memories.extend(self.in_pieces().map(|two| (Elem::F32, pieces(two.sums))));
        (memories, result)
    }

    /// Without the sums of pieces.
    fn memories_of_one(&self) -> (Vec<(Elem, i64)>, usize) {
        let [m, n] = self.sizes;
        let (elem, all) = (self.elem, m * n);
        match self.work {
            Job::One(Work::Transpose | Work::Softmax | Work::CumulativeSums | Work::SumsBefore) => {
                (vec![(elem, all), (elem, all)], 1)
            }
            Job::One(Work::Layernorm) => (vec![(elem, all), (elem, n), (elem, n), (elem, all)], 3),
            Job::One(Work::Rmsnorm) => (vec![(elem, all), (elem, n), (elem, all)], 2),
            Job::One(Work::RowSums) => (vec![(elem, all), (Elem::F32, m)], 1),
            Job::One(Work::Gemv) => (vec![(elem, all), (elem, n), (elem, m)], 2),
            Job::One(Work::Gravity) => (vec![(elem, 4 * n), (elem, 3 * n)], 1),
            Job::One(Work::ColumnSums) | Job::ColumnSums => {
                (vec![(elem, all), (Elem::F32, n), (Elem::F32, pieces(elem, m, n) * n)], 1)
            }
            Job::One(Work::Sum) => (vec![(elem, all), (Elem::F32, 1), (Elem::U64, self.parts())], 1),
            Job::One(Work::Gather) => (vec![(elem, TABLE * all), (Elem::I32, m), (elem, all)], 2),
            Job::One(Work::Histogram) | Job::EqualHistogram => (vec![(Elem::I32, all), (Elem::I32, BINS)], 1),
            Job::One(Work::Stencil5) => (vec![(elem, all), (elem, all)], 1),
            Job::One(Work::Stencil7) => (vec![(elem, m * all), (elem, m * all)], 1),
        }
    }

    /// The contents of memory before a launch.
    pub(crate) fn contents(&self, memory: usize) -> Contents {
        match (self.work, memory) {
            (Job::One(Work::Gather), 1) => Contents::Distinct((TABLE * self.sizes[0]) as u64),
            (Job::One(Work::Histogram), 0) => Contents::Below(BINS as u64),
            (Job::EqualHistogram, 0) => Contents::Below(1),
            (Job::One(Work::Histogram) | Job::EqualHistogram, 1) | (Job::One(Work::Sum), 2) => {
                Contents::Zeros
            }
            _ if memory >= self.memories().1 => Contents::Poison,
            _ => Contents::Random,
        }
    }

    /// Compulsory traffic in bytes: inputs and results, once; of a table only the rows that are gathered.
    pub(crate) fn bytes(&self) -> i64 {
        let (mut memories, result) = self.memories();
        if self.work == Job::One(Work::Gather) {
            memories[0].1 /= TABLE;
        }
        memories[..=result].iter().map(|(elem, count)| i64::from(elem.bytes()) * count).sum()
    }

    /// Operations, for compute-bound works.
    pub(crate) fn operations(&self) -> f64 {
        let [m, n] = self.sizes.map(|n| n as f64);
        match self.work {
            Job::One(Work::Gravity) => 20.0 * n * n,
            Job::One(Work::Gemv) => 2.0 * m * n,
            _ => 0.0,
        }
    }

    /// The largest relative error that rounding explains.
    pub(crate) fn bound(&self) -> f64 {
        let (memories, result) = self.memories();
        match (self.work, memories[result].0) {
            (Job::One(Work::Transpose | Work::Gather), _) | (_, Elem::I32) => 0.0,
            (_, Elem::Bf16) => 5e-3,
            (_, Elem::F16) => 1e-3,
            _ => 2e-5,
        }
    }

    /// The least magnitude to which an error is relative: of a sum of everything, its standard deviation.
    pub(crate) fn magnitude(&self) -> f64 {
        match self.work {
            Job::One(Work::Sum) => (self.sizes.iter().product::<i64>() as f64 / 3.0).sqrt(),
            _ => 0.0,
        }
    }

    /// The reference in `references.cu`, and its arguments besides the memories up to the result.
    pub(crate) fn reference(&self) -> (&'static str, Vec<u64>) {
        let [m, n] = self.sizes.map(|n| n as u64);
        let factors = STENCIL.map(f64::to_bits);
        match self.work {
            Job::One(Work::Transpose) => ("transposed", vec![m, n]),
            Job::One(Work::Softmax) => ("softmax", vec![m, n]),
            Job::One(Work::Layernorm) => ("layernorm", vec![m, n]),
            Job::One(Work::Rmsnorm) => ("rmsnorm", vec![m, n]),
            Job::One(Work::RowSums) => ("row_sums_of", vec![m, n]),
            Job::One(Work::Sum) => ("row_sums_of", vec![1, m * n]),
            Job::One(Work::Gemv) => ("matrix_vector", vec![m, n]),
            Job::One(Work::Gravity) => ("attraction", vec![n]),
            Job::One(Work::CumulativeSums | Work::SumsBefore) => ("cumulative_sums_of", vec![m, n]),
            Job::One(Work::ColumnSums) | Job::ColumnSums => ("column_sums_of", vec![m, n]),
            Job::One(Work::Gather) => ("gathered", vec![m, n]),
            Job::One(Work::Histogram) | Job::EqualHistogram => ("counts_of", vec![m * n]),
            Job::One(Work::Stencil5) => ("stencil", [&[1, m, n], &factors[..]].concat()),
            Job::One(Work::Stencil7) => ("stencil", [&[m, m, n], &factors[..]].concat()),
        }
    }

    /// The launches.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let all = self.steps_of_one();
        let (Some(two), [one]) = (self.in_pieces(), &all[..]) else { return all };
        let [rows, pieces] = two.sums.map(|n| n as i64);
        let sums = tensor(self.memories().0.len() - 1, [rows, pieces], [pieces, 1]);
        let of = |inputs: usize| [&one.given[..inputs], std::slice::from_ref(&sums)].concat();
        let [first, second] = two.kernels;
        // The result, and numbers.
        let rest = &one.given[self.memories().1..];
        vec![
            Step { kernel: first, given: of(two.inputs[0]) },
            Step { kernel: second, given: [&of(two.inputs[1]), rest].concat() },
        ]
    }

    /// Divides rows into pieces of this many elements.
    pub(crate) fn in_tiles(&self, given: &mut [Given], piece: i64) {
        let last = self.memories().0.len() - 1;
        for given in given {
            if let Given::Tensor(sums) = given
                && sums.memory == last
            {
                let pieces = (self.sizes[1] + 16 / i64::from(self.elem.bytes()) - 2) / piece + 1;
                (sums.extents[1], sums.strides[0]) = (pieces, pieces);
            }
        }
    }

    /// The launches without pieces of rows.
    fn steps_of_one(&self) -> Vec<Step> {
        let [m, n] = self.sizes;
        let one_work = if let Job::One(work) = self.work { Some(work) } else { None };
        let is_dense =
            one_work.is_some_and(|work| memory::choose(work, self.elem, m as usize, n as usize).is_dense);
        let matrix = |memory| match is_dense {
            true => tensor(memory, [m * n], [1]),
            false => tensor(memory, [m, n], [n, 1]),
        };
        let line = |memory| tensor(memory, [1, n], [n, 1]);
        let column = |memory| tensor(memory, [m, 1], [1, m]);
        let one =
            |work, given| Step { kernel: memory::choose(work, self.elem, m as usize, n as usize), given };
        let more = |work, rows: i64, columns: i64, given| Step {
            kernel: memory::choose(work, Elem::F32, rows as usize, columns as usize),
            given,
        };
        let numbers = [Given::Scalar(1e-5)];
        let factors = STENCIL.map(Given::Scalar);
        match self.work {
            Job::One(work @ Work::Transpose) => {
                vec![one(work, vec![matrix(0), tensor(1, [m, n], [1, m])])]
            }
            Job::One(work @ Work::Softmax) => vec![one(work, vec![matrix(0), matrix(1)])],
            Job::One(work @ Work::Layernorm) => {
                vec![one(work, [&[matrix(0), line(1), line(2), matrix(3)], &numbers[..]].concat())]
            }
            Job::One(work @ Work::Rmsnorm) => {
                vec![one(work, [&[matrix(0), line(1), matrix(2)], &numbers[..]].concat())]
            }
            Job::One(work @ Work::RowSums) => vec![one(work, vec![matrix(0), column(1)])],
            Job::One(work @ Work::Gemv) => vec![one(work, vec![matrix(0), line(1), column(2)])],
            Job::One(work @ Work::Gravity) => {
                let given = vec![
                    tensor(0, [n, 4], [1, n]),
                    tensor(0, [4, n], [n, 1]),
                    tensor(1, [n, 3], [1, n]),
                    Given::Scalar(1e-3),
                ];
                vec![one(work, given)]
            }
            Job::One(work @ Work::Gather) => {
                let table = tensor(0, [TABLE * m, n], [n, 1]);
                vec![one(work, vec![table, tensor(1, [m], [1]), matrix(2)])]
            }
            Job::One(Work::Histogram) | Job::EqualHistogram => {
                let given = vec![tensor(0, [n * m], [1]), tensor(1, [BINS], [1])];
                vec![one(Work::Histogram, given)]
            }
            Job::One(work @ Work::Stencil5) => {
                vec![one(work, [&[matrix(0), matrix(1)], &factors[..]].concat())]
            }
            Job::One(work @ Work::Stencil7) => {
                let cube = |memory| tensor(memory, [m, m, n], [m * n, n, 1]);
                vec![one(work, [&[cube(0), cube(1)], &factors[..]].concat())]
            }
            Job::One(Work::ColumnSums) | Job::ColumnSums => {
                let pieces = pieces(self.elem, m, n);
                let from = tensor(0, [n, m], [1, n]);
                let to = if pieces == 1 { 1 } else { 2 };
                let first = one(Work::ColumnSums, vec![from, tensor(to, [n, pieces], [1, n])]);
                if pieces == 1 {
                    return vec![first];
                }
                let between = tensor(2, [n, pieces], [1, n]);
                let given = vec![between, tensor(1, [n, 1], [1, n])];
                vec![first, more(Work::ColumnSums, pieces, n, given)]
            }
            Job::One(work @ (Work::CumulativeSums | Work::SumsBefore)) => {
                vec![one(work, vec![matrix(0), matrix(1)])]
            }
            Job::One(work @ Work::Sum) => {
                let words = tensor(2, [self.parts()], [1]);
                vec![one(work, vec![tensor(0, [1, m * n], [m * n, 1]), tensor(1, [1], [1]), words])]
            }
        }
    }

    /// The words that the blocks of a sum write.
    fn parts(&self) -> i64 {
        memory::parts(self.elem, (self.sizes[0] * self.sizes[1]) as usize) as i64
    }
}

fn tensor<const N: usize>(memory: usize, extents: [i64; N], strides: [i64; N]) -> Given {
    Given::Tensor(Tensor { memory, extents: extents.to_vec(), strides: strides.to_vec() })
}
