//! Sequences of a small model that come and go at random. Each token of each of them must be the likeliest after its own text.

use std::collections::HashMap;

use decoder::Result;
use decoder::engine::{Backend, Batch, Engine, PAGE, Settings, uniform};
use decoder::model::Model;
use decoder::random;
use decoder::weights::Format;

/// Pages at first.
pub const PAGES: usize = 8;
pub const CHUNK: usize = 256;
/// Most tokens of a sequence, half of them of its prompt.
pub const LENGTH: usize = 2 * PAGE - 32;
/// The context of the model on a device, and the bytes that are left there: less than keys and values of one sequence take.
pub const CONTEXT: usize = 1 << 17;
pub const LEFT: usize = 1 << 27;

/// The model, of random weights.
pub fn model(context: usize) -> Result<Model> {
    random::of([2, 128, 256, 4, 4, 128, 512], context, None, Format::F16)
}

/// Random numbers.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: usize) -> usize {
        let (number, next) = uniform(self.0);
        self.0 = next;
        (number * most as f32) as usize
    }
}

/// Joins `count` sequences of at most `length` tokens to the first backend, and cancels some. The second backend, of the same model, checks them.
/// Where contexts are longer than that, there is no memory for so long sequences, which are refused.
pub fn run<B: Backend>([backend, mut judge]: [B; 2], count: usize, length: usize) -> Result<String> {
    let (vocabulary, context) = (backend.vocabulary(), backend.config().context);
    let (mut engine, mut draws) = (Engine::new(backend, &[0]), Draws(7));
    // The text of each sequence that runs, and where its prompt ends.
    let mut running: HashMap<u64, (Vec<u32>, usize)> = HashMap::new();
    let (mut joined, mut refused, mut too_long, mut cancelled, mut checked) = (0, 0, 0, 0, 0);
    while joined < count || !engine.is_idle() {
        for _ in 0..draws.below(4).min(count - joined) {
            let prompt: Vec<u32> =
                (0..1 + draws.below(length / 2)).map(|_| 1 + draws.below(vocabulary - 1) as u32).collect();
            let settings = Settings { tokens: 1 + draws.below(length / 2), ..Settings::default() };
            match engine.join(&prompt, settings) {
                Ok(id) => {
                    let end = prompt.len();
                    running.insert(id, (prompt, end));
                    joined += 1;
                }
                Err(_) => refused += 1,
            }
        }
        if context > length && draws.below(64) == 0 {
            match engine.join(&[1], Settings { tokens: context, ..Settings::default() }) {
                Ok(_) => return Err("there is memory for a sequence that should be too long".into()),
                Err(_) => too_long += 1,
            }
        }
        let mut ended = Vec::new();
        let some = running.keys().copied().min().filter(|_| draws.below(8) == 0);
        if let Some(id) = some {
            engine.cancel(id);
            ended.extend(running.remove(&id));
            cancelled += 1;
        }
        for event in engine.step()? {
            let text = running.get_mut(&event.id).ok_or("a sequence that does not run has a token")?;
            text.0.push(event.token);
            if event.ends {
                ended.extend(running.remove(&event.id));
            }
        }
        for (text, prompt) in ended {
            check(&mut judge, &text, prompt, vocabulary)?;
            checked += text.len() - prompt;
        }
    }
    let pages = engine.backend.pages();
    match engine.free_pages() {
        free if free == pages => Ok(format!(
            "{joined} sequences joined, {refused} were refused, {too_long} for want of memory, {cancelled} cancelled; {checked} tokens are right, all {pages} pages are free"
        )),
        free => Err(format!("{free} of {pages} pages are free at the end").into()),
    }
}

/// Each token after the prompt is the likeliest one, but for what numbers of 16 bits add to logits.
fn check(judge: &mut impl Backend, text: &[u32], prompt: usize, vocabulary: usize) -> Result<()> {
    if text.len() == prompt {
        return Ok(());
    }
    let count = text.len() - 1;
    let batch = Batch {
        tokens: text[..count].to_vec(),
        positions: (0..count as u32).collect(),
        sequences: vec![0; count],
        tables: vec![(0..count.div_ceil(PAGE) as u32).collect()],
        wanted: (prompt - 1..count).collect(),
    };
    let logits = judge.forward(&batch)?;
    for (row, token) in logits.chunks_exact(vocabulary).zip(&text[prompt..]) {
        let bound = |least: f32, next: fn(f32, f32) -> f32| row.iter().copied().fold(least, next);
        let (most, least) = (bound(f32::MIN, f32::max), bound(f32::MAX, f32::min));
        let own = row[*token as usize];
        if own < most - 0.02 * (most - least) {
            return Err(format!("a token has the logit {own}, and the likeliest {most}: {text:?}").into());
        }
    }
    Ok(())
}
