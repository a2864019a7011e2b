//! Tensor maps, for bulk copies. The driver's encoder refuses without a reason; here the reason is reported
//! first.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType_enum as Type, CUtensorMapFloatOOBfill_enum,
    CUtensorMapInterleave_enum, CUtensorMapL2promotion_enum, CUtensorMapSwizzle_enum as Swizzle,
};
use tilewright_program::Elem;
use tilewright_program::launch::{Map, Refusal};

use super::plans::Source;
use crate::error::{Error, While};

/// The encoder's limits, from NVIDIA's description of `cuTensorMapEncodeTiled`.
const MOST_MODES: usize = 5;
const ALIGNMENT: u64 = 16;
const MOST_EXTENT: u64 = 1 << 32;
const MOST_STRIDE: u64 = 1 << 40;
const MOST_BOX: u32 = 256;
const MOST_STEP: u32 = 8;

const DOING: &str = "describing a tensor for bulk copies";

/// Why the encoder would refuse, if it would.
pub(super) fn refusal(name: &str, map: &Map, elem: Elem, address: u64) -> Option<Refusal> {
    let say = |message: String| Some(Refusal::of(name, message));
    let modes = map.extents.len();
    let lists = [map.strides.len() + 1, map.tile.len(), map.steps.len()];
    if !(1..=MOST_MODES).contains(&modes) || lists != [modes; 3] {
        return say(format!("a tensor of {modes} modes cannot be copied in bulk: 1 to {MOST_MODES} can"));
    }
    if !address.is_multiple_of(ALIGNMENT) {
        let over = address % ALIGNMENT;
        return say(format!("it is copied in bulk, and begins {over} bytes past a multiple of {ALIGNMENT}"));
    }
    for (mode, &extent) in map.extents.iter().enumerate() {
        if !(1..=MOST_EXTENT).contains(&extent) {
            return say(format!("its extent {mode} is {extent}, and bulk copies take 1 to {MOST_EXTENT}"));
        }
    }
    for (at, &stride) in strides(map).iter().enumerate() {
        if !stride.is_multiple_of(ALIGNMENT) || stride >= MOST_STRIDE {
            return say(format!(
                "it is copied in bulk, and the stride of its mode {} is {stride} bytes: multiples of {ALIGNMENT} below \
                 2^40 can be",
                at + 1
            ));
        }
    }
    if let Some(step) = map.steps.iter().find(|step| !(1..=MOST_STEP).contains(*step)) {
        return say(format!(
            "a bulk copy takes every element, or one of 2 to {MOST_STEP}, and one of {step} is asked for"
        ));
    }
    if let Some(tile) = reach(map).iter().find(|tile| !(1..=MOST_BOX).contains(*tile)) {
        return say(format!(
            "a bulk copy moves boxes of 1 to {MOST_BOX} elements a side, and one of {tile} is asked for"
        ));
    }
    let row = map.tile[0] * elem.bytes();
    let most = if map.swizzle == 0 { u32::MAX } else { map.swizzle };
    if !u64::from(row).is_multiple_of(ALIGNMENT) || row > most {
        return say(format!(
            "a bulk copy's rows are {row} bytes: multiples of {ALIGNMENT}, at most {most}, can be"
        ));
    }
    None
}

/// Strides for the encoder, which requires multiples of 16 bytes even for a mode of extent 1, where the
/// stride is unused.
fn strides(map: &Map) -> Vec<u64> {
    let modes = map.strides.iter().zip(&map.extents[1..]);
    modes.map(|(&stride, &extent)| if extent == 1 { ALIGNMENT } else { stride }).collect()
}

/// The extents of the box from its first to its last element.
fn reach(map: &Map) -> Vec<u32> {
    map.tile
        .iter()
        .zip(&map.steps)
        .map(|(&tile, &step)| tile.saturating_sub(1) * step + tile.min(1))
        .collect()
}

fn data_type(elem: Elem) -> Type {
    match elem {
        Elem::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        Elem::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Elem::Tf32 => Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        Elem::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Elem::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Elem::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        Elem::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        // Copies do not compute: the width is enough.
        _ => match elem.bytes() {
            1 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
            2 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
            4 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
            _ => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        },
    }
}

/// Encodes the map of a tensor at an address. Errors name this argument.
pub fn encode(name: &str, map: &Map, elem: Elem, address: u64) -> Result<CUtensorMap, Error> {
    if let Some(refusal) = refusal(name, map, elem, address) {
        return Err(refusal.into());
    }
    let swizzle = match map.swizzle {
        32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        _ => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    let (strides, reach) = (strides(map), reach(map));
    let mut made = CUtensorMap { opaque: [0; 16] };
    // SAFETY: all arrays have as many items as there are modes, the strides one fewer, and live through the
    // call. The address is stored, not accessed.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut made,
            data_type(elem),
            map.extents.len() as u32,
            address as *mut std::ffi::c_void,
            map.extents.as_ptr(),
            strides.as_ptr(),
            reach.as_ptr(),
            map.steps.as_ptr(),
            CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    }
    .result()
    .doing(DOING)?;
    Ok(made)
}

/// A parameter that is a tensor map. It is encoded once; tensors elsewhere get a copy with their address.
pub(super) struct Mapped {
    name: String,
    map: Map,
    elem: Elem,
    pub(super) source: Source,
    /// As encoded for the first address.
    encoded: OnceLock<(u64, CUtensorMap)>,
}

impl Mapped {
    pub(super) fn new(name: &str, map: Map, elem: Elem, source: Source) -> Mapped {
        Mapped { name: name.into(), map, elem, source, encoded: OnceLock::new() }
    }

    /// The map of the tensor at an address.
    pub(super) fn at(&self, address: u64) -> Result<CUtensorMap, Error> {
        let Some(&(known, mut encoded)) = self.encoded.get() else {
            let encoded = encode(&self.name, &self.map, self.elem, address)?;
            // Another thread may have been faster, with another address.
            let _ = self.encoded.set((address, encoded));
            return Ok(encoded);
        };
        if address != known {
            // SAFETY: the map was encoded by the driver, and lives through the call. The address is stored, not accessed.
            unsafe { sys::cuTensorMapReplaceAddress(&mut encoded, address as *mut std::ffi::c_void) }
                .result()
                .doing(DOING)?;
        }
        Ok(encoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of 64 elements of 2 bytes, 128 bytes apart; boxes of 64 by 32, swizzled.
    fn right() -> Map {
        Map {
            arg: 0,
            extents: vec![64, 100],
            strides: vec![128],
            tile: vec![64, 32],
            steps: vec![1, 1],
            swizzle: 128,
        }
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Map, &mut u64), expected: &str) {
        let (mut map, mut address) = (right(), 1 << 20);
        change(&mut map, &mut address);
        let refusal = refusal("a", &map, Elem::Bf16, address).map(|refusal| refusal.to_string());
        assert_eq!(refusal.as_deref(), Some(expected));
    }

    #[test]
    fn the_encoder_would_take_it() {
        assert!(refusal("a", &right(), Elem::Bf16, 1 << 20).is_none());
        // One row: its stride is unused.
        let one = Map { extents: vec![64, 1], strides: vec![6], ..right() };
        assert!(refusal("a", &one, Elem::Bf16, 1 << 20).is_none());
        assert_eq!(strides(&one), [16]);
        let far = Map { extents: vec![64, 1], strides: vec![u64::MAX], ..right() };
        assert!(refusal("a", &far, Elem::Bf16, 1 << 20).is_none());
    }

    #[test]
    fn the_encoder_would_refuse() {
        check(
            |_, address| *address += 8,
            "argument `a`: it is copied in bulk, and begins 8 bytes past a multiple of 16",
        );
        check(
            |map, _| map.strides[0] = 130,
            "argument `a`: it is copied in bulk, and the stride of its mode 1 is 130 bytes: multiples of 16 below 2^40 \
             can be",
        );
        check(
            |map, _| map.strides[0] = 1 << 40,
            "argument `a`: it is copied in bulk, and the stride of its mode 1 is 1099511627776 bytes: multiples of 16 \
             below 2^40 can be",
        );
        check(
            |map, _| map.extents[1] = (1 << 32) + 1,
            "argument `a`: its extent 1 is 4294967297, and bulk copies take 1 to 4294967296",
        );
        check(
            |map, _| map.tile[1] = 257,
            "argument `a`: a bulk copy moves boxes of 1 to 256 elements a side, and one of 257 is asked for",
        );
        check(
            |map, _| map.tile[0] = 72,
            "argument `a`: a bulk copy's rows are 144 bytes: multiples of 16, at most 128, can be",
        );
        check(
            |map, _| (map.tile[0], map.swizzle) = (7, 0),
            "argument `a`: a bulk copy's rows are 14 bytes: multiples of 16, at most 4294967295, can be",
        );
        check(
            |map, _| {
                (map.extents, map.strides, map.tile) = (vec![8; 6], vec![16; 5], vec![8; 6]);
            },
            "argument `a`: a tensor of 6 modes cannot be copied in bulk: 1 to 5 can",
        );
    }
}
