//! Products by wgmma whose operands bulk copies do not take: they are packed first, into a workspace that all of
//! these launches share, with the elements of earlier ones in it.

use tilewright::program::element::bf16;
use tilewright::runtime::Built;
use tilewright::{DeviceTensor, Element};
use tilewright_tests::gallery;
use tilewright_tests::packed::{self, Case};

use super::{device_run, stream};

#[allow(unsafe_code)]
fn built(keys: &str) -> Built {
    let kernel = gallery::matmul(keys).kernel.expect("a kernel");
    // SAFETY: the kernel is as generated.
    unsafe { Built::new(kernel) }
}

#[test]
fn products_with_odd_rows() {
    let Some(stream) = stream() else { return };
    let default =
        |keys: &str, sizes| Case { keys: keys.into(), sizes, paddings: vec![Default::default()], seed: 5 };
    let shipped = [
        default("dtype=bf16 arch=90 a=k_major b=k_major", [515, 771, 1031]),
        default("dtype=bf16 arch=90", [1027, 259, 515]),
        default("dtype=i8 arch=90 a=k_major b=k_major", [515, 385, 1031]),
        default("dtype=tf32 arch=90", [515, 771, 1031]),
        default("dtype=tf32 arch=90 b=k_major batched=true", [512, 770, 1028]),
        default("dtype=e4m3 arch=90 a=k_major out=bf16 scales=both", [515, 771, 1031]),
        default("dtype=i8 arch=90 c=n_major", [1027, 515, 1031]),
        default("dtype=e4m3 arch=90 a=k_major b=k_major out=bf16 scales=blocks", [515, 385, 1312]),
        default(
            "dtype=e4m3 arch=90 a=k_major b=k_major out=bf16 scales=blocks schedule=(cluster=2)",
            [1030, 385, 2600],
        ),
    ];
    let cases = [
        packed::orders(),
        packed::types(),
        packed::transposed(),
        packed::random(60, [400, 600]),
        shipped.to_vec(),
    ]
    .concat();
    let mut wrong = Vec::new();
    for case in cases {
        let kernel = built(&case.keys);
        match device_run::judge(&stream, &kernel, &case.problem(kernel.generated())) {
            Ok(ran) => assert!(ran || !device_run::runs_here(&stream, &kernel), "{case:?}: nothing ran"),
            Err(why) => wrong.push(format!("{case:?}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Launches, and runs of a graph of them, give the same bits.
#[test]
#[allow(unsafe_code)]
fn packed_launches_in_a_graph() {
    let Some(stream) = stream() else { return };
    let (m, n, k) = (1023, 1029, 2053);
    let kernel = built("dtype=bf16 arch=90 a=k_major b=k_major");
    let numbers = |count: usize, seed: usize| -> Vec<bf16> {
        (0..count).map(|at| bf16::from_f32(((at * 7 + at / 5 + seed) % 97) as f32 / 32.0 - 1.5)).collect()
    };
    let tensor = |rows, seed| {
        DeviceTensor::from_host_strided(&stream, [rows, k], [k, 1], &numbers(rows * k, seed))
            .expect("a tensor")
    };
    let (a, b) = (tensor(m, 1), tensor(n, 2));
    let mut c = DeviceTensor::<bf16, 2>::poisoned(&stream, [m, n]).expect("a tensor");
    let launch = |c: &mut DeviceTensor<bf16, 2>| {
        kernel.launch_with(&stream, &mut [(&a).into(), (&b).into(), c.into()])
    };
    let bits = |c: &DeviceTensor<bf16, 2>| -> Vec<u64> {
        c.to_host_stored().expect("the result").into_iter().map(Element::to_raw).collect()
    };
    let launched = launch(&mut c).unwrap_or_else(|why| panic!("{why}"));
    if device_run::runs_here(&stream, &kernel) {
        assert_eq!(launched.packed().len(), 2, "{launched}");
    }
    let first = bits(&c);
    c = DeviceTensor::poisoned(&stream, [m, n]).expect("a tensor");
    // SAFETY: the tensors outlive the graph, and no one else uses them.
    let graph = unsafe { stream.capture(|| launch(&mut c).map(drop)) }.unwrap_or_else(|why| panic!("{why}"));
    for _ in 0..3 {
        graph.launch().expect("a run");
    }
    assert!(first == bits(&c));
}
