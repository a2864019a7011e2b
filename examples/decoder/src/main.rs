//! A decoder of Llama-style language models.
//!
//! ```console
//! $ python3 examples/decoder/fetch.py
//! $ cargo run -p decoder -- "The capital of France is"
//! ```

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use decoder::device::OnDevice;
use decoder::engine::{Backend, Engine, Settings};
use decoder::host::Host;
use decoder::kernels::{CHUNK, Kernels};
use decoder::model::Model;
use decoder::tokenizer::Tokenizer;
use decoder::{Result, simulated};
use tilewright::runtime::bundle;

const USAGE: &str = "usage: decoder [options] PROMPT...
       decoder bundle FILE [options]   writes the kernels of a model for sm_90; needs no GPU
  --model PATH       a GGUF file, or a folder with safetensors  [target/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf]
  --bundle FILE      takes kernels from a bundle; trust it as the program itself
  --tokens N         most tokens of an answer  [64]
  --temperature T    0 takes the likeliest token  [0]
  --top-p P          sample among the likeliest tokens with this probability in all  [1]
  --seed S           the seed of samples  [0]
  --ids              print tokens as numbers
  --time             print how long loading, the first token and the others took
  --host             compute on the CPU, also where there is a GPU";

/// Pages of 64 tokens.
const PAGES: usize = 1024;

/// The command line.
struct Options {
    model: PathBuf,
    bundle: Option<PathBuf>,
    settings: Settings,
    ids: bool,
    host: bool,
    time: bool,
    words: Vec<String>,
}

fn options() -> Result<Options> {
    let mut options = Options {
        model: "target/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf".into(),
        bundle: None,
        settings: Settings::default(),
        ids: false,
        host: false,
        time: false,
        words: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("`{arg}` needs a value\n{USAGE}"));
        match arg.as_str() {
            "--model" => options.model = value()?.into(),
            "--bundle" => options.bundle = Some(value()?.into()),
            "--tokens" => options.settings.tokens = value()?.parse()?,
            "--temperature" => options.settings.temperature = value()?.parse()?,
            "--top-p" => options.settings.top_p = value()?.parse()?,
            "--seed" => options.settings.seed = value()?.parse()?,
            "--ids" => options.ids = true,
            "--host" => options.host = true,
            "--time" => options.time = true,
            _ if arg.starts_with("--") => return Err(format!("there is no option `{arg}`\n{USAGE}").into()),
            _ => options.words.push(arg),
        }
    }
    Ok(options)
}

fn run() -> Result<()> {
    let (start, options) = (Instant::now(), options()?);
    if let Some(path) = &options.bundle {
        // SAFETY: the user says that `decoder bundle` made the file.
        unsafe { bundle::load(path)? };
    }
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    match words[..] {
        [] => Err(USAGE.into()),
        ["bundle", path] => {
            let defs = simulated::kernels(&opened(&options)?.0)?;
            let bytes = bundle::write(&defs.iter().collect::<Vec<_>>(), &["sm_90"], path)?;
            println!("{path} ({} kB, kernels: {})", bytes / 1000, defs.len());
            Ok(())
        }
        _ => {
            let (model, tokenizer) = opened(&options)?;
            let model = Arc::new(model);
            match if options.host { None } else { OnDevice::open().ok() } {
                Some(device) => {
                    answer(Kernels::new(device, &model, PAGES, CHUNK)?, &tokenizer, &options, start)
                }
                None => answer(Host::new(model, PAGES), &tokenizer, &options, start),
            }
        }
    }
}

fn opened(options: &Options) -> Result<(Model, Tokenizer)> {
    if !options.model.exists() {
        let help = "fetch the usual model: python3 examples/decoder/fetch.py";
        return Err(format!("there is no {}\n{help}", options.model.display()).into());
    }
    Model::open(&options.model)
}

/// Runs all prompts together, and prints a single one as it grows.
fn answer(backend: impl Backend, tokenizer: &Tokenizer, options: &Options, start: Instant) -> Result<()> {
    let Options { settings, ids, words: prompts, .. } = options;
    let mut engine = Engine::new(backend, &tokenizer.end);
    let mut texts = prompts.iter().map(|prompt| tokenizer.encode(prompt)).collect::<Result<Vec<_>>>()?;
    // The next prompt that waits, and the prompts that run, by the numbers of their sequences.
    let (mut next, mut running) = (0, HashMap::new());
    let one = prompts.len() == 1 && !ids;
    if one {
        print!("{}", prompts[0]);
    }
    let (ready, mut first, mut count) = (start.elapsed(), Duration::ZERO, 0);
    while next < prompts.len() || !engine.is_idle() {
        while next < prompts.len() {
            match engine.join(&texts[next], *settings) {
                Ok(id) => {
                    running.insert(id, next);
                }
                // There will never be more room.
                Err(why) if engine.is_idle() => eprintln!("{:?}: {why}", prompts[next]),
                Err(_) => break,
            }
            next += 1;
        }
        let events = engine.step()?;
        if count == 0 && !events.is_empty() {
            first = start.elapsed();
        }
        count += events.len();
        for event in events {
            if one && !tokenizer.end.contains(&event.token) {
                let mut out = std::io::stdout().lock();
                out.write_all(tokenizer.bytes(event.token))?;
                out.flush()?;
            }
            texts[running[&event.id]].push(event.token);
        }
    }
    for tokens in texts.iter().filter(|_| !one) {
        if *ids { println!("{tokens:?}") } else { println!("{}", tokenizer.text(tokens)) }
    }
    if one {
        println!();
    }
    if options.time {
        let each = count.saturating_sub(running.len()) as f64 / (start.elapsed() - first).as_secs_f64();
        let ms = |of: Duration| of.as_secs_f64() * 1e3;
        eprintln!(
            "ready after {:.0} ms, first tokens after {:.0} ms, then {each:.0} tokens a second",
            ms(ready),
            ms(first)
        );
    }
    Ok(())
}

fn main() {
    if let Err(why) = run() {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
