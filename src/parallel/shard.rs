//! Which part of a layer each rank has: plain numbers, for any number of ranks, without a device.

use std::ops::Range;

use super::Error;

/// The parts of a mode, one for each rank, in order. Parts are multiples of 64 elements where that leaves no rank without any, so that tiles
/// and vectors stay aligned; the last part has the remainder.
///
/// ```
/// use tilewright::parallel::Shards;
///
/// let shards = Shards::new(1000, 3)?;
/// assert_eq!(shards.ranges(), [0..384, 384..704, 704..1000]);
/// # Ok::<(), tilewright::parallel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    ranges: Vec<Range<usize>>,
}

impl Shards {
    /// The parts of a mode of this extent.
    pub fn new(extent: usize, ranks: usize) -> Result<Shards, Error> {
        if ranks == 0 || extent < ranks {
            let message = format!("{extent} elements cannot be divided among {ranks} ranks");
            return Err(Error::refused(message, "use at most as many ranks as there are elements"));
        }
        let grain =
            [64, 32, 16, 8, 4, 2, 1].into_iter().find(|grain| extent.div_ceil(*grain) >= ranks).unwrap_or(1);
        let units = extent.div_ceil(grain);
        let bound = |rank: usize| ((units / ranks * rank + rank.min(units % ranks)) * grain).min(extent);
        Ok(Shards { ranges: (0..ranks).map(|rank| bound(rank)..bound(rank + 1)).collect() })
    }

    /// All parts.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// A rank's part.
    pub fn of(&self, rank: usize) -> Range<usize> {
        self.ranges[rank].clone()
    }

    /// Have all ranks the same number of elements?
    pub fn is_even(&self) -> bool {
        self.ranges.iter().all(|range| range.len() == self.ranges[0].len())
    }
}

/// The heads of attention that each rank has. Heads of queries are divided as evenly as possible. A rank has the heads of keys that its heads
/// of queries belong to, so two ranks may have the same head of keys.
///
/// ```
/// use tilewright::parallel::Heads;
///
/// // 8 heads of queries and 2 heads of keys, on 3 ranks.
/// let heads = Heads::new([8, 2], 3)?;
/// assert_eq!((heads.queries(1), heads.keys(1)), (3..6, 0..2));
/// // Rank 1 has one head of queries for the first of its heads of keys, and two for the second.
/// let parts = heads.parts(1);
/// assert_eq!((parts[0].queries.clone(), parts[0].keys.clone()), (0..1, 0..1));
/// assert_eq!((parts[1].queries.clone(), parts[1].keys.clone()), (1..3, 1..2));
/// # Ok::<(), tilewright::parallel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads {
    group: usize,
    queries: Vec<Range<usize>>,
}

/// Heads of a rank that one launch computes: each head of keys has the same number of heads of queries. Numbers count the heads
/// of the rank's own tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadPart {
    /// Heads of queries.
    pub queries: Range<usize>,
    /// Heads of keys.
    pub keys: Range<usize>,
}

impl Heads {
    /// The heads of queries and of keys, and the number of ranks.
    pub fn new([queries, keys]: [usize; 2], ranks: usize) -> Result<Heads, Error> {
        if keys == 0 || !queries.is_multiple_of(keys) || ranks == 0 || queries < ranks {
            let message = format!(
                "{queries} heads of queries and {keys} heads of keys cannot be divided among {ranks} ranks"
            );
            let help = "heads of queries are a multiple of heads of keys, and each rank has at least one";
            return Err(Error::refused(message, help));
        }
        let (group, bound) =
            (queries / keys, |rank: usize| queries / ranks * rank + rank.min(queries % ranks));
        let queries = (0..ranks).map(|rank| bound(rank)..bound(rank + 1)).collect();
        Ok(Heads { group, queries })
    }

    /// The heads of queries of a rank.
    pub fn queries(&self, rank: usize) -> Range<usize> {
        self.queries[rank].clone()
    }

    /// The heads of keys of a rank.
    pub fn keys(&self, rank: usize) -> Range<usize> {
        let queries = &self.queries[rank];
        queries.start / self.group..queries.end.div_ceil(self.group)
    }

    /// The launches of a rank: heads of keys with all their heads of queries are one, and each other head of keys is one.
    pub fn parts(&self, rank: usize) -> Vec<HeadPart> {
        let (queries, keys) = (self.queries(rank), self.keys(rank));
        let mut parts = Vec::<HeadPart>::new();
        for key in keys.clone() {
            let own = (key * self.group).max(queries.start)..((key + 1) * self.group).min(queries.end);
            let own = own.start - queries.start..own.end - queries.start;
            let key = key - keys.start;
            match parts.last_mut() {
                Some(last)
                    if last.queries.len() == self.group * last.keys.len() && own.len() == self.group =>
                {
                    (last.queries.end, last.keys.end) = (own.end, key + 1);
                }
                _ => parts.push(HeadPart { queries: own, keys: key..key + 1 }),
            }
        }
        parts
    }
}

/// The chunks of rows of a product. The transfer of a chunk runs beside the product of the next one. There are at most 8, and each has at
/// least 1024 rows and 8 MiB of results. All but the last are equal and multiples of 128 rows.
///
/// ```
/// use tilewright::parallel::chunks;
///
/// assert_eq!(chunks(64, 16384, None), [0..64]);
/// assert_eq!(chunks(4096, 16384, None), [0..1024, 1024..2048, 2048..3072, 3072..4096]);
/// assert_eq!(chunks(1000, 16384, Some(3)), [0..384, 384..768, 768..1000]);
/// ```
pub fn chunks(rows: usize, bytes_of_row: usize, count: Option<usize>) -> Vec<Range<usize>> {
    const ROWS: usize = 128;
    let by_bytes = rows.saturating_mul(bytes_of_row) / (8 << 20);
    let count = count.unwrap_or_else(|| (rows / 1024).min(by_bytes).min(8)).max(1);
    let step = rows.div_ceil(count).next_multiple_of(ROWS);
    let starts = (0..rows.max(1)).step_by(step);
    starts.map(|start| start..(start + step).min(rows)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_in_one_part() {
        for ranks in 1..=65 {
            for extent in (ranks..300).chain([1000, 4096, 28672, 128_256]) {
                let shards = Shards::new(extent, ranks).unwrap();
                let mut end = 0;
                for range in shards.ranges() {
                    assert!(range.start == end && !range.is_empty(), "{extent} among {ranks}: {shards:?}");
                    end = range.end;
                }
                assert_eq!(end, extent);
            }
        }
        assert!(
            Shards::new(3, 4)
                .unwrap_err()
                .to_string()
                .starts_with("3 elements cannot be divided among 4 ranks\nhelp: ")
        );
    }

    #[test]
    fn every_head_of_queries_is_computed_once_with_its_keys() {
        for (queries, keys) in [(8, 2), (8, 8), (12, 1), (32, 8), (6, 3), (7, 7), (64, 4)] {
            for ranks in 1..=queries {
                let heads = Heads::new([queries, keys], ranks).unwrap();
                let mut seen = Vec::new();
                for rank in 0..ranks {
                    for part in heads.parts(rank) {
                        assert!(part.queries.len().is_multiple_of(part.keys.len()));
                        let each = part.queries.len() / part.keys.len();
                        for (index, query) in part.queries.clone().enumerate() {
                            let key = heads.keys(rank).start + part.keys.start + index / each;
                            seen.push((heads.queries(rank).start + query, key));
                        }
                    }
                }
                let expected: Vec<_> = (0..queries).map(|query| (query, query / (queries / keys))).collect();
                assert_eq!(seen, expected, "{queries} and {keys} heads among {ranks}");
            }
        }
        assert!(Heads::new([8, 3], 2).is_err() && Heads::new([8, 8], 9).is_err());
    }

    #[test]
    fn chunks_cover_all_rows() {
        for rows in (1..400).chain([4096, 8191, 100_000]) {
            for count in [None, Some(1), Some(2), Some(7), Some(100)] {
                let all = chunks(rows, 8192, count);
                assert!(all.iter().all(|range| !range.is_empty()));
                assert!(
                    all.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len() >= pair[1].len())
                );
                assert_eq!((all[0].start, all[all.len() - 1].end), (0, rows));
            }
        }
    }
}
