//! Tiled algorithms beside products: Fourier transforms, sorting of rows and of keys by their bytes, the largest elements, stencils
//! and the game of life in several steps, convolutions and their gradients. Each runs in the simulator.
//!
//! ```console
//! $ cargo run --release --example pages
//! $ tilewright bench fft_rows --size L=4096,M=4096
//! ```

mod convolution;
mod convolution_by_w;
mod convolution_of_few;
mod fourier;
mod fourier_columns;
mod fourier_real;
mod heat;
mod items;
mod life;
mod merges;
mod radix;
mod radix_counts;
mod selection;
mod selection_long;
mod selection_short;
mod sorting;
mod steps;

use tilewright::prelude::*;

fn main() -> Result<(), tilewright::sim::Error> {
    // One wave: all but one frequency are 0.
    let angle = |at: usize| at as f32 * 3.0 * std::f32::consts::TAU / 256.0;
    let wave: Vec<f32> = (0..256).flat_map(|at| [angle(at).cos(), angle(at).sin()]).collect();
    let args = [Arg::tensor(&wave, [2, 256, 1]), Arg::output::<f32>([2, 256, 1])];
    println!("frequencies: {:?} …", &fourier::fft_rows().simulate(&args)?.get::<f32>("y")?[..10]);

    // A pulse: all frequencies are equal, in rows, in columns, of real numbers.
    let mut pulse = vec![0.0f32; 64 * 64 * 2];
    pulse[0] = 1.0;
    let args = [Arg::tensor(&pulse, [2, 64, 64]), Arg::output::<f32>([2, 64, 64])];
    let rows = fourier::fft_rows().simulate(&args)?.get::<f32>("y")?;
    let args = [Arg::tensor(&rows, [2, 64, 64, 1]), Arg::output::<f32>([2, 64, 64, 1])];
    let done = fourier_columns::fft_columns().simulate(&args)?;
    println!("in two dimensions: {:?} …", &done.get::<f32>("y")?[..4]);
    let args = [Arg::tensor(&pulse[..64], [64, 1]), Arg::output::<f32>([2, 33, 1])];
    let done = fourier_real::rfft_rows().simulate(&args)?.get::<f32>("y")?;
    println!("of real numbers: {:?} …", &done[..4]);
    let args = [Arg::tensor(&done, [2, 33, 1]), Arg::output::<f32>([64, 1])];
    println!("and back: {:?} …", &fourier_real::irfft_rows().simulate(&args)?.get::<f32>("y")?[..2]);

    let x = [3.0f32, -1.0, f32::INFINITY, 0.5];
    let args = [Arg::tensor(&x, [4, 1]), Arg::output::<f32>([4, 1]), Arg::output::<i32>([4, 1])];
    let done = sorting::sort_rows().simulate(&args)?;
    println!("in order: {:?}, from {:?}", done.get::<f32>("y")?, done.get::<i32>("order")?);

    let keys: Vec<u32> = (0..1000).map(|at| at * 37 % 256).collect();
    let (keys, to) = (Arg::tensor(&keys, [1000]), Arg::output::<u32>([1000]));
    let words = Arg::in_out(&[0u32; 1024], [256, 1, 4]).strides([1, 256, 256]);
    let args = [keys.clone(), Arg::in_out(&[0i32; 1024], [256, 4]), words.clone()];
    let bins = radix_counts::radix_counts().simulate(&args)?.get::<i32>("bins")?;
    let (bins, arrived) = (Arg::in_out(&bins, [256, 4]), Arg::in_out(&[0i32], [1]));
    let args = [Arg::number(0), keys.clone(), keys, to.clone(), to, bins, words, arrived];
    println!("by one byte: {:?} …", &radix::radix_pass().simulate(&args)?.get::<u32>("keys_to")?[..10]);

    let x: Vec<f32> = (0..100).map(|at| (at * 37 % 100) as f32).collect();
    let args = [Arg::tensor(&x, [100, 1]), Arg::output::<f32>([8, 1]), Arg::output::<i32>([8, 1])];
    let done = selection::top_k().simulate(&args)?;
    println!("the largest: {:?}, from {:?}", done.get::<f32>("y")?, done.get::<i32>("order")?);
    let done = selection_long::top_k_of_long!(K = 8).simulate(&args)?;
    println!("by a cluster: {:?}", done.get::<f32>("y")?);
    let done = selection_short::top_k_of_short!(K = 8).simulate(&args)?;
    println!("by a warp: {:?}", done.get::<f32>("y")?);

    let (x, y) = (Arg::tensor(&[1.0f32; 20 * 30], [20, 30]), Arg::output::<f32>([20, 30]));
    let args = [x.strides([30, 1]), y.strides([30, 1]), Arg::number(0.6f32), Arg::number(0.1f32)];
    println!("a corner after eight steps: {:?}", steps::heat_2d().simulate(&args)?.get::<f32>("y")?[0]);

    let (x, y) = (Arg::tensor(&[1.0f32; 6 * 6 * 6], [6, 6, 6]), Arg::output::<f32>([6, 6, 6]));
    let args = [x.strides([36, 6, 1]), y.strides([36, 6, 1]), Arg::number(0.4f32), Arg::number(0.1f32)];
    println!("a corner after a step: {:?}", heat::heat_3d_step().simulate(&args)?.get::<f32>("y")?[0]);
    println!("after four: {:?}", heat::heat_3d().simulate(&args)?.get::<f32>("y")?[0]);

    // Three cells in a row change their direction in each generation.
    let (x, y) = (Arg::tensor(&[0u8, 0, 0, 1, 1, 1, 0, 0, 0], [3, 3]), Arg::output::<u8>([3, 3]));
    let args = [x.strides([3, 1]), y.strides([3, 1])];
    println!("the next generation: {:?}", life::life_step().simulate(&args)?.get::<u8>("y")?);
    println!("after sixteen: {:?}", life::life().simulate(&args)?.get::<u8>("y")?);

    let (x, w) = (vec![bf16::from_f32(1.0); 8 * 3 * 3], vec![bf16::from_f32(0.5); 8 * 9 * 8]);
    let (x, w) = (Arg::tensor(&x, [8, 3, 3, 1]), Arg::tensor(&w, [8, 3, 3, 8]));
    let done = convolution::convolution().simulate(&[x, w, Arg::output::<bf16>([8, 3, 3, 1])])?;
    println!("a corner, of four pixels: {}", done.get::<bf16>("y")?[0].to_f32());
    println!("{}", convolution::convolution_by_x().report());
    println!("{}", convolution_by_w::convolution_by_w().report());
    println!("{}", convolution_of_few::convolution_of_few_by_w().report());
    Ok(())
}
