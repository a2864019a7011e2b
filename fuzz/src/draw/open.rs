//! What is not drawn, because kernels with it are known to be wrong. Each goes as soon as that is mended.

/// Tiles of ragged partitions that vectors do not divide: the last vector passes the tile's end.
pub(crate) const RAGGED_VECTORS: bool = false;

/// Extents of 0 that do not make the grid empty: coordinate 0 is taken to be inside.
pub(crate) const EMPTY_WITH_BLOCKS: bool = false;

/// Reductions of fragments whose modes are nested: masks of edges that were taken over twice.
pub(crate) const NESTED_EDGES: bool = false;

/// Inputs whose strides let modes overlap: the simulator does not find their elements.
pub(crate) const OVERLAPPING_INPUTS: bool = false;

/// Held modes of views that can begin below 0: only the upper end is clamped.
pub(crate) const HELD_BELOW: bool = false;

/// Slots of rings that are released without a barrier of their readers: one lane of a warp speaks for all.
pub(crate) const RELEASE_BY_LANE: bool = false;

/// Held views in kernels that reduce: what stands beyond is taken for the copy's fill.
pub(crate) const HELD_AND_REDUCED: bool = false;
