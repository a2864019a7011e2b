//! The analyses against brute force, against each other, and against hardware counters.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tilewright_layout::{Composed, Layout, SharedTile, Swizzle, Transfer, Tuple, WarpAccess, layout};

const TRANSFERS: [Transfer; 3] = [Transfer::Load, Transfer::Store, Transfer::Matrix];

/// The groups of lanes, by the table in the documentation.
fn groups(addresses: &[Option<i64>; 32], bytes: i64, transfer: Transfer) -> Vec<Vec<i64>> {
    let alike = |flip: usize| {
        (0..32).all(|lane| match (addresses[lane], addresses[lane ^ flip]) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        })
    };
    let merged = transfer == Transfer::Load && bytes > 4 && (alike(1) || alike(2));
    let lanes = (if bytes > 4 { 128 / bytes as usize } else { 32 }) << usize::from(merged);
    let all = addresses.chunks(lanes).map(|group| group.iter().flatten().copied().collect());
    all.filter(|group: &Vec<i64>| !group.is_empty()).collect()
}

/// The distinct words of each bank that a group accesses.
fn words(group: &[i64], bytes: i64) -> Vec<BTreeSet<i64>> {
    let mut banks = vec![BTreeSet::new(); 32];
    for byte in group.iter().flat_map(|address| *address..address + bytes) {
        let word = byte.div_euclid(4);
        banks[word.rem_euclid(32) as usize].insert(word);
    }
    banks
}

fn naive_wavefronts(addresses: &[Option<i64>; 32], bytes: i64, transfer: Transfer) -> Vec<usize> {
    let busiest = |group: &Vec<i64>| words(group, bytes).iter().map(BTreeSet::len).max().unwrap();
    groups(addresses, bytes, transfer).iter().map(busiest).collect()
}

#[test]
fn wavefronts_as_counted_by_hardware() {
    let mut lines = 0;
    for line in include_str!("../vectors/wavefronts.txt").lines() {
        let [kind, bytes, active, addresses, counted] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let transfer = match kind {
            "load" => Transfer::Load,
            "store" => Transfer::Store,
            _ => Transfer::Matrix,
        };
        let addresses: Vec<Option<i64>> = addresses.split(' ').map(|a| a.parse().ok()).collect();
        let access = WarpAccess::from_addresses(&addresses, bytes.parse().unwrap(), transfer).unwrap();
        assert_eq!(access.active(), u32::from_str_radix(active, 16).unwrap());
        assert_eq!(access.banks().unwrap().wavefronts, counted.parse().unwrap(), "{line}");
        lines += 1;
    }
    assert_eq!(lines, 1664);
}

fn transfer_and_bytes() -> impl Strategy<Value = (Transfer, i64)> {
    (0..3usize, 0..5u32).prop_map(|(kind, log)| match TRANSFERS[kind] {
        Transfer::Matrix => (Transfer::Matrix, 16),
        other => (other, 1 << log),
    })
}

/// Addresses of a warp in units of its width: random, few distinct, arithmetic, or shared by lanes.
fn places() -> impl Strategy<Value = [i64; 32]> {
    let any = prop::array::uniform32(-200i64..1000);
    let few = (1..40i64, prop::array::uniform32(0..1000i64)).prop_map(|(n, all)| all.map(|p| p % n));
    let even = (-3..70i64, -20..100i64)
        .prop_map(|(step, from)| std::array::from_fn(|lane| from + step * lane as i64));
    let bits = prop::array::uniform5(prop_oneof![Just(0), 0..256i64, (0..9).prop_map(|b| 1i64 << b)]);
    let linear = bits.prop_map(|columns| {
        std::array::from_fn(|lane| {
            (0..5).filter(|bit| lane >> bit & 1 == 1).fold(0, |all, bit| all ^ columns[bit])
        })
    });
    let all = prop_oneof![any, few, even, linear];
    (all, prop_oneof![Just(0), 0..32usize])
        .prop_map(|(all, same)| std::array::from_fn(|lane| all[lane & !same]))
}

fn mask() -> impl Strategy<Value = u32> {
    prop_oneof![Just(u32::MAX), any::<u32>(), any::<u32>().prop_map(|m| m | m >> 1 | m << 2)]
}

fn swizzle() -> impl Strategy<Value = Swizzle> {
    (0..4u32, 0..6u32, 0..4i32, any::<bool>()).prop_map(|(bits, base, more, down)| {
        let shift = bits as i32 + more;
        Swizzle::new(bits, base, if down { shift } else { -shift }).unwrap()
    })
}

/// Leaves with extents and strides of these, nested as one mode.
fn mode(extents: &'static [i64], strides: &'static [i64]) -> impl Strategy<Value = Layout> {
    let leaf = (prop::sample::select(extents), prop::sample::select(strides));
    prop::collection::vec(leaf, 1..4).prop_map(|leaves| {
        let (shape, stride): (Vec<i64>, Vec<i64>) = leaves.into_iter().unzip();
        Layout::new(Tuple::flat(&shape), Tuple::flat(&stride)).unwrap()
    })
}

const POWERS: &[i64] = &[1, 2, 4];
const STRIDES: &[i64] = &[0, 1, 2, 4, 8, 16, 32, 64, 3, 12, 20, 33, -1, -2, -8];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn banks_are_counted_as_by_hand(at in places(), active in mask(), (transfer, bytes) in transfer_and_bytes()) {
        let addresses = at.map(|at| Some(at * bytes));
        let access = WarpAccess::from_addresses(&addresses, bytes, transfer).unwrap().masked(active);
        let addresses = std::array::from_fn(|lane| access.address(lane));
        let report = access.banks().unwrap();
        let by_hand = naive_wavefronts(&addresses, bytes, transfer);
        prop_assert_eq!(report.wavefronts as usize, by_hand.iter().sum::<usize>());
        prop_assert_eq!(report.ideal as usize, by_hand.len());
        prop_assert_eq!(report.degree as usize, by_hand.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(report.worst.is_none(), report.is_conflict_free());
        if let Some(worst) = report.worst {
            // the reported lanes access that many words of the reported bank
            let lanes: Vec<i64> = worst.lanes().map(|lane| addresses[lane as usize].unwrap()).collect();
            prop_assert_eq!(words(&lanes, bytes)[worst.bank as usize].len(), report.degree as usize);
        }
    }

    #[test]
    fn an_access_is_its_layout(
        lanes in mode(POWERS, STRIDES),
        vector in mode(POWERS, &[1, 2, 4, 0, 3]),
        swizzle in swizzle(),
        offset in 0..300i64,
        element_bytes in prop::sample::select(&[1i64, 2, 4, 8][..]),
    ) {
        let (count, width) = (lanes.size().unwrap(), vector.size().unwrap());
        prop_assume!(count <= 32 && width <= 16);
        let view = Composed::new(swizzle, offset, Layout::from_modes([lanes, vector]).unwrap());
        let offsets: Vec<i64> = view.offsets().unwrap().collect();
        let at = |lane: i64, element: i64| offsets[(lane + element * count) as usize];
        let whole = (0..count).all(|l| (0..width).all(|v| at(l, v) == at(l, 0) + v));
        match WarpAccess::new(&view, element_bytes, Transfer::Load) {
            Ok(access) => {
                prop_assert!(whole && width * element_bytes <= 16);
                for lane in 0..32 {
                    let expected = (lane < count).then(|| at(lane, 0) * element_bytes);
                    prop_assert_eq!(access.address(lane as usize), expected);
                }
            }
            Err(_) => prop_assert!(!whole || width * element_bytes > 16),
        }
    }

    #[test]
    fn sectors_are_counted_as_by_hand(
        at in places(),
        active in mask(),
        log_bytes in 0..5u32,
        log_base in 0..9u32,
        skew in 0..3i64,
    ) {
        let (bytes, base) = (1i64 << log_bytes, 1i64 << log_base);
        let addresses = at.map(|at| Some(at * bytes + skew));
        let access = WarpAccess::from_addresses(&addresses, bytes, Transfer::Load).unwrap().masked(active);
        let report = access.sectors(base).unwrap();
        let touched: BTreeSet<i64> =
            (0..32).filter_map(|lane| access.address(lane)).flat_map(|a| a..a + bytes).collect();
        let blocks = |size: i64| {
            let at = |base: i64| touched.iter().map(|b| (b + base).div_euclid(size)).collect::<BTreeSet<_>>().len();
            (0..128).filter(|b| b % base == 0).map(at).max().unwrap() as u32
        };
        prop_assert_eq!(report.sectors, blocks(32));
        prop_assert_eq!(report.lines, blocks(128));
        prop_assert_eq!(report.bytes_used as usize, touched.len());
        prop_assert_eq!(report.ideal_sectors as usize, touched.len().div_ceil(32));
        let divides = |n: i64| base % n == 0 && (0..32).filter_map(|l| access.address(l)).all(|a| a % n == 0);
        prop_assert_eq!(report.alignment, (0..9).map(|b| 1 << b).filter(|n| divides(*n)).max().unwrap());
        prop_assert!(report.sectors >= report.ideal_sectors && report.efficiency() <= 1.0);
    }
}

/// A tile of two modes and two accesses along it.
fn shared_tile() -> impl Strategy<Value = (Layout, SharedTile)> {
    let shape =
        (prop::sample::select(&[8i64, 12, 16, 32, 64][..]), prop::sample::select(&[4i64, 8, 10, 16, 32][..]));
    let steps = prop::collection::vec((0..6usize, 0..3u32, 0..3usize), 1..3);
    (shape, prop::sample::select(&[1i64, 2, 4, 8][..]), 0..3i64, steps).prop_filter_map(
        "an access that the tile does not have",
        |((m, n), element_bytes, pad, steps)| {
            let plain = layout!((m, n) : (1, m + pad));
            let mut tile = SharedTile::new(&plain, element_bytes).unwrap();
            for (which, log_vector, transfer) in steps {
                let vector = 1i64 << log_vector;
                let groups = (m / vector).max(1);
                let threads = |a: i64, b: i64, da: i64, db: i64| {
                    let v = vector;
                    Layout::new(((a, b), v), ((da, db), 1)).unwrap()
                };
                let tv = match which {
                    0 => threads(groups, (32 / groups).clamp(1, n), vector, m), // along the contiguous mode
                    1 => threads(n, 1, m, 0),                                   // across it
                    2 => threads((32 / n).max(1).min(groups), n, vector, m),
                    3 => threads(n, (32 / n).clamp(1, groups), m, vector),
                    4 => threads(4, 4.min(groups), m, vector),
                    _ => threads(2, n, 0, m), // pairs of lanes with equal addresses
                };
                tile = tile.access(&tv, vector, TRANSFERS[transfer]).ok()?;
            }
            Some((plain, tile))
        },
    )
}

/// A tile with up to two accesses of any kind: linear in the bits of the lane, along a line, or by part of a
/// warp.
fn any_shared_tile() -> impl Strategy<Value = (Layout, SharedTile)> {
    let shape =
        (prop::sample::select(&[8i64, 12, 16, 32, 64][..]), prop::sample::select(&[8i64, 10, 16, 32][..]));
    let bits = prop::collection::vec(prop_oneof![Just(0u32), 0u32..12], 5);
    let access =
        (bits, prop_oneof![3 => Just(None), 1 => (1i64..40, 3i64..=32).prop_map(Some)], 0..2u32, 0..3usize);
    let accesses = prop::collection::vec(access, 1..3);
    (shape, prop::sample::select(&[1i64, 1, 2, 2, 4][..]), 0..3i64, accesses).prop_filter_map(
        "an access that the tile does not have",
        |((m, n), element_bytes, pad, accesses)| {
            let plain = layout!((m, n) : (1, m + pad));
            let mut tile = SharedTile::new(&plain, element_bytes).unwrap();
            for (bits, line, log_vector, transfer) in accesses {
                let vector = 1i64 << log_vector;
                let tv = match line {
                    Some((step, lanes)) => layout!((lanes, vector) : (step * vector, 1)),
                    None => {
                        let steps: Vec<i64> =
                            bits.iter().map(|bit| (1i64 << bit) / vector * vector).collect();
                        let lanes = Layout::new((2, 2, 2, 2, 2), Tuple::flat(&steps)).unwrap();
                        Layout::from_modes([lanes, layout!(vector : 1)]).unwrap()
                    }
                };
                tile = tile.access(&tv, vector, TRANSFERS[transfer]).ok()?;
            }
            Some((plain, tile))
        },
    )
}

fn lost(tile: &SharedTile, layout: impl Into<Composed>) -> Option<u32> {
    let reports = tile.report(layout).ok()?;
    Some(reports.iter().map(|report| report.excess()).sum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No layout without conflicts is missed, no smaller one is skipped, and the reported costs are right.
    #[test]
    fn synthesis_is_complete((plain, tile) in prop_oneof![shared_tile(), any_shared_tile()]) {
        let result = tile.synthesize();
        prop_assert_eq!(result.plain == Some(0), lost(&tile, &plain) == Some(0));
        prop_assert_eq!(result.padding.excess == Some(0), lost(&tile, &result.padding.layout) == Some(0));
        prop_assert_eq!(result.swizzle.excess == Some(0), lost(&tile, &result.swizzle.layout) == Some(0));
        if let Some(best) = result.conflict_free() {
            prop_assert_eq!(lost(&tile, &best), Some(0));
            prop_assert_eq!(tile.best(), best);
        } else {
            let (padding, swizzle) = (&result.padding, &result.swizzle);
            let padded: Composed = padding.layout.clone().into();
            let both = [(padding.excess, padded), (swizzle.excess, swizzle.layout.clone())];
            let fewest = both.iter().filter_map(|(excess, _)| *excess).min();
            let (best, is_fewest) = (tile.best(), |excess: &Option<u32>| *excess == fewest);
            prop_assert!(
                fewest.is_none() || both.iter().any(|(excess, layout)| is_fewest(excess) && *layout == best)
            );
        }
        let room = |layout: &Composed| layout.cosize().unwrap() - plain.cosize().unwrap();
        prop_assert_eq!(result.padding.extra, room(&result.padding.layout.clone().into()));
        prop_assert_eq!(result.swizzle.extra, room(&result.swizzle.layout));

        // every padding of the columns, from none to more than a row of banks
        let (shape, stride) = (plain.shape().ints().unwrap(), plain.stride().ints().unwrap());
        let (m, n, stride) = (shape[0], shape[1], stride[1]);
        let free = |apart: &i64| lost(&tile, layout!((m, n) : (1, *apart))) == Some(0);
        let padded = if free(&stride) { Some(0) } else { (m..m + 300).find(free).map(|apart| apart - stride) };
        let by = (result.padding.excess == Some(0)).then_some(result.padding.by);
        prop_assert_eq!(by, padded, "{}", result);

        // every swizzle whose bits the offsets have, and then some
        let smallest = |layout: Layout| (0..6u32).find(|&bits| {
            let all = (0..14u32).flat_map(|base| (-14..=14).map(move |shift| (base, shift)));
            all.filter_map(|(base, shift)| Swizzle::new(bits, base, shift).ok())
                .any(|swizzle| lost(&tile, Composed::new(swizzle, 0, layout.clone())) == Some(0))
        });
        let packed = if stride > m && lost(&tile, &plain) != Some(0) { smallest(layout!((m, n))) } else { None };
        let smallest = packed.or_else(|| smallest(plain.clone()));
        let bits = (result.swizzle.excess == Some(0)).then(|| result.swizzle.layout.swizzle().bits());
        prop_assert_eq!(bits, smallest, "{}", result);
    }
}

/// Regressions of searches that ended too early.
#[test]
fn what_synthesis_finds() {
    let check = |tile: &str, element_bytes: i64, accesses: &[(&str, i64, Transfer)], expected: &str| {
        let mut tile = SharedTile::new(&tile.parse().unwrap(), element_bytes).unwrap();
        for (tv, vector, transfer) in accesses {
            tile = tile.access(&tv.parse().unwrap(), *vector, *transfer).unwrap();
        }
        assert_eq!(tile.synthesize().to_string(), expected);
    };
    let store = Transfer::Store;
    // Bytes 0 and 130 are words of one bank, and every other bank is used in one access or the other. Bit 1
    // is inside a word, and 7 past the banks: if that is flipped, byte 130 falls into the word of byte 0.
    check(
        "(256,2):(1,256)",
        1,
        &[("((2,16),1):((130,4),0)", 1, store), ("((2,16),1):((130,8),0)", 1, store)],
        "2 wavefronts lost to bank conflicts; no padding of 127 helps; none with Sw<1,1,-6> o 0 o (256,2):(1,256)",
    );
    // Padding causes the conflicts: without it, columns are 31 words apart.
    check(
        "(31,8):(1,32)",
        4,
        &[("8:31", 1, store)],
        "7 wavefronts lost to bank conflicts; none with (31,8):(1,31), 7 elements smaller; \
         none with (31,8):(1,31), 7 elements smaller",
    );
    // The slots begin at a multiple of four words, but not of 32: they move along all the same.
    check(
        "(32,9,3):(1,32,292)",
        4,
        &[("9:32", 1, store)],
        "8 wavefronts lost to bank conflicts; none with (32,9,3):(1,33,296), 16 elements larger; \
         none with Sw<4,0,5> o 0 o (32,9,3):(1,32,288), 8 elements smaller",
    );
}
