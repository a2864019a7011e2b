//! Faults in the synchronisation of a kernel, which the simulator must find: `cargo xtask mutants` draws 1,000 of them.

use tilewright_codegen::thread::Kernel;
use tilewright_codegen::{Definition, Generate};
use tilewright_fuzz::synchronisation::{Shown, faults, results, shown};
use tilewright_sim::{Arg, Options};

/// The variant for whole tiles of a product that copies ahead.
fn product() -> Kernel {
    let kernel = Definition::Matmul(vec![]).generate().kernel.expect("a kernel");
    kernel.variants[0].program.clone()
}

#[test]
fn every_fault_in_a_products_synchronisation_is_found() {
    let kernel = product();
    let (m, n, k) = (128, 256, 128);
    let numbers: Vec<f32> = (0..n * k).map(|at| (at % 13) as f32 - 6.0).collect();
    let args = [Arg::tensor(&numbers, [m, k]), Arg::tensor(&numbers, [n, k]), Arg::output::<f32>([m, n])];
    let options = Options { exact: true, count: false, ..Options::default() };
    let wanted = results(&kernel, &args, &options).expect("the kernel is right");
    let faults: Vec<_> =
        faults(&kernel).into_iter().filter(|fault| fault.is_executed(&kernel, &args, &options)).collect();
    assert!(!faults.is_empty());
    for fault in faults {
        let shows = shown(&fault.plant(&kernel), &args, &wanted, &options, 3);
        assert_ne!(shows, Shown::Slips, "{}, {}: {}", fault.class, fault.change, fault.statement(&kernel));
    }
}
