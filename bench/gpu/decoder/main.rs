//! Measurements and checks of `examples/decoder` on the first GPU.
//!
//! ```console
//! $ cargo run --release -p decoder --bin decoder-bench -- --shape llama-1b
//! $ cargo run --release -p decoder --bin decoder-bench -- soak 10000
//! ```

mod soak;
mod speed;

use decoder::device::OnDevice;
use decoder::kernels::Kernels;
use decoder::weights::Format;
use decoder::{Result, random};

const USAGE: &str = "usage: decoder-bench [options]   times of random weights
       decoder-bench soak N      N sequences of a small model come and go, and are checked
  --shape NAME       llama-1b, llama-8b or experts-8  [llama-1b]
  --format FORMAT    f16, or w4, 4 bits with a scale and an offset for each 32  [f16]
  --batch N,N,...    sequences that decode at once, at most 64  [1,8,64]
  --context N        tokens of each before  [128]
  --tokens N         tokens of each after  [64]
  --prefill N        tokens of a prompt, or 0  [4096]";

fn run() -> Result<()> {
    let (mut shape, mut format, mut tokens) = ("llama-1b".to_owned(), Format::F16, 64);
    let mut sizes = speed::Sizes { batches: vec![1, 8, 64], context: 128, prefill: 4096 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match arg.as_str() {
            "soak" => return soak(value.parse()?),
            "--shape" => shape = value,
            "--format" if value == "f16" => format = Format::F16,
            "--format" if value == "w4" => format = Format::Q4,
            "--batch" => {
                sizes.batches = value.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?
            }
            "--context" => sizes.context = value.parse()?,
            "--tokens" => tokens = value.parse()?,
            "--prefill" => sizes.prefill = value.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    speed::run(&random::model(&shape, format)?, &sizes, tokens)
}

fn soak(count: usize) -> Result<()> {
    let model = soak::model(soak::CONTEXT)?;
    let kernels = || Kernels::new(OnDevice::open()?, &model, soak::PAGES, soak::CHUNK);
    let both = [kernels()?, kernels()?];
    let mut rest = OnDevice::open()?;
    rest.fill(soak::LEFT)?;
    println!("{}", soak::run(both, count, soak::LENGTH)?);
    Ok(())
}

fn main() {
    if let Err(why) = run() {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
