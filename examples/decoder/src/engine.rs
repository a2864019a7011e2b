//! Several sequences at once: pages of keys and values, steps, samples. Sequences join and leave while others run.

use std::sync::Arc;

use crate::Result;
use crate::model::Config;

/// Tokens of a page of keys and values.
pub const PAGE: usize = 64;

/// The tokens of a step, sequence after sequence.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub tokens: Vec<u32>,
    pub positions: Vec<u32>,
    /// The row of `tables` for each token.
    pub sequences: Vec<usize>,
    /// The pages of each sequence.
    pub tables: Vec<Vec<u32>>,
    /// The tokens whose logits are wanted.
    pub wanted: Vec<usize>,
}

/// What runs a model.
pub trait Backend {
    fn config(&self) -> &Config;
    /// The number of tokens that there are.
    fn vocabulary(&self) -> usize;
    /// The number of pages that it has memory for.
    fn pages(&self) -> usize;
    /// Takes memory for this number of pages. There may be none, and then all is as before.
    fn grow(&mut self, _pages: usize) -> Result<()> {
        Ok(())
    }
    /// Most sequences, and most tokens of a step.
    fn limits(&self) -> [usize; 2];
    /// Writes the keys and values of all tokens, and returns rows of logits.
    fn forward(&mut self, batch: &Batch) -> Result<Vec<f32>>;
    /// Most tokens of each sequence that it chooses at once, where it reads their newest tokens.
    fn most_steps(&self) -> usize {
        1
    }
    /// Writes the keys and values of all tokens, and chooses a token by each row of logits. Further choices are for the tokens after these,
    /// step after step.
    fn choose(&mut self, batch: &Batch, choices: &[Choice]) -> Result<Vec<u32>> {
        if choices.is_empty() {
            return self.forward(batch).map(|_| Vec::new());
        }
        let (mut batch, mut all) = (batch.clone(), Vec::new());
        for choices in choices.chunks(batch.wanted.len()) {
            let logits = self.forward(&batch)?;
            let rows = logits.chunks_exact(self.vocabulary().max(1));
            batch.tokens = rows.zip(choices).map(|(row, choice)| choice.token(row)).collect();
            batch.positions.iter_mut().for_each(|of| *of += 1);
            all.extend(&batch.tokens);
        }
        Ok(all)
    }
}

/// How a token is chosen: see [`Settings`].
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub temperature: f32,
    pub top_p: f32,
    /// A random number from 0 to 1.
    pub random: f32,
}

/// How tokens are chosen, and how many.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most tokens after the prompt, at least 1.
    pub tokens: usize,
    /// 0 takes the likeliest token.
    pub temperature: f32,
    /// The likeliest tokens whose probabilities add up to this number.
    pub top_p: f32,
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { tokens: 64, temperature: 0.0, top_p: 1.0, seed: 0 }
    }
}

/// A sequence that runs.
struct Sequence {
    id: u64,
    tokens: Vec<u32>,
    /// Tokens whose keys and values are in pages.
    cached: usize,
    /// The length at which it ends.
    max_length: usize,
    pages: Vec<u32>,
    settings: Settings,
    random: u64,
}

/// A token of a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    pub id: u64,
    pub token: u32,
    /// Whether it is the last one.
    pub ends: bool,
}

/// Runs sequences on a backend.
pub struct Engine<B> {
    pub backend: B,
    free: Vec<u32>,
    sequences: Vec<Sequence>,
    /// Tokens after which a sequence ends.
    end: Arc<[u32]>,
    next: u64,
}

impl<B: Backend> Engine<B> {
    pub fn new(backend: B, end: &[u32]) -> Engine<B> {
        let free = (0..backend.pages() as u32).rev().collect();
        Engine { backend, free, sequences: Vec::new(), end: end.into(), next: 0 }
    }

    /// The number of pages that no sequence has.
    pub fn free_pages(&self) -> usize {
        self.free.len()
    }

    pub fn is_idle(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Adds a sequence, and gives it pages for all of its tokens. An error refuses this sequence alone.
    pub fn join(&mut self, prompt: &[u32], settings: Settings) -> Result<u64> {
        let context = self.backend.config().context;
        if prompt.is_empty() || prompt.len() >= context {
            return Err(format!(
                "a prompt has 1 to {} tokens, and this one has {}",
                context - 1,
                prompt.len()
            )
            .into());
        }
        if let Some(token) = prompt.iter().find(|token| **token as usize >= self.backend.vocabulary()) {
            return Err(format!("there is no token {token}").into());
        }
        if settings.tokens == 0 {
            return Err("a sequence has at least one token after its prompt".into());
        }
        let max_length = (prompt.len().saturating_add(settings.tokens)).min(context);
        let needs = max_length.div_ceil(PAGE);
        let [most_sequences, _] = self.backend.limits();
        if self.sequences.len() >= most_sequences {
            return Err(format!("{most_sequences} sequences run already").into());
        }
        self.reserve(needs)?;
        let pages = self.free.split_off(self.free.len() - needs);
        let (id, tokens, random) = (self.next, prompt.to_vec(), settings.seed);
        self.next += 1;
        self.sequences.push(Sequence { id, tokens, cached: 0, max_length, pages, settings, random });
        Ok(id)
    }

    /// Makes sure of free pages, with more memory if there are too few.
    fn reserve(&mut self, needs: usize) -> Result<()> {
        let (free, all) = (self.free.len(), self.backend.pages());
        let mut why = String::new();
        if needs > free {
            let least = all + needs - free;
            let grown = self.backend.grow(least.max(2 * all)).or_else(|_| self.backend.grow(least));
            why = grown.err().map_or(why, |error| format!(": {error}"));
            self.free.extend(all as u32..self.backend.pages() as u32);
        }
        if needs > self.free.len() {
            return Err(format!("the sequence needs {needs} pages, and {free} of {all} are free{why}").into());
        }
        Ok(())
    }

    /// Ends a sequence, and frees its pages. There may be no such sequence any more.
    pub fn cancel(&mut self, id: u64) {
        let Some(at) = self.sequences.iter().position(|of| of.id == id) else { return };
        self.free.extend(self.sequences.remove(at).pages);
    }

    /// As much of new prompts as a step reads, and a token or several for each sequence whose prompt has been read. Where the backend fails, its tokens
    /// are read again by the next step. The error is returned by the first step that has no events.
    pub fn step(&mut self) -> Result<Vec<Event>> {
        let [_, mut room] = self.backend.limits();
        let counts = self.sequences.iter().map(|of| of.tokens.len() - of.cached).enumerate();
        let (ready, mut prompts): (Vec<_>, Vec<_>) = counts.partition(|(_, waiting)| *waiting == 1);
        for (_, waiting) in &mut prompts {
            *waiting = room.min(*waiting);
            room -= *waiting;
        }
        prompts.retain(|(_, count)| *count > 0);
        let left = self.sequences.iter().map(|of| of.max_length - of.tokens.len());
        let most_steps = self.backend.most_steps();
        let steps = if left.min() >= Some(most_steps) { most_steps } else { 1 };
        let (mut events, mut result) = (Vec::new(), Ok(()));
        for (part, steps) in [(prompts, 1), (ready, steps)].iter().filter(|(part, _)| !part.is_empty()) {
            result = self.advance(part, *steps, &mut events);
            if result.is_err() {
                break;
            }
        }
        for event in events.iter().filter(|event| event.ends) {
            self.cancel(event.id);
        }
        // What has been sampled is reported first.
        if events.is_empty() { result.map(|()| events) } else { Ok(events) }
    }

    /// Reads tokens of sequences, and samples where they are the last ones.
    fn advance(&mut self, all: &[(usize, usize)], steps: usize, events: &mut Vec<Event>) -> Result<()> {
        let (mut batch, mut wanted) = (Batch::default(), Vec::new());
        for (row, (at, count)) in all.iter().enumerate() {
            let sequence = &self.sequences[*at];
            let range = sequence.cached..sequence.cached + count;
            batch.tokens.extend(&sequence.tokens[range.clone()]);
            batch.positions.extend(range.clone().map(|at| at as u32));
            batch.sequences.extend(std::iter::repeat_n(row, *count));
            batch.tables.push(sequence.pages.clone());
            if range.end == sequence.tokens.len() {
                batch.wanted.push(batch.tokens.len() - 1);
                wanted.push((*at, sequence.random));
            }
        }
        // A step that fails is tried again with the same random numbers.
        let (mut choices, mut states) = (Vec::new(), wanted.clone());
        for _ in 0..steps {
            for (at, state) in &mut states {
                let Settings { temperature, top_p, .. } = self.sequences[*at].settings;
                let (random, next) = uniform(*state);
                *state = next;
                let random = if temperature > 0.0 { random } else { 0.0 };
                choices.push(Choice { temperature, top_p, random });
            }
        }
        let chosen = self.backend.choose(&batch, &choices)?;
        if chosen.len() != choices.len() {
            return Err("the backend chose too few tokens".into());
        }
        for (at, count) in all {
            self.sequences[*at].cached += count;
        }
        for (row, (at, _)) in wanted.iter().enumerate() {
            let sequence = &mut self.sequences[*at];
            for token in chosen.iter().copied().skip(row).step_by(wanted.len()) {
                sequence.random = uniform(sequence.random).1;
                sequence.tokens.push(token);
                let ends = self.end.contains(&token) || sequence.tokens.len() >= sequence.max_length;
                events.push(Event { id: sequence.id, token, ends });
                if ends {
                    break;
                }
            }
            sequence.cached = sequence.tokens.len() - 1;
        }
        Ok(())
    }
}

impl Choice {
    /// A token, with the probabilities of the logits.
    fn token(&self, logits: &[f32]) -> u32 {
        let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let numbered = || logits.iter().copied().enumerate();
        let Some((best, most)) = numbered().min_by(order) else { return 0 };
        if self.temperature <= 0.0 {
            return best as u32;
        }
        let weight = |(at, x): (usize, f32)| (at, ((x - most) / self.temperature).exp());
        let mut weights: Vec<(usize, f32)> = numbered().map(weight).collect();
        weights.sort_unstable_by(order);
        let total: f32 = weights.iter().map(|of| of.1).sum();
        let (mut kept, mut sum) = (0, 0.0);
        while kept < weights.len() && sum < self.top_p * total {
            sum += weights[kept].1;
            kept += 1;
        }
        let mut left = self.random * sum;
        let chosen = weights[..kept].iter().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        chosen.map_or(best, |of| of.0) as u32
    }
}

/// A number from 0 to 1, and the next state of its generator (SplitMix64).
pub fn uniform(state: u64) -> (f32, u64) {
    let next = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = next;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((bits ^ (bits >> 31)) >> 40) as f32 / (1u64 << 24) as f32, next)
}
