//! The load of statements on each unit of a multiprocessor, outside of loops and in their iterations. It knows no statement.

use tilewright_layout::Value;

use super::rates::Rates;

/// The load of statements on a multiprocessor.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Load {
    /// Clocks of the tensor cores.
    pub(super) tensor: f64,
    /// Clocks of CUDA cores that multiply and add.
    pub(super) cores: f64,
    /// Instructions of warps.
    pub(super) issued: f64,
    /// Wavefronts of shared memory.
    pub(super) wavefronts: f64,
    /// Accesses of warps to global memory, bytes of the sectors that they load, the part loaded by vectors of 16 bytes, and
    /// bytes stored.
    pub(super) accesses: f64,
    pub(super) loaded: f64,
    pub(super) vectors: f64,
    pub(super) stored: f64,
    /// Bytes stored by bulk copies, and further bytes of all stores where rows begin in the middle of a sector.
    pub(super) bulk: f64,
    pub(super) cut_stores: f64,
    /// Bytes from the shared memory of other blocks.
    pub(super) remote: f64,
    /// Rows of 128 bytes that bulk copies fetch.
    pub(super) rows: f64,
    /// Clocks of latency, in which no other work runs.
    pub(super) latency: f64,
    /// Clocks in which a block waits for copies that it has just started.
    pub(super) exposed: f64,
}

impl Load {
    pub(super) fn times(self, times: f64) -> Load {
        Load::default().beside(self, times)
    }

    /// Both, one after the other, the second `times` times.
    pub(super) fn then(self, other: Load, times: f64) -> Load {
        Load {
            latency: self.latency + other.latency * times,
            exposed: self.exposed + other.exposed * times,
            ..self.beside(other, times)
        }
    }

    /// Both at once, by different warps.
    pub(super) fn beside(self, other: Load, times: f64) -> Load {
        Load {
            latency: self.latency.max(other.latency * times),
            exposed: self.exposed.max(other.exposed * times),
            ..self.with(other, |one, other| one + other * times)
        }
    }

    /// A function of each part of both.
    fn with(self, other: Load, of: impl Fn(f64, f64) -> f64) -> Load {
        Load {
            tensor: of(self.tensor, other.tensor),
            cores: of(self.cores, other.cores),
            issued: of(self.issued, other.issued),
            wavefronts: of(self.wavefronts, other.wavefronts),
            accesses: of(self.accesses, other.accesses),
            loaded: of(self.loaded, other.loaded),
            vectors: of(self.vectors, other.vectors),
            stored: of(self.stored, other.stored),
            bulk: of(self.bulk, other.bulk),
            cut_stores: of(self.cut_stores, other.cut_stores),
            remote: of(self.remote, other.remote),
            rows: of(self.rows, other.rows),
            latency: of(self.latency, other.latency),
            exposed: of(self.exposed, other.exposed),
        }
    }

    /// Clocks of each part of a multiprocessor, if it runs alone.
    pub(super) fn parts(&self, rates: &Rates) -> [(&'static str, f64); 7] {
        [
            ("tensor cores", self.tensor),
            ("CUDA cores", self.cores),
            ("issue", self.issued / rates.issue),
            ("accesses", self.accesses * rates.begin),
            ("shared memory", self.wavefronts),
            ("L2 cache", self.loaded / rates.loaded + self.stores(rates)),
            ("other blocks' memory", self.remote / rates.remote),
        ]
    }

    /// The clocks of stores.
    fn stores(&self, rates: &Rates) -> f64 {
        self.stored / rates.stored + self.bulk / rates.bulk
    }

    /// The clocks of the part that takes longest.
    pub(super) fn clocks(&self, rates: &Rates) -> f64 {
        self.parts(rates).iter().fold(0.0, |most, part| most.max(part.1))
    }

    /// Further sectors if rows begin in the middle of a sector.
    pub(super) fn cut(&self, rates: &Rates) -> f64 {
        Load { wavefronts: self.wavefronts + self.vectors * rates.cut, ..*self }.clocks(rates)
            - self.clocks(rates)
    }

    /// The load where rows of results begin in the middle of a sector.
    pub(super) fn with_cut_stores(self) -> Load {
        Load { bulk: self.bulk + self.cut_stores, ..self }
    }

    /// Clamps every part to at least 0.
    pub(super) fn executed(self) -> Load {
        self.with(Load::default(), f64::max)
    }

    /// Is there any work?
    pub(super) fn size(&self, rates: &Rates) -> f64 {
        self.clocks(rates) + self.rows
    }
}

/// The load of statements: beside loops of unknown length, and in an iteration of each of these.
#[derive(Clone, Default)]
pub(super) struct Parts {
    pub(super) once: Load,
    pub(super) loops: Vec<(Trips, Load)>,
    /// The load that the last iterations of the loop around it do not execute, since they would prefetch past its end.
    pub(super) omitted: Load,
}

impl Parts {
    pub(super) fn then(&mut self, other: Parts) {
        self.join(other, Load::then);
    }

    pub(super) fn join(&mut self, other: Parts, with: fn(Load, Load, f64) -> Load) {
        self.once = with(self.once, other.once, 1.0);
        self.omitted = self.omitted.beside(other.omitted, 1.0);
        for (times, load) in other.loops {
            let known = self.loops.iter_mut().find_map(|(of, known)| Some((ratio(times, *of)?, known)));
            match known {
                Some((often, known)) => *known = with(*known, load, often),
                None => self.loops.push((times, load)),
            }
        }
    }
}

/// A number of iterations: a product of sizes, divided and rounded up. A divisor 0 means no division.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Trips {
    pub(super) of: Value,
    pub(super) times: [Option<Value>; 2],
    pub(super) over: u32,
}

impl Trips {
    /// One size.
    pub(super) fn of(size: Value) -> Trips {
        Trips { of: size, times: [None; 2], over: 0 }
    }

    /// The product, where it has no more factors than there is room for, and neither is divided.
    pub(super) fn product(self, other: Trips) -> Option<Trips> {
        let factors = |trips: Trips| [Some(trips.of)].into_iter().chain(trips.times).flatten();
        let mut all = factors(self).chain(factors(other));
        let (of, times) = (all.next()?, [all.next(), all.next()]);
        (all.next().is_none() && self.over == 0 && other.over == 0).then_some(Trips { of, times, over: 0 })
    }

    /// A part of it, rounded up.
    pub(super) fn part(self, of: i64) -> Option<Trips> {
        if self.times == [None; 2] && self.over == 0 {
            return Some(Trips { of: self.of.ceil_div(of)?, ..self });
        }
        Some(Trips { over: self.over.max(1).checked_mul(u32::try_from(of).ok()?)?, ..self })
    }
}

/// The ratio of two counts of iterations, where both are multiples of one size.
fn ratio(one: Trips, other: Trips) -> Option<f64> {
    if one == other {
        return Some(1.0);
    }
    let alone = |of: Trips| (of.times == [None; 2] && of.over == 0).then_some(of.of);
    let (one, other) = (alone(one)?, alone(other)?);
    let parts = |of: Value| match of {
        Value::Sym { times, of, over } => Some((of, times as f64 / f64::from(over))),
        _ => None,
    };
    let ((of, one), (same, other)) = (parts(one)?, parts(other)?);
    (of == same && other > 0.0).then(|| one / other)
}
