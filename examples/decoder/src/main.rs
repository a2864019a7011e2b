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

use decoder::Result;
use decoder::device::OnDevice;
use decoder::engine::{Backend, Engine, Settings};
use decoder::host::Host;
use decoder::kernels::Kernels;
use decoder::model::Model;
use decoder::random;
use decoder::tokenizer::Tokenizer;

const USAGE: &str = "usage: decoder [options] PROMPT...
  --model PATH       a GGUF file, or a folder with safetensors  [target/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf]
  --tokens N         most tokens of an answer  [64]
  --temperature T    0 takes the likeliest token  [0]
  --top-p P          sample among the likeliest tokens with this probability in all  [1]
  --seed S           the seed of samples  [0]
  --ids              print tokens as numbers
  --time             print how long the first token and the others took
  --host             compute on the CPU, also where there is a GPU
  --random SIZES     time random weights of these sizes, such as llama-3.2-1b: N sequences of L tokens, --random SIZES N L";

/// Pages of 64 tokens.
const PAGES: usize = 1024;

/// The command line.
struct Options {
    model: PathBuf,
    settings: Settings,
    ids: bool,
    host: bool,
    time: bool,
    prompts: Vec<String>,
}

fn options() -> Result<Options> {
    let model = "target/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf".into();
    let settings = Settings::default();
    let mut options = Options { model, settings, ids: false, host: false, time: false, prompts: Vec::new() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("`{arg}` needs a value\n{USAGE}"));
        match arg.as_str() {
            "--model" => options.model = value()?.into(),
            "--tokens" => options.settings.tokens = value()?.parse()?,
            "--temperature" => options.settings.temperature = value()?.parse()?,
            "--top-p" => options.settings.top_p = value()?.parse()?,
            "--seed" => options.settings.seed = value()?.parse()?,
            "--ids" => options.ids = true,
            "--host" => options.host = true,
            "--time" => options.time = true,
            _ if arg.starts_with("--") => return Err(format!("there is no option `{arg}`\n{USAGE}").into()),
            _ => options.prompts.push(arg),
        }
    }
    if options.prompts.is_empty() {
        return Err(USAGE.into());
    }
    Ok(options)
}

/// Times N sequences of L random tokens: their first tokens, and the tokens after these.
fn random_times(args: &[String]) -> Result<()> {
    let [sizes, count, length] = args else { return Err(USAGE.into()) };
    let (count, length): (u32, u32) = (count.parse()?, length.parse()?);
    let model = random::model(sizes)?;
    let mut engine = Engine::new(Kernels::new(OnDevice::open()?, &model, PAGES)?, &[]);
    for repeat in 0..3 {
        let settings = Settings { tokens: 128, ..Settings::default() };
        let prompt =
            |of: u32| (0..length).map(|at| (of * 7919 + at * 104729 + repeat) % 128000).collect::<Vec<_>>();
        for of in 0..count {
            engine.join(&prompt(of), settings)?;
        }
        let (mut start, mut tokens, mut first) = (Instant::now(), 0, Duration::ZERO);
        while !engine.is_idle() {
            let events = engine.step()?.len();
            if tokens == 0 && events == count as usize {
                first = start.elapsed();
                (start, tokens) = (Instant::now(), 1);
            } else if tokens > 0 {
                tokens += events;
            }
        }
        let each = (tokens - 1) as f64 / start.elapsed().as_secs_f64();
        println!(
            "{sizes}, {count} of {length}: first tokens after {:.1} ms, then {each:.0} tokens a second",
            first.as_secs_f64() * 1e3
        );
    }
    Ok(())
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "--random") {
        return random_times(&args[2..]);
    }
    let options = options()?;
    if !options.model.exists() {
        let help = "fetch the usual model: python3 examples/decoder/fetch.py";
        return Err(format!("there is no {}\n{help}", options.model.display()).into());
    }
    let (model, tokenizer) = Model::open(&options.model)?;
    let model = Arc::new(model);
    let device = if options.host { None } else { OnDevice::open().ok() };
    match device {
        Some(device) => answer(Kernels::new(device, &model, PAGES)?, &tokenizer, &options),
        None => answer(Host::new(model, PAGES), &tokenizer, &options),
    }
}

/// Runs all prompts together, and prints a single one as it grows.
fn answer(backend: impl Backend, tokenizer: &Tokenizer, options: &Options) -> Result<()> {
    let Options { settings, ids, prompts, .. } = options;
    let mut engine = Engine::new(backend, &tokenizer.end);
    let mut texts = prompts.iter().map(|prompt| tokenizer.encode(prompt)).collect::<Result<Vec<_>>>()?;
    // The next prompt that waits, and the prompts that run, by the numbers of their sequences.
    let (mut next, mut running) = (0, HashMap::new());
    let one = prompts.len() == 1 && !ids;
    if one {
        print!("{}", prompts[0]);
    }
    let (start, mut first, mut count) = (Instant::now(), Duration::ZERO, 0);
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
        let rest = (start.elapsed() - first).as_secs_f64();
        let each = count.saturating_sub(running.len()) as f64 / rest;
        eprintln!("first tokens after {:.0} ms, then {each:.0} tokens a second", first.as_secs_f64() * 1e3);
    }
    Ok(())
}

fn main() {
    if let Err(why) = run() {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
