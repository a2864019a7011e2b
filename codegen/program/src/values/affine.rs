//! Affine integer expressions of a kernel: linear combinations of the block index, the thread index, loop
//! variables, sizes, scalar arguments and integers loaded from memory, and of their quotients,
//! remainders, products, minima and maxima. Coordinates, loop bounds and both sides of conditions are
//! affine expressions. Their ranges are computed in `tile::range` of the generator.

use tilewright_layout::{Swizzle, Symbol, Value};

use crate::values::id::Id;

/// The leaves of a coordinate.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Coord {
    /// The block's index along x, y, z.
    Block(u8),
    /// A loop variable.
    Var(Id),
    /// The thread's index in its group; in a family, in its member.
    Thread(Id),
    /// The index of the family's member that the thread belongs to.
    Member(Id),
    /// The thread's index with a swizzle, given by its bits, base and shift, applied to it.
    Swizzled(Id, (u32, u32, i32)),
    /// The block's rank in its cluster.
    ClusterRank,
    /// The start of an iteration's K tile when the partial K tile comes first: 0 for iteration 0, then the
    /// size of the partial tile, then in steps of a whole tile.
    Begin {
        /// The iteration.
        iteration: Box<Affine>,
        /// The extent.
        of: Symbol,
        /// Elements of a whole tile.
        tile: i64,
    },
    /// How many slots of a ring the group has passed. The count persists across loops.
    Phase(Id),
    /// `of / over`, and its remainder by `extent` where there is one.
    Submode {
        /// The dividend.
        of: Box<Affine>,
        /// The divisor.
        over: i64,
        /// The modulus.
        extent: Option<i64>,
    },
    /// A size that launch knows, `of / over` rounded up.
    Size {
        /// The extent or stride.
        of: Symbol,
        /// The divisor.
        over: u32,
    },
    /// An integer argument.
    Scalar(Id),
    /// An integer that `Op::Take` of tile programs has read.
    Loaded {
        /// Its index in `Program::reads` of tile programs.
        number: Id,
        /// May it differ from thread to thread?
        per_thread: bool,
    },
    /// The result of a binary operation.
    Two(Arith, Box<[Affine; 2]>),
}

/// Binary operations that are not affine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Arith {
    /// `a * b`
    Mul,
    /// `a / b`, rounded down; `b` is positive.
    Div,
    /// `a % b`, not negative; `b` is positive.
    Rem,
    /// The smaller.
    Min,
    /// The greater.
    Max,
}

impl Arith {
    /// Its result, saturated to 64 bits.
    ///
    /// ```
    /// use tilewright_program::affine::Arith;
    /// assert_eq!(Arith::Div.apply(-1, 4), -1);
    /// assert_eq!(Arith::Rem.apply(-1, 4), 3);
    /// ```
    pub fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Arith::Mul => a.saturating_mul(b),
            Arith::Div => a.div_euclid(b.max(1)),
            Arith::Rem => a.rem_euclid(b.max(1)),
            Arith::Min => a.min(b),
            Arith::Max => a.max(b),
        }
    }
}

/// `constant + Σ factor · coordinate`
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Affine {
    /// The integer.
    pub constant: i64,
    /// The multiples, each coordinate once, in order.
    pub terms: Vec<(Coord, i64)>,
}

impl From<i64> for Affine {
    fn from(constant: i64) -> Affine {
        Affine { constant, terms: Vec::new() }
    }
}

impl From<Coord> for Affine {
    fn from(coord: Coord) -> Affine {
        Affine { constant: 0, terms: vec![(coord, 1)] }
    }
}

impl From<Value> for Affine {
    /// A size.
    fn from(size: Value) -> Affine {
        match size {
            Value::Int(n) => n.into(),
            Value::Sym { times, of, over } => {
                Affine { constant: 0, terms: vec![(Coord::Size { of, over: over.max(1) }, times)] }
            }
            Value::Basis { .. } | Value::Any => Affine::default(),
        }
    }
}

impl Affine {
    /// The quotient, where the constant and all factors are multiples of the divisor.
    pub fn over(&self, divisor: i64) -> Option<Affine> {
        let divides = |n: i64| divisor > 0 && n % divisor == 0;
        let all = divides(self.constant) && self.terms.iter().all(|(_, by)| divides(*by));
        all.then(|| Affine {
            constant: self.constant / divisor,
            terms: self.terms.iter().map(|(coord, by)| (coord.clone(), by / divisor)).collect(),
        })
    }

    /// The size, if the whole expression is one.
    ///
    /// ```
    /// use tilewright_program::affine::Affine;
    /// use tilewright_layout::Value;
    /// let tiles = Value::symbol("K").ceil_div(8).unwrap();
    /// assert_eq!(Affine::from(tiles).size(), Some(tiles));
    /// assert_eq!(Affine::from(tiles).plus(&1.into(), 1).unwrap().size(), None);
    /// ```
    pub fn size(&self) -> Option<Value> {
        match (&self.terms[..], self.constant) {
            ([], n) => Some(Value::Int(n)),
            (&[(Coord::Size { of, over }, times)], 0) if times > 0 => Some(Value::Sym { times, of, over }),
            _ => None,
        }
    }

    /// A binary operation on two expressions; `None` if it overflows 64 bits.
    ///
    /// ```
    /// use tilewright_program::affine::{Affine, Arith, Coord};
    /// let block = Affine::from(Coord::Block(0));
    /// let four = Affine::two(Arith::Mul, &block, &4.into()).unwrap();
    /// assert_eq!(four, block.times(4).unwrap());
    /// assert_eq!(Affine::two(Arith::Min, &7.into(), &9.into()), Some(7.into()));
    /// ```
    pub fn two(with: Arith, a: &Affine, b: &Affine) -> Option<Affine> {
        Some(match (with, a.constant(), b.constant()) {
            (_, Some(x), Some(y)) => with.apply(x, y).into(),
            (Arith::Mul, Some(n), _) => b.times(n)?,
            (Arith::Mul, _, Some(n)) => a.times(n)?,
            (Arith::Div, _, Some(n)) if n > 0 => a.submode(n, None),
            (Arith::Rem, _, Some(n)) if n > 0 => a.submode(1, Some(n)),
            (Arith::Min | Arith::Max, ..) if a == b => a.clone(),
            _ => Coord::Two(with, Box::new([a.clone(), b.clone()])).into(),
        })
    }

    /// Its value, if it is an integer.
    pub fn constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// `self + other * times`; `None` if it overflows 64 bits.
    pub fn plus(&self, other: &Affine, times: i64) -> Option<Affine> {
        let mut sum = self.clone();
        sum.constant = sum.constant.checked_add(other.constant.checked_mul(times)?)?;
        for (coord, factor) in &other.terms {
            let factor = factor.checked_mul(times)?;
            match sum.terms.iter_mut().find(|(known, _)| known == coord) {
                Some((_, known)) => *known = known.checked_add(factor)?,
                None => sum.terms.push((coord.clone(), factor)),
            }
        }
        sum.terms.retain(|(_, factor)| *factor != 0);
        sum.terms.sort();
        Some(sum)
    }

    /// The same with products of sums as sums of products.
    pub fn expanded(&self) -> Option<Affine> {
        let mut sum = Affine::from(self.constant);
        for (coord, times) in &self.terms {
            let Coord::Two(Arith::Mul, of) = coord else {
                sum = sum.plus(&coord.clone().into(), *times)?;
                continue;
            };
            for (a, n) in of[0].summands() {
                for (b, m) in of[1].summands() {
                    sum =
                        sum.plus(&Affine::two(Arith::Mul, &a, &b)?, times.checked_mul(n.checked_mul(m)?)?)?;
                }
            }
        }
        Some(sum)
    }

    /// Its terms and its constant, each with a factor.
    fn summands(&self) -> impl Iterator<Item = (Affine, i64)> {
        let constant = (self.constant != 0).then_some((1.into(), self.constant));
        self.terms.iter().map(|(coord, factor)| (coord.clone().into(), *factor)).chain(constant)
    }

    /// `self * times`.
    pub fn times(&self, times: i64) -> Option<Affine> {
        Affine::default().plus(self, times)
    }

    /// The submode of this number: `self / over % extent`.
    pub fn submode(&self, over: i64, extent: Option<i64>) -> Affine {
        match (self.constant(), extent) {
            (_, Some(1)) => 0.into(),
            (Some(n), Some(extent)) => n.div_euclid(over).rem_euclid(extent).into(),
            (Some(n), None) => n.div_euclid(over).into(),
            (None, None) if over == 1 => self.clone(),
            _ => Coord::Submode { of: Box::new(self.clone()), over, extent }.into(),
        }
    }

    /// The number of terms, including terms inside submodes, and the nesting depth of submodes.
    pub(crate) fn parts(&self) -> (usize, usize) {
        let (mut count, mut deepest) = (1, 0);
        let mut left: Vec<(&Affine, usize)> = vec![(self, 0)];
        while let Some((affine, depth)) = left.pop() {
            deepest = deepest.max(depth);
            for (coord, _) in &affine.terms {
                count += 1;
                left.extend(coord.inside().iter().map(|inner| (inner, depth + 1)));
            }
        }
        (count, deepest)
    }

    /// Its integers: constants, factors and divisors, including integers inside of other parts.
    pub(crate) fn constants(&self) -> Vec<i64> {
        let mut result = Vec::new();
        let mut left = vec![self];
        while let Some(affine) = left.pop() {
            result.push(affine.constant);
            for (coord, factor) in &affine.terms {
                result.push(*factor);
                match coord {
                    Coord::Submode { over, extent, .. } => result.extend([*over, extent.unwrap_or(1)]),
                    Coord::Begin { tile, .. } => result.push(*tile),
                    _ => {}
                }
                left.extend(coord.inside());
            }
        }
        result
    }

    /// The sizes in it, including sizes inside of other parts.
    pub fn symbols(&self) -> Vec<Symbol> {
        let mut result = Vec::new();
        let mut left = vec![self];
        while let Some(affine) = left.pop() {
            for (coord, _) in &affine.terms {
                if let Coord::Size { of, .. } | Coord::Begin { of, .. } = coord {
                    result.push(*of);
                }
                left.extend(coord.inside());
            }
        }
        result
    }

    /// The same with an expression substituted for a coordinate; `None` if it overflows 64 bits.
    ///
    /// ```
    /// use tilewright_program::affine::{Affine, Coord};
    /// let slot = Affine::from(Coord::Var(0)).submode(1, Some(2));
    /// assert_eq!(slot.with(&Coord::Var(0), &3.into()).unwrap().constant(), Some(1));
    /// ```
    pub fn with(&self, this: &Coord, by: &Affine) -> Option<Affine> {
        self.substitute(&|coord| (coord == this).then(|| by.clone()))
    }

    /// The same with expressions substituted for coordinates that have one; `None` if it overflows 64 bits.
    pub fn substitute(&self, by: &dyn Fn(&Coord) -> Option<Affine>) -> Option<Affine> {
        let mut sum = Affine::from(self.constant);
        for (coord, factor) in &self.terms {
            let term = match (by(coord), coord) {
                (Some(by), _) => by,
                (None, Coord::Submode { of, over, extent }) => of.substitute(by)?.submode(*over, *extent),
                (None, Coord::Begin { iteration, of, tile }) => {
                    let iteration = Box::new(iteration.substitute(by)?);
                    Coord::Begin { iteration, of: *of, tile: *tile }.into()
                }
                (None, Coord::Two(op, of)) => {
                    Affine::two(*op, &of[0].substitute(by)?, &of[1].substitute(by)?)?
                }
                (None, coord) => coord.clone().into(),
            };
            sum = sum.plus(&term, *factor)?;
        }
        Some(sum)
    }

    /// The same with another coordinate substituted for one.
    pub fn replaced(&self, this: &Coord, by: &Coord) -> Affine {
        let swap = |coord: &Coord| match coord {
            coord if coord == this => by.clone(),
            Coord::Submode { of, over, extent } => {
                Coord::Submode { of: Box::new(of.replaced(this, by)), over: *over, extent: *extent }
            }
            Coord::Begin { iteration, of, tile } => {
                Coord::Begin { iteration: Box::new(iteration.replaced(this, by)), of: *of, tile: *tile }
            }
            Coord::Two(with, of) => {
                Coord::Two(*with, Box::new(of.each_ref().map(|of| of.replaced(this, by))))
            }
            coord => coord.clone(),
        };
        let mut terms: Vec<(Coord, i64)> = self.terms.iter().map(|(c, n)| (swap(c), *n)).collect();
        terms.sort();
        Affine { constant: self.constant, terms }
    }

    /// Does any part of it satisfy this predicate?
    pub fn any(&self, test: &dyn Fn(&Coord) -> bool) -> bool {
        self.terms.iter().any(|(coord, _)| {
            let of_thread = |coord: &Coord| match coord {
                Coord::Swizzled(group, _) => test(&Coord::Thread(*group)),
                _ => false,
            };
            test(coord) || of_thread(coord) || coord.inside().iter().any(|inner| inner.any(test))
        })
    }

    /// Does it depend on the thread?
    pub fn per_thread(&self) -> bool {
        self.any(&|coord| matches!(coord, Coord::Thread(_) | Coord::Loaded { per_thread: true, .. }))
    }

    /// May it differ among the blocks of a cluster of `blocks` blocks, which are neighbours along x?
    pub fn per_block(&self, blocks: i64) -> bool {
        self.terms.iter().any(|(coord, _)| match coord {
            Coord::Block(0) | Coord::ClusterRank | Coord::Loaded { .. } => true,
            Coord::Submode { of, over, .. } => {
                // `block.x / blocks`, in a persistent kernel of `tile * blocks + rank`.
                let within = |(coord, factor): &(Coord, i64)| match coord {
                    Coord::ClusterRank => *factor == 1,
                    Coord::Block(0) => of.terms.len() == 1 && *factor == 1,
                    _ => factor % blocks == 0 && !Affine::from(coord.clone()).per_block(blocks),
                };
                let of_cluster = of.constant == 0 && over % blocks == 0 && of.terms.iter().all(within);
                !of_cluster && of.per_block(blocks)
            }
            coord => coord.inside().iter().any(|inner| inner.per_block(blocks)),
        })
    }

    /// Its value for these coordinates, saturated to 64 bits, which is out of bounds of every tensor.
    pub fn eval(&self, lookup: &dyn Fn(&Coord) -> i64) -> i64 {
        self.terms.iter().fold(self.constant, |sum, (coord, factor)| {
            let value = match coord {
                Coord::Submode { of, over, extent } => {
                    let submode = of.eval(lookup).div_euclid(*over);
                    extent.map_or(submode, |n| submode.rem_euclid(n))
                }
                Coord::Swizzled(group, parts) => swizzle(*parts).apply(lookup(&Coord::Thread(*group))),
                Coord::Two(with, of) => with.apply(of[0].eval(lookup), of[1].eval(lookup)),
                _ => lookup(coord),
            };
            sum.saturating_add(factor.saturating_mul(value))
        })
    }
}

impl Coord {
    /// The sums inside of it.
    pub fn inside(&self) -> &[Affine] {
        match self {
            Coord::Submode { of, .. } | Coord::Begin { iteration: of, .. } => std::slice::from_ref(of),
            Coord::Two(_, of) => &of[..],
            _ => &[],
        }
    }

    /// A thread's index in its group, with a swizzle applied to it.
    pub fn thread(group: Id, swizzle: Swizzle) -> Coord {
        match swizzle.is_identity() {
            true => Coord::Thread(group),
            false => Coord::Swizzled(group, (swizzle.bits(), swizzle.base(), swizzle.shift())),
        }
    }
}

/// The swizzle of a [`Coord::Swizzled`].
pub fn swizzle((bits, base, shift): (u32, u32, i32)) -> Swizzle {
    Swizzle::new(bits, base, shift).unwrap_or(Swizzle::IDENTITY)
}
