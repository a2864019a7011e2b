//! Matrices of weights in the formats of model files, and their products on the CPU.

use crate::Result;
use tilewright::{bf16, f16};

/// How a file stores numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    F32,
    F16,
    Bf16,
    /// Blocks of 32: a scale in f16, and 32 integers of 8 bits.
    Q8,
    /// Blocks of 32: a scale and an offset in f16, and 32 integers of 4 bits. A byte has elements i and i + 16.
    Q4,
}

impl Format {
    /// Elements of a block, and its bytes.
    pub const fn block(self) -> (usize, usize) {
        match self {
            Format::F32 => (1, 4),
            Format::F16 | Format::Bf16 => (1, 2),
            Format::Q8 => (32, 2 + 32),
            Format::Q4 => (32, 2 + 2 + 16),
        }
    }

    /// The format for kernels: numbers are f16.
    pub fn on_device(self) -> Format {
        if matches!(self, Format::Q8 | Format::Q4) { self } else { Format::F16 }
    }
}

/// A matrix whose rows are contiguous. Without bytes it is random, of a model to be timed on a device.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub format: Format,
    pub rows: usize,
    pub columns: usize,
    pub bytes: Vec<u8>,
}

fn half(bytes: &[u8]) -> f32 {
    f16::from_bits(u16::from_le_bytes([bytes[0], bytes[1]])).to_f32()
}

impl Matrix {
    /// The bytes of a row.
    pub fn row_bytes(&self) -> usize {
        let (elements, bytes) = self.format.block();
        self.columns / elements * bytes
    }

    /// Checks that the columns are whole blocks, and that there are bytes for all rows.
    pub fn checked(self) -> Result<Matrix> {
        let Matrix { format, rows, columns, .. } = self;
        let (elements, bytes) = format.block();
        let expected = (columns / elements).checked_mul(bytes).and_then(|row| row.checked_mul(rows));
        if columns == 0
            || columns % elements != 0
            || Some(self.bytes.len()) != expected && !self.bytes.is_empty()
        {
            return Err(
                format!("{} bytes are no {rows}x{columns} matrix of {format:?}", self.bytes.len()).into()
            );
        }
        Ok(self)
    }

    /// The matrices as one: the rows of the first, then of the second, and so on.
    pub fn stacked(all: &[&Matrix]) -> Result<Matrix> {
        let [first, ..] = all else { return Err("no matrices to stack".into()) };
        if all.iter().any(|of| (of.format, of.columns) != (first.format, first.columns)) {
            return Err("matrices of one product have different formats or widths".into());
        }
        let bytes = all.iter().flat_map(|of| of.bytes.iter().copied()).collect();
        let rows = all.iter().map(|of| of.rows).sum();
        Matrix { format: first.format, rows, columns: first.columns, bytes }.checked()
    }

    /// Some of the rows.
    pub fn part(&self, rows: std::ops::Range<usize>) -> Matrix {
        let row = if self.bytes.is_empty() { 0 } else { self.row_bytes() };
        let bytes = self.bytes[rows.start * row..rows.end * row].to_vec();
        Matrix { rows: rows.len(), bytes, ..*self }
    }

    /// Embeddings that kernels read: of 16 bits, unless they are of 8.
    pub fn halved(&self) -> std::borrow::Cow<'_, Matrix> {
        if self.format != Format::Q4 {
            return std::borrow::Cow::Borrowed(self);
        }
        let halves = if self.bytes.is_empty() { Vec::new() } else { self.to_f32() };
        let bytes = crate::launch::bytes(halves.into_iter().map(f16::from_f32));
        std::borrow::Cow::Owned(Matrix { format: Format::F16, bytes, ..*self })
    }

    /// Orders the rows of each head as rotary embedding of halves has them: those with even numbers first.
    pub fn unpair(&mut self, head: usize) {
        if self.bytes.is_empty() {
            return;
        }
        let (row, half) = (self.row_bytes(), head / 2);
        let from = |at: usize| at / head * head + at % half * 2 + at % head / half;
        let rows = (0..self.rows).flat_map(|at| &self.bytes[from(at) * row..][..row]);
        self.bytes = rows.copied().collect();
    }

    /// A row in f32.
    pub fn row(&self, at: usize, out: &mut [f32]) {
        let row = &self.bytes[at * self.row_bytes()..][..self.row_bytes()];
        let (elements, bytes) = self.format.block();
        for (block, out) in row.chunks_exact(bytes).zip(out.chunks_exact_mut(elements)) {
            match self.format {
                Format::F32 => out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
                Format::F16 => out[0] = half(block),
                Format::Bf16 => out[0] = bf16::from_bits(u16::from_le_bytes([block[0], block[1]])).to_f32(),
                Format::Q8 => {
                    let scale = half(block);
                    let (Some(codes), Some(out)) = (block[2..].first_chunk(), out.first_chunk_mut()) else {
                        return;
                    };
                    scaled::<32>(codes, out, |code| scale * f32::from(code.cast_signed()));
                }
                Format::Q4 => {
                    let (scale, offset) = (half(block), half(&block[2..]));
                    let (low, high) = out.split_at_mut(16);
                    let (Some(codes), Some(low)) = (block[4..].first_chunk(), low.first_chunk_mut()) else {
                        return;
                    };
                    let Some(high) = high.first_chunk_mut() else { return };
                    scaled::<16>(codes, low, |code| scale * f32::from(code & 15) + offset);
                    scaled::<16>(codes, high, |code| scale * f32::from(code >> 4) + offset);
                }
            }
        }
    }

    /// All elements in f32.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut all = vec![0.0; self.rows * self.columns];
        for (at, row) in all.chunks_exact_mut(self.columns).enumerate() {
            self.row(at, row);
        }
        all
    }

    /// x·Wᵀ for the rows of `x`, by all cores.
    pub fn times(&self, x: &[f32]) -> Vec<f32> {
        let (count, mut columns) = (x.len() / self.columns, Vec::new());
        columns.resize(self.rows * count, 0.0);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = self.rows.div_ceil(cores).max(1);
        std::thread::scope(|scope| {
            for (part, out) in columns.chunks_mut(share * count.max(1)).enumerate() {
                scope.spawn(move || self.columns_of(x, part * share, count, out));
            }
        });
        let transposed = (0..count).flat_map(|token| columns.iter().skip(token).step_by(count));
        transposed.copied().collect()
    }

    /// Columns of x·Wᵀ, from `first` on.
    fn columns_of(&self, x: &[f32], first: usize, count: usize, out: &mut [f32]) {
        let mut row = vec![0.0; self.columns];
        for (at, out) in out.chunks_exact_mut(count).enumerate() {
            self.row(first + at, &mut row);
            for (out, x) in out.iter_mut().zip(x.chunks_exact(self.columns)) {
                *out = dot(&row, x);
            }
        }
    }
}

/// Numbers of codes. Their number is known to the compiler, which computes several at once.
fn scaled<const N: usize>(codes: &[u8; N], out: &mut [f32; N], of: impl Fn(u8) -> f32) {
    for (out, code) in out.iter_mut().zip(codes) {
        *out = of(*code);
    }
}

/// A dot product, in sixteen sums that the compiler keeps in vector registers.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, rest_of_a), (b, rest_of_b)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut sums = [0.0f32; 16];
    for (a, b) in a.iter().zip(b) {
        for at in 0..16 {
            sums[at] += a[at] * b[at];
        }
    }
    let rest: f32 = rest_of_a.iter().zip(rest_of_b).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
