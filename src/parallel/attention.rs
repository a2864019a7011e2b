//! Attention whose heads are divided among ranks.

use super::{Error, HeadPart};
use crate::models::{self, Half, Mask};
use crate::{Stream, TensorMut, TensorRef};

/// [`models::attention`] of a rank's heads, without transfers: `parts` is [`Heads::parts`](super::Heads::parts) of the rank. `q` and `o` have
/// its heads of queries, `k` and `v` its heads of keys.
pub fn attention<T: Half>(
    stream: &Stream,
    parts: &[HeadPart],
    scale: f32,
    mask: Mask,
    q: TensorRef<'_, T, 4>,
    [k, v]: [TensorRef<'_, T, 4>; 2],
    mut o: TensorMut<'_, T, 4>,
) -> Result<(), Error> {
    let [queries, keys] = parts.last().map_or([0, 0], |part| [part.queries.end, part.keys.end]);
    let (expected, actual) = ([queries, keys, keys, queries], [q.shape(), k.shape(), v.shape(), o.shape()]);
    let actual = actual.map(|shape| shape[2]);
    if actual != expected {
        let message = format!("q, k, v and o have {actual:?} heads, and the rank's parts have {expected:?}");
        return Err(Error::refused(message, "give the heads of this rank: `Heads` says which they are"));
    }
    for part in parts {
        let q = q.clone().part(2, part.queries.clone());
        let kv = [&k, &v].map(|tensor| tensor.clone().part(2, part.keys.clone()));
        let o = TensorMut::from(&mut o).part(2, part.queries.clone());
        models::attention(stream, scale, mask, q, kv, o, None)?;
    }
    Ok(())
}
