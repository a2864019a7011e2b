//! Sequences that join and leave at random: no page is left behind, no other sequence's text changes, and what cannot be served is refused
//! alone.

use decoder::Result;
use decoder::engine::{Backend, Batch, Engine, PAGE, Settings};
use decoder::model::Config;

const CONFIG: Config = Config {
    layers: 1,
    width: 1,
    hidden: 1,
    heads: 1,
    kv_heads: 1,
    head: 2,
    context: 400,
    epsilon: 1e-5,
    rope_base: 10_000.0,
    rope_pairs: false,
    experts: None,
};
const VOCABULARY: usize = 97;

/// A model whose next token is a hash of all tokens before, as its pages have them.
struct Hashes {
    pages: Vec<[Option<u32>; PAGE]>,
    /// Steps until one fails.
    good: usize,
    /// Most pages that there is memory for.
    memory: usize,
    steps: usize,
}

impl Hashes {
    fn new(pages: usize) -> Hashes {
        Hashes { pages: vec![[None; PAGE]; pages], good: usize::MAX, memory: pages, steps: 1 }
    }
}

fn next(tokens: impl Iterator<Item = u32>) -> usize {
    tokens.fold(7u32, |hash, token| (hash ^ token).wrapping_mul(16_777_619)) as usize % VOCABULARY
}

impl Backend for Hashes {
    fn config(&self) -> &Config {
        &CONFIG
    }

    fn vocabulary(&self) -> usize {
        VOCABULARY
    }

    fn pages(&self) -> usize {
        self.pages.len()
    }

    fn grow(&mut self, pages: usize) -> Result<()> {
        if pages > self.memory {
            return Err("out of memory".into());
        }
        self.pages.resize(pages, [None; PAGE]);
        Ok(())
    }

    fn limits(&self) -> [usize; 2] {
        [8, 20]
    }

    fn most_steps(&self) -> usize {
        self.steps
    }

    fn forward(&mut self, batch: &Batch) -> Result<Vec<f32>> {
        assert!(batch.tokens.len() <= self.limits()[1]);
        self.good = self.good.checked_sub(1).ok_or("the device has failed")?;
        let mut logits = Vec::new();
        for (at, (token, position)) in batch.tokens.iter().zip(&batch.positions).enumerate() {
            let (table, position) = (&batch.tables[batch.sequences[at]], *position as usize);
            self.pages[table[position / PAGE] as usize][position % PAGE] = Some(*token);
            if batch.wanted.contains(&at) {
                let seen = (0..=position).map(|at| self.pages[table[at / PAGE] as usize][at % PAGE]);
                let token = next(seen.map(|token| token.expect("a token that was read")));
                logits.extend((0..VOCABULARY).map(|of| if of == token { 1.0 } else { 0.0 }));
            }
        }
        Ok(logits)
    }
}

/// The tokens after a prompt, of a sequence that runs alone.
fn alone(prompt: &[u32], count: usize) -> Vec<u32> {
    let mut tokens = prompt.to_vec();
    while tokens.len() < (prompt.len() + count).min(CONFIG.context) {
        let token = next(tokens.iter().copied()) as u32;
        tokens.push(token);
        if token == 0 {
            break;
        }
    }
    tokens.split_off(prompt.len())
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

#[test]
fn ten_thousand_sequences_come_and_go() {
    let (mut random, mut engine) = (Random(1), Engine::new(Hashes { steps: 3, ..Hashes::new(12) }, &[0]));
    // Sequences that run: their numbers, prompts, most tokens, and texts so far.
    let mut running: Vec<(u64, Vec<u32>, usize, Vec<u32>)> = Vec::new();
    let (mut joined, mut refused, mut cancelled) = (0, 0, 0);
    while joined < 10_000 || !engine.is_idle() {
        for _ in 0..random.below(4) {
            let prompt: Vec<u32> =
                (0..random.below(100)).map(|_| 1 + random.below(VOCABULARY - 1) as u32).collect();
            let settings = Settings { tokens: 1 + random.below(60), ..Settings::default() };
            match engine.join(&prompt, settings) {
                Ok(id) => {
                    running.push((id, prompt, settings.tokens, Vec::new()));
                    joined += 1;
                }
                Err(_) => refused += 1,
            }
        }
        if !running.is_empty() && random.below(8) == 0 {
            let (id, ..) = running.swap_remove(random.below(running.len()));
            engine.cancel(id);
            cancelled += 1;
        }
        for event in engine.step().unwrap() {
            let at = running.iter().position(|of| of.0 == event.id).expect("a sequence that runs");
            running[at].3.push(event.token);
            if event.ends {
                let (_, prompt, count, text) = running.swap_remove(at);
                assert_eq!(text, alone(&prompt, count));
            }
        }
    }
    assert_eq!((engine.free_pages(), running.len()), (12, 0));
    assert!(refused > 100 && cancelled > 100, "{refused} were refused, {cancelled} cancelled");
}

#[test]
fn what_cannot_be_served_is_refused_alone() {
    let mut engine = Engine::new(Hashes::new(3), &[0]);
    let settings = Settings { tokens: 20, ..Settings::default() };
    let first = engine.join(&[1; 100], settings).unwrap();
    let why = engine.join(&[1; 100], settings).unwrap_err().to_string();
    assert_eq!(why, "the sequence needs 2 pages, and 1 of 3 are free: out of memory");
    assert_eq!(
        engine.join(&[], settings).unwrap_err().to_string(),
        "a prompt has 1 to 399 tokens, and this one has 0"
    );
    assert!(engine.join(&[1; 400], settings).is_err());
    assert_eq!(engine.join(&[1, 97], settings).unwrap_err().to_string(), "there is no token 97");
    assert!(engine.join(&[1], Settings { tokens: 0, ..settings }).is_err());
    assert!(engine.step().is_ok());
    engine.cancel(first);
    engine.cancel(first);
    assert_eq!(engine.free_pages(), 3);
    assert!(engine.join(&[1; 100], settings).is_ok());
}

/// Memory grows at joins. Where it cannot, the other sequences go on.
#[test]
fn memory_that_ends_refuses_one_sequence() {
    let mut engine = Engine::new(Hashes { memory: 5, ..Hashes::new(1) }, &[0]);
    let settings = Settings { tokens: 30, ..Settings::default() };
    let first = engine.join(&[1; 100], settings).unwrap();
    let second = engine.join(&[2; 100], settings).unwrap_err().to_string();
    assert_eq!(second, "the sequence needs 3 pages, and 0 of 3 are free: out of memory");
    let third = engine.join(&[3; 90], settings).unwrap();
    let mut texts = std::collections::HashMap::<u64, Vec<u32>>::new();
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            texts.entry(event.id).or_default().push(event.token);
        }
    }
    assert_eq!([&texts[&first], &texts[&third]], [&alone(&[1; 100], 30), &alone(&[3; 90], 30)]);
    assert_eq!((texts.len(), engine.free_pages()), (2, 5));
}

/// A step that fails leaves every sequence as it was: it can be tried again, or its sequences cancelled.
#[test]
fn steps_that_fail_can_be_tried_again() {
    let mut engine = Engine::new(Hashes { good: 3, ..Hashes::new(8) }, &[]);
    let settings = Settings { tokens: 5, ..Settings::default() };
    let mut text = Vec::new();
    let id = engine.join(&[4, 5, 6], settings).unwrap();
    while !engine.is_idle() {
        match engine.step() {
            Ok(events) => text.extend(events.iter().map(|event| event.token)),
            Err(why) => {
                assert_eq!(why.to_string(), "the device has failed");
                engine.backend.good = 100;
            }
        }
    }
    assert_eq!((text, engine.free_pages(), id), (alone(&[4, 5, 6], 5), 8, 0));
}
