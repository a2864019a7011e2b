//! Registers that roles pass to each other (setmaxnreg). All warps of a group of four change their number together.

/// How the registers of a block are divided among its roles.
#[derive(Debug)]
pub struct RegisterPool {
    /// Warps that change their number of registers together.
    pub warps: u32,
    /// Registers of a producer thread where consumers take the others: fewer where consumers then have more.
    pub producer: [u32; 2],
    /// Registers of a producer thread where consumers need registers for fragments too.
    pub producer_beside_fragments: u32,
    /// Registers of a thread of the group that computes further tiles, where consumers take the others.
    pub transform: u32,
    /// The most registers of a consumer thread: 255 can be addressed, in multiples of 8.
    pub most: u32,
}

/// The pool of sm_90.
pub const REGISTER_POOL: RegisterPool =
    RegisterPool { warps: 4, producer: [40, 32], producer_beside_fragments: 24, transform: 56, most: 240 };
