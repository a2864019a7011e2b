//! The arguments of a kernel, from its declaration: sizes and numbers by name, and elements that are drawn.

use tilewright::sim::Options;
use tilewright::{Arg, Element, KernelDef};
use tilewright_codegen::tile::{self, Require, Space, Tensor};
use tilewright_codegen::{Elem, with_element};
use tilewright_fuzz::Written;
use tilewright_layout::{Symbol, Value};

use crate::number::{Random, bits};

/// An element by its position in memory, and by the number that was drawn for it.
type Contents = Box<dyn Fn(usize, f64) -> f64>;

/// A kernel, and the contents of its tensors.
pub struct Inputs {
    written: Written,
    contents: Vec<(&'static str, Contents)>,
    numbers: String,
    options: Options,
}

/// Makes a kernel whose inputs are drawn, and whose results are not set before it runs.
///
/// Numbers are between -4 and 4, of 16 bits between -2 and 2; bytes and unsigned integers have any bits; other integers are below 1000.
pub fn inputs(def: &KernelDef) -> Inputs {
    let written = Written::new(def);
    Inputs { written, contents: Vec::new(), numbers: String::new(), options: Options::default() }
}

impl Inputs {
    /// A tensor has these functions of the drawn numbers. A result then has them before the kernel runs.
    pub fn with(self, name: &'static str, element: impl Fn(f64) -> f64 + 'static) -> Inputs {
        self.indexed(name, move |_, drawn| element(drawn))
    }

    /// A tensor has these functions of positions in memory and drawn numbers.
    #[track_caller]
    pub fn indexed(mut self, name: &'static str, element: impl Fn(usize, f64) -> f64 + 'static) -> Inputs {
        let program = &self.written.program;
        let is_named = |arg: &tile::Arg| match arg {
            tile::Arg::Tensor(id) => program.tensor(*id).name == name,
            tile::Arg::Scalar(_) => false,
        };
        assert!(program.args.iter().any(is_named), "no tensor `{name}`");
        self.contents.push((name, Box::new(element)));
        self
    }

    /// Integers from 0 to `limit - 1`.
    pub fn below(self, name: &'static str, limit: u32) -> Inputs {
        self.with(name, move |drawn| drawn.rem_euclid(f64::from(limit)))
    }

    /// Indices of `count` rows; every fifth is far out of bounds.
    pub fn rows(self, name: &'static str, count: u32) -> Inputs {
        let wild = [-1.0, f64::from(i32::MIN), f64::from(i32::MAX), f64::from(count)];
        let row = move |drawn: f64| drawn.rem_euclid(f64::from(count));
        self.indexed(name, move |at, drawn| if at % 5 == 3 { wild[at / 5 % 4] } else { row(drawn) })
    }

    /// A tensor has these elements.
    pub fn list<T: Copy + Into<f64> + 'static>(self, name: &'static str, all: impl Into<Vec<T>>) -> Inputs {
        let all: Vec<T> = all.into();
        self.indexed(name, move |at, _| all[at].into())
    }

    /// A result is set to 0 before the kernel runs.
    pub fn zero(self, name: &'static str) -> Inputs {
        self.with(name, |_| 0.0)
    }

    /// Numbers and sizes of all calls, such as `"scale = 0.5"`.
    pub fn set(mut self, numbers: &str) -> Inputs {
        self.numbers = numbers.into();
        self
    }

    /// Kernels run in this many schedules.
    pub fn schedules(mut self, count: u32) -> Inputs {
        self.options.schedules = count;
        self
    }

    /// The device has this many multiprocessors.
    pub fn multiprocessors(mut self, count: u32) -> Inputs {
        self.options.limits.multiprocessors = count;
        self
    }

    /// At each of these sizes, the results of every variant are the results of the kernel's text.
    #[track_caller]
    pub fn written<'a>(&self, sizes: impl IntoIterator<Item = &'a str>) {
        for sizes in sizes {
            println!("{sizes}");
            self.written.check(&self.args(sizes), &self.options, None);
        }
    }

    /// [`Inputs::written`], where error bounds do not decide: results differ by at most `within` from the text in double precision.
    #[track_caller]
    pub fn near<'a>(&self, within: f64, sizes: impl IntoIterator<Item = &'a str>) {
        for sizes in sizes {
            println!("{sizes}");
            self.written.check(&self.args(sizes), &self.options, Some(within));
        }
    }

    /// The arguments for sizes and numbers such as `"M = 5, N = 37, scale = 0.5"`. Tensors have no gaps unless strides are named.
    #[track_caller]
    pub fn args(&self, sizes: &str) -> Vec<Arg> {
        let names: Vec<(&str, f64)> = (self.numbers.split(',').chain(sizes.split(',')))
            .filter_map(|part| part.split_once('='))
            .map(|(name, number)| (name.trim(), number.trim().parse().expect("a number")))
            .collect();
        let mut sizes = Sizes(names.iter().map(|(name, n)| (Symbol::new(name), *n as i64)).collect());
        self.written.program.requires.iter().for_each(|require| sizes.compute(require));
        let argument = |(seed, arg): (usize, &tile::Arg)| match arg {
            tile::Arg::Tensor(id) => self.tensor(self.written.program.tensor(*id), &mut sizes, seed as u64),
            tile::Arg::Scalar(id) => {
                let scalar = &self.written.program.scalars[*id as usize];
                let named = names.iter().find(|(name, _)| *name == scalar.name);
                let (_, number) = named.unwrap_or_else(|| panic!("no number `{}`", scalar.name));
                with_element!(scalar.elem, T => Arg::number(T::from_raw(bits(scalar.elem, *number))))
            }
        };
        self.written.program.args.iter().enumerate().map(argument).collect()
    }

    #[track_caller]
    fn tensor(&self, tensor: &Tensor, sizes: &mut Sizes, seed: u64) -> Arg {
        let (extents, strides) = sizes.shape(tensor);
        let contents = self.contents.iter().find(|(name, _)| *name == tensor.name);
        let is_result = matches!(tensor.space, Space::Global { mutable: true });
        let size = extents.iter().zip(&strides).map(|(n, d)| n.saturating_sub(1) * d).sum::<usize>() + 1;
        let count = if extents.contains(&0) { 0 } else { size };
        let mut random = Random::new(seed);
        let drawn = (0..count).map(|at| {
            let number = draw(tensor.elem, &mut random);
            contents.map_or(number, |(_, element)| element(at, number))
        });
        let raw: Vec<u64> = drawn.map(|number| bits(tensor.elem, number)).collect();
        let arg = with_element!(tensor.elem, T => {
            let data: Vec<T> = raw.into_iter().map(T::from_raw).collect();
            match (is_result, contents) {
                (false, _) => Arg::tensor(&data, extents),
                (true, Some(_)) => Arg::in_out(&data, extents),
                (true, None) => Arg::output::<T>(extents),
            }
        });
        arg.strides(strides)
    }
}

fn draw(elem: Elem, random: &mut Random) -> f64 {
    let word = random.word();
    match elem {
        Elem::I8 => f64::from(word % 255) - 127.0,
        Elem::I16 | Elem::I32 | Elem::I64 => f64::from(word % 1000),
        Elem::Bool => f64::from(word % 2),
        _ if !elem.is_float() => f64::from(word),
        _ if elem.bytes() < 4 => f64::from(word % 2001) / 500.0 - 2.0,
        _ => f64::from(word % 2001) / 250.0 - 4.0,
    }
}

/// The values of symbols.
struct Sizes(Vec<(Symbol, i64)>);

impl Sizes {
    fn value(&self, value: Value) -> Option<i64> {
        value.evaluate(&|symbol| self.symbol(symbol))
    }

    fn symbol(&self, symbol: Symbol) -> Option<i64> {
        self.0.iter().find(|known| known.0 == symbol).map(|known| known.1)
    }

    /// Sets a size that the kernel computes from others.
    fn compute(&mut self, require: &Require) {
        if let Some((symbol, size)) = require.computed(&|symbol| self.symbol(symbol))
            && self.symbol(symbol).is_none()
        {
            self.0.push((symbol, size));
        }
    }

    /// Extents and strides. A stride without a number is the least after the contiguous mode, the modes before it, and those after it.
    #[track_caller]
    fn shape(&mut self, tensor: &Tensor) -> (Vec<usize>, Vec<usize>) {
        let (extents, strides): (Vec<Value>, Vec<Value>) = tensor.plain().leaves().unzip();
        let size = |value: &Value| {
            let size = self.value(*value).unwrap_or_else(|| panic!("no size {value} of `{}`", tensor.name));
            size as usize
        };
        let extents: Vec<usize> = extents.iter().map(size).collect();
        let first = strides.iter().position(|stride| self.value(*stride) == Some(1)).unwrap_or(0);
        let mut packed: Vec<usize> =
            strides.iter().map(|stride| self.value(*stride).unwrap_or(0) as usize).collect();
        for mode in (0..=first).rev().chain(first + 1..strides.len()) {
            if self.value(strides[mode]).is_none()
                && let Value::Sym { of: symbol, over: 1, .. } = strides[mode]
            {
                let least = extents.iter().zip(&packed).map(|(n, d)| n * d).max().unwrap_or(1).max(1);
                self.0.push((symbol, least as i64));
            }
            packed[mode] = self.value(strides[mode]).expect("a stride") as usize;
        }
        (extents, packed)
    }
}
