//! What linear layers have in common: parts of weights, checks, and the rows of each step of a transfer.

use std::ops::Range;

use super::{Error, Float, Shards, chunks};
use crate::{Argument, DeviceTensor, HostRef, Stream, TensorRef};

/// A rank's part of a matrix, row-major on the rank's device.
pub(super) fn upload<T: Float>(
    stream: &Stream,
    matrix: HostRef<'_, T, 2>,
    [rows, columns]: [Range<usize>; 2],
) -> Result<DeviceTensor<T, 2>, Error> {
    let extents = [rows.len(), columns.len()];
    let values: Vec<T> =
        rows.flat_map(|row| columns.clone().map(move |column| matrix.at([row, column]))).collect();
    Ok(DeviceTensor::from_elements(stream, extents, [extents[1], 1], &values)?)
}

pub(super) fn upload_vector<T: Float>(
    stream: &Stream,
    vector: HostRef<'_, T, 1>,
    part: Range<usize>,
) -> Result<DeviceTensor<T, 1>, Error> {
    let values: Vec<T> = part.map(|at| vector.at([at])).collect();
    Ok(DeviceTensor::from_elements(stream, [values.len()], [1], &values)?)
}

/// Refuses a tensor of other extents.
pub(super) fn has_extents(what: &str, actual: &[usize], expected: &[usize]) -> Result<(), Error> {
    if actual == expected {
        return Ok(());
    }
    let text = |extents: &[usize]| extents.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
    let message = format!("{what} is {}, and {} is expected", text(actual), text(expected));
    Err(Error::refused(
        message,
        "give the part of this rank: `shards` of the layer has the parts of all ranks",
    ))
}

/// Refuses a tensor that is not one piece of rows, since it is transferred as it is stored.
pub(super) fn is_packed<T: Float>(
    what: &str,
    tensor: TensorRef<'_, T, 2>,
    extents: [usize; 2],
) -> Result<(), Error> {
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

/// The rows of each rank's part that are transferred together: chunks of the longest part, as far as others have them.
pub(super) fn steps(shards: &Shards, bytes_of_row: usize, count: Option<usize>) -> Vec<Vec<Range<usize>>> {
    let longest = shards.ranges().iter().map(Range::len).max().unwrap_or(0);
    let all = chunks(longest, bytes_of_row * shards.ranges().len(), count);
    let cut = |chunk: &Range<usize>, len: usize| chunk.start.min(len)..chunk.end.min(len);
    all.iter().map(|chunk| shards.ranges().iter().map(|part| cut(chunk, part.len())).collect()).collect()
}
