//! Launches an exported kernel, and shows that mistakes are errors.
#![deny(warnings, missing_docs)]

include!(concat!(env!("EXPORTED"), "/softmax.rs"));

use softmax::{Arguments, Kernel, Plan, Tensor};

fn main() -> Result<(), softmax::Error> {
    let tensor = |address: u64, columns: usize| Tensor {
        address,
        elements: 4096 * columns,
        extents: [4096, columns],
        strides: [columns, 1],
    };
    let mut kernel = Kernel::open()?;
    let (mut plan, right) = (Plan::new(), Arguments { x: tensor(1 << 44, 1000), y: tensor(2 << 44, 1000) });
    kernel.plan(&right, &mut plan)?;
    println!("variant {}, workspace {}", plan.variant(), plan.workspace());
    // SAFETY: the driver does not follow addresses.
    unsafe { plan.launch(std::ptr::null_mut(), plan.workspace())? };
    let wrong = Arguments { y: tensor(2 << 44, 999), ..right };
    println!("{}", kernel.plan(&wrong, &mut plan).unwrap_err());
    let overlapping = Arguments { y: right.x, ..right };
    println!("{}", kernel.plan(&overlapping, &mut plan).unwrap_err());
    // SAFETY: as above.
    println!("{}", unsafe { plan.launch(std::ptr::null_mut(), 0) }.unwrap_err());
    Ok(())
}
