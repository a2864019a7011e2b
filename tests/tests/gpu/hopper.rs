//! The speed of persistent products at full size: `--ignored --nocapture` prints it.

use tilewright::DeviceTensor;
use tilewright::kernels::TENSOR;
use tilewright::program::element::bf16;
use tilewright::runtime::Built;
use tilewright_tests::gallery;

use super::stream;

/// Warm-up launches, and measured launches.
const LAUNCHES: [usize; 2] = [3, 20];

#[test]
#[ignore = "prints speeds"]
#[allow(unsafe_code)]
fn persistent_products() {
    let Some(stream) = stream() else { return };
    let kernel = gallery::matmul(TENSOR).kernel.expect("a kernel");
    // SAFETY: the kernel is as generated.
    let kernel = unsafe { Built::new(kernel) };
    for n in [2048usize, 4096, 8192] {
        // Random data: zeros would run faster, at lower power.
        let mut state = 1u64;
        let mut numbers = |count: usize| -> Vec<bf16> {
            let mut next = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                bf16::from_f32((state >> 40) as f32 / (1 << 23) as f32 - 1.0)
            };
            (0..count).map(|_| next()).collect()
        };
        let rows =
            |data: &[bf16]| DeviceTensor::from_host_strided(&stream, [n, n], [n, 1], data).expect("a tensor");
        let (a, b) = (rows(&numbers(n * n)), rows(&numbers(n * n)));
        let mut c = DeviceTensor::<bf16, 1>::zeros(&stream, [n * n]).expect("a tensor");
        let mut launch = |times: usize| {
            for _ in 0..times {
                let out = c.view_mut().reshaped([n, n], [1, n]);
                kernel.launch_with(&stream, &mut [(&a).into(), (&b).into(), out.into()])?;
            }
            Ok(())
        };
        launch(LAUNCHES[0]).unwrap_or_else(|why: tilewright::runtime::Error| panic!("{why}"));
        let (_, time) = stream.time(|| launch(LAUNCHES[1])).unwrap_or_else(|why| panic!("{why}"));
        let each = time.as_secs_f64() / LAUNCHES[1] as f64;
        println!("{n}^3: {:.1} us, {:.1} TFLOP/s", each * 1e6, 2e-12 * (n as f64).powi(3) / each);
    }
}
