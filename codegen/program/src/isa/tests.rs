use std::collections::HashSet;

use tilewright_layout::{TiledMma, layout};

use super::*;
use crate::isa::atom::{Done, OperandName};

/// Lane and register to row and column (for `b`: k and n), as the PTX manual writes it.
type Formula = fn(lane: i64, i: i64) -> (i64, i64);

struct Fragments {
    a: Formula,
    b: Formula,
    d: Formula,
}

/// Accumulators with 16 rows.
fn d16(lane: i64, i: i64) -> (i64, i64) {
    let row = if i < 2 { lane >> 2 } else { (lane >> 2) + 8 };
    (row, (lane % 4) * 2 + (i & 1))
}

fn a_half(lane: i64, i: i64) -> (i64, i64) {
    let row = if (0..2).contains(&i) || (4..6).contains(&i) { lane >> 2 } else { (lane >> 2) + 8 };
    let col = (lane % 4) * 2 + (i & 1) + if i < 4 { 0 } else { 8 };
    (row, col)
}

fn b_half(lane: i64, i: i64) -> (i64, i64) {
    ((lane % 4) * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, lane >> 2)
}

fn a_bytes(lane: i64, i: i64) -> (i64, i64) {
    let row = if (0..4).contains(&i) || (8..12).contains(&i) { lane >> 2 } else { (lane >> 2) + 8 };
    (row, (lane % 4) * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
}

fn b_bytes(lane: i64, i: i64) -> (i64, i64) {
    ((lane % 4) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, lane >> 2)
}

fn a_tf32(lane: i64, i: i64) -> (i64, i64) {
    let row = if i == 0 || i == 2 { lane >> 2 } else { (lane >> 2) + 8 };
    (row, lane % 4 + if i < 2 { 0 } else { 4 })
}

fn b_tf32(lane: i64, i: i64) -> (i64, i64) {
    (lane % 4 + if i == 0 { 0 } else { 4 }, lane >> 2)
}

fn a_f64_k16(lane: i64, i: i64) -> (i64, i64) {
    let row = if i % 2 == 0 { lane >> 2 } else { (lane >> 2) + 8 };
    (row, if i % 2 == 0 { i * 2 + lane % 4 } else { i * 2 - 2 + lane % 4 })
}

/// Checks a row against the manual's tables. The fragments of a shape are a prefix of the fragments of the
/// shape with twice the K.
fn manual(row: &Atom) -> Fragments {
    let ((m, n, k), elem) = (row.mma().unwrap().shape, row.operand(OperandName::A).unwrap().elem);
    let [a, b]: [Formula; 2] = match (elem.bytes(), elem, (m, n, k)) {
        (1, _, (16, 8, 16 | 32)) => [a_bytes, b_bytes],
        (2, _, (16, 8, 8 | 16)) => [a_half, b_half],
        (4, Elem::Tf32, (16, 8, 4 | 8)) | (8, _, (16, 8, 4 | 8)) => [a_tf32, b_tf32],
        (8, _, (8, 8, 4)) => [|lane, _| (lane >> 2, lane % 4), |lane, _| (lane % 4, lane >> 2)],
        (8, _, (16, 8, 16)) => [a_f64_k16, |lane, i| (lane % 4 + i * 4, lane >> 2)],
        _ => panic!("{} is in no table of the manual", row.name),
    };
    let d: Formula = if m == 8 { |lane, i| (lane >> 2, (lane % 4) * 2 + (i & 1)) } else { d16 };
    Fragments { a, b, d }
}

/// Every thread and value of a layout, as (thread, value, index).
fn entries(tv: &Layout) -> Vec<(i64, i64, i64)> {
    let threads = tv.mode(0).unwrap().size().unwrap();
    let offsets: Vec<i64> = tv.offsets().unwrap().collect();
    offsets.iter().enumerate().map(|(at, &index)| (at as i64 % threads, at as i64 / threads, index)).collect()
}

#[track_caller]
fn check_operand(row: &Atom, operand: OperandName, extent: i64, expected: impl Fn(i64, i64) -> i64) {
    let tv = row.tv(operand).unwrap_or_else(|| panic!("{}: no layout of {operand}", row.name));
    let entries = entries(&tv);
    for &(lane, i, index) in &entries {
        let want = expected(lane, i);
        assert_eq!(index, want, "{} {operand}: lane {lane}, value {i}", row.name);
    }
    let reached: HashSet<i64> = entries.iter().map(|entry| entry.2).collect();
    assert_eq!((entries.len() as i64, reached.len() as i64), (extent, extent), "{} {operand}", row.name);
}

#[test]
fn fragments_are_as_the_manual_says() {
    let mut names = String::new();
    for row in all().filter(|row| row.name.starts_with("mma_")) {
        let Fragments { a, b, d } = manual(row);
        let (m, n, k) = row.mma().unwrap().shape;
        check_operand(row, OperandName::A, m * k, |lane, i| a(lane, i).0 + m * a(lane, i).1);
        check_operand(row, OperandName::B, n * k, |lane, i| b(lane, i).1 + n * b(lane, i).0);
        check_operand(row, OperandName::D, m * n, |lane, i| d(lane, i).0 + m * d(lane, i).1);
        names += &format!("{} sm_{}: {}\n", row.name, row.arch, row.ptx);
    }
    insta::assert_snapshot!("mma_sync", names);
}

#[test]
fn wgmma_fragments_are_as_the_manual_says() {
    let mut widths = std::collections::BTreeMap::<String, Vec<i64>>::new();
    for row in all().filter(|row| row.name.starts_with("wgmma_")) {
        let (m, n, k) = row.mma().unwrap().shape;
        let elem = row.operand(OperandName::A).unwrap().elem;
        assert_eq!((m, elem.bytes_of(k)), (64, 32));
        let family =
            row.ptx.replace(&format!("n{n}k"), "nNk").replace("{ .reg .pred p; setp.ne.b32 p, $s, 0; ", "");
        widths.entry(family).or_default().push(n);
        check_operand(row, OperandName::D, m * n, |thread, i| {
            let (warp, lane) = (thread / 32, thread % 32);
            let (r, c) = (16 * warp + lane / 4 + 8 * ((i / 2) % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2);
            r + m * c
        });
        let a: Formula = match elem.bytes() {
            1 => a_bytes,
            2 => a_half,
            _ => a_tf32,
        };
        match row.operand(OperandName::A).unwrap().kind {
            OperandKind::Frag { words: true } => check_operand(row, OperandName::A, m * k, |thread, i| {
                let (r, c) = a(thread % 32, i);
                16 * (thread / 32) + r + m * c
            }),
            kind => assert_eq!(kind, OperandKind::Descriptor),
        }
    }
    let every: Vec<i64> = (1..=32).map(|n| n * 8).collect();
    let integers: Vec<i64> = every.iter().copied().filter(|n| *n <= 32 || n % 16 == 0).collect();
    let mut text = String::new();
    for (family, mut widths) in widths {
        // Two rows with one text: `a` in registers and in shared memory.
        widths.sort_unstable();
        widths.dedup();
        assert!(widths == every || widths == integers, "{family}: {widths:?}");
        text += &format!("{} widths: {family}\n", widths.len());
    }
    insta::assert_snapshot!("wgmma", text);
}

#[test]
fn matrices_are_as_the_manual_says() {
    for (count, name) in [(1, "x1"), (2, "x2"), (4, "x4")] {
        for (verb, addresses, registers) in
            [("ldmatrix", OperandName::A, OperandName::D), ("stmatrix", OperandName::D, OperandName::A)]
        {
            for trans in ["", "_trans"] {
                let row = find(&format!("{verb}_{name}{trans}")).unwrap();
                check_operand(row, registers, 64 * count, |lane, i| {
                    let (matrix, half) = (i / 2, i % 2);
                    let (r, e) = if trans.is_empty() {
                        (lane / 4, 2 * (lane % 4) + half)
                    } else {
                        (2 * (lane % 4) + half, lane / 4)
                    };
                    e + 8 * r + 64 * matrix
                });
                if count == 1 && verb == "ldmatrix" {
                    let lanes = find("movmatrix").unwrap().tv(if trans.is_empty() {
                        OperandName::A
                    } else {
                        OperandName::D
                    });
                    assert_eq!(lanes, row.tv(registers));
                }
                for (lane, e, index) in entries(&row.tv(addresses).unwrap()) {
                    assert_eq!(index, e + 8 * (lane % (8 * count)), "{} lane {lane}", row.name);
                }
            }
        }
    }
}

#[test]
fn every_element_belongs_to_one_thread() {
    for row in all().filter(|row| row.family.issued_by == crate::thread::Scope::Warp && row.mma().is_some()) {
        // Two by two warps over a tensor of three tiles of each mode.
        let mma = TiledMma::new(row.mma().unwrap(), layout!((2, 2, 1))).unwrap();
        let (m, n, _) = mma.tile().unwrap();
        let tensor = Layout::compact((3 * m, 3 * n)).unwrap();
        let mut count = vec![0; (9 * m * n) as usize];
        for thread in 0..mma.threads().unwrap() {
            let (mine, offset) = mma.partition_c(&tensor, thread).unwrap();
            for at in mine.offsets().unwrap() {
                count[(offset.int().unwrap() + at) as usize] += 1;
            }
        }
        assert!(count.iter().all(|&n| n == 1), "{}", row.name);
    }
}

#[test]
fn one_thread_multiplies_what_its_type_can() {
    for (name, mma, with) in
        [("fma_f32", 1.0, Semiring::SUMS), ("mad_i32", 1.0, Semiring::SUMS), ("fma_f64", 1.0, Semiring::SUMS)]
    {
        let row = find(name).unwrap();
        assert_eq!((row.multiply_adds(), row.operations(), row.semiring()), (mma, 1, with), "{name}");
        assert_eq!(row.mma().unwrap().shape, (1, 1, 1), "{name}");
    }
    let shortest = find("min_add_f32").unwrap();
    assert_eq!((shortest.multiply_adds(), shortest.operations()), (1.0, 2));
    assert_eq!(find("mma_m16n8k16_bf16").unwrap().multiply_adds(), 64.0);
    assert_eq!(find("xor_and_f32"), None);
}

#[test]
fn rows_are_consistent() {
    let mut names = HashSet::new();
    for row in all() {
        assert!(names.insert(row.name), "two rows are called {}", row.name);
        let mut letters = HashSet::new();
        for operand in row.operands {
            assert!(letters.insert(operand.name.to_string()), "{}: two operands {}", row.name, operand.name);
            let marks = [format!("${}", operand.name), format!("#{}", operand.name)];
            let stands = row.is_scalar() || marks.iter().any(|mark| row.ptx.contains(mark));
            assert!(stands, "{}: {} is not in the text", row.name, operand.name);
            assert!(
                operand.tv.is_empty() || operand.tv.parse::<Layout>().is_ok(),
                "{}: {}",
                row.name,
                operand.tv
            );
        }
        assert_eq!(
            row.ptx.matches('$').count(),
            row.ptx
                .match_indices('$')
                .filter(|(at, _)| { letters.contains(&row.ptx[at + 1..at + 2]) })
                .count(),
            "{}: a mark without an operand",
            row.name
        );
        assert_eq!(row.is_scalar(), row.ptx.is_empty(), "{}", row.name);
        let has_barrier = row.operands.iter().any(|operand| operand.kind == OperandKind::Barrier);
        assert_eq!(row.family.completes == Done::Mbarrier, has_barrier, "{}", row.name);
    }
}
