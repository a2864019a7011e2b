//! The same program without the kernel.

fn main() -> Result<(), std::fmt::Error> {
    let right = ([4096usize, 1000], 1u64 << 44);
    println!("variant {}, workspace {}", right.0[0], right.1);
    println!("{:?}", right);
    Ok(())
}
