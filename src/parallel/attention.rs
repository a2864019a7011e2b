//! Attention whose heads are divided among ranks.

use super::{Error, Heads};
use crate::models::{self, Half, Mask};
use crate::{Stream, TensorMut, TensorRef};

/// [`models::attention`] of a rank's heads, without transfers. `q` and `o` have the rank's heads of queries
/// ([`Heads::queries`]), `k` and `v` its heads of keys ([`Heads::keys`]).
pub fn attention<T: Half>(
    heads: &Heads,
    rank: usize,
    stream: &Stream,
    scale: f32,
    mask: Mask,
    q: TensorRef<'_, T, 4>,
    [k, v]: [TensorRef<'_, T, 4>; 2],
    mut o: TensorMut<'_, T, 4>,
) -> Result<(), Error> {
    let expected = [heads.queries(rank).len(), heads.keys(rank).len(), heads.keys(rank).len()];
    let actual = [&q, &k, &v].map(|tensor| tensor.shape()[2]);
    if actual != expected {
        let message =
            format!("queries, keys and values have {actual:?} heads, and rank {rank} has {expected:?}");
        return Err(Error::refused(message, "give the heads of this rank: `Heads` says which they are"));
    }
    for part in heads.parts(rank) {
        let q = q.clone().part(2, part.queries.clone());
        let kv = [&k, &v].map(|tensor| tensor.clone().part(2, part.keys.clone()));
        let o = TensorMut::from(&mut o).part(2, part.queries);
        models::attention(stream, scale, mask, q, kv, o, None)?;
    }
    Ok(())
}
