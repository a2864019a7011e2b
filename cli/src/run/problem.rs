//! Generated arguments for a kernel: sizes from the command line, contents from a seed.

use tilewright_codegen::launch::{self, Given};
use tilewright_codegen::source::spelling::did_you_mean;
use tilewright_codegen::thread::Param;
use tilewright_codegen::{Elem, Generated, number};
use tilewright_layout::{Symbol, Value};

use super::input::{Contents, Input};
use crate::output::{Failure, Result, pointed};

/// The default extent: no tile divides it.
const USUAL: [(&str, i64); 4] = [("M", 200), ("N", 100), ("K", 50), ("L", 3)];

/// The arguments of a launch.
pub(crate) struct Problem {
    /// Extents by name; extents of products first.
    pub(super) sizes: Vec<(String, i64)>,
    /// One for each parameter of the user's function.
    pub(super) arguments: Vec<Argument>,
}

/// An argument.
pub(crate) enum Argument {
    /// A tensor.
    Tensor(Tensor),
    /// A number.
    Number { name: String, elem: Elem, value: f64 },
}

/// A tensor and its contents.
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) elem: Elem,
    /// The name of its first extent.
    pub(super) along: Option<String>,
    pub(crate) written: bool,
    /// Are its initial contents read?
    pub(super) read: bool,
    pub(crate) extents: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) contents: Contents,
    /// The contents as stored, gaps included; each is a value of the element type. Empty where a device makes them.
    pub(crate) values: Vec<f64>,
}

impl Tensor {
    /// Are its contents read?
    pub(crate) fn is_read(&self) -> bool {
        self.read
    }

    /// The value at a coordinate.
    pub(crate) fn at(&self, coord: &[usize]) -> f64 {
        self.values[self.offset_of(coord)]
    }

    /// The number of its elements in memory, gaps included.
    pub(crate) fn stored_len(&self) -> usize {
        let last: Option<Vec<usize>> = self.extents.iter().map(|extent| extent.checked_sub(1)).collect();
        last.map_or(0, |last| self.offset_of(&last) + 1)
    }

    /// The index of its storage.
    pub(super) fn offset_of(&self, coord: &[usize]) -> usize {
        coord.iter().zip(&self.strides).map(|(at, stride)| at * stride).sum()
    }
}

impl Problem {
    /// The arguments of a kernel for these sizes, as the inputs describe them, with their values.
    pub(crate) fn new(
        kernel: &Generated,
        sizes: Option<&str>,
        inputs: &[Input],
        seed: u64,
    ) -> Result<Problem> {
        let (mut problem, known) = Problem::described(kernel, sizes, inputs, seed)?;
        fits(params(kernel), &known, memory())?;
        let mut random = Random(seed);
        for argument in &mut problem.arguments {
            let Argument::Tensor(tensor) = argument else { continue };
            let (elem, contents) = (tensor.elem, tensor.contents);
            let len = tensor.stored_len() as i64;
            tensor.values = repeated(len, contents, |at| random.contents(elem, contents, at));
        }
        Ok(problem)
    }

    /// The arguments of a kernel whose tensors a device fills.
    pub(crate) fn on_device(kernel: &Generated, sizes: Option<&str>, inputs: &[Input]) -> Result<Problem> {
        Ok(Problem::described(kernel, sizes, inputs, 0)?.0)
    }

    fn described(
        kernel: &Generated,
        sizes: Option<&str>,
        inputs: &[Input],
        seed: u64,
    ) -> Result<(Problem, Known)> {
        let params = params(kernel);
        let mut known = extents(kernel, params, sizes)?;
        known.described(kernel, params, inputs)?;
        // With alpha and beta, the result is read as well, but not a second one.
        let mut accumulates = kernel.params.iter().any(|param| param.tensor.is_none());
        let mut arguments = Vec::new();
        for param in params {
            let contents = |wanted: &str| {
                inputs.iter().find(|input| input.name == wanted).and_then(|input| input.contents)
            };
            arguments.push(match param {
                Param::Pointer { name, elem, write, shape, stride } => {
                    let contents = contents(name);
                    let (shape, strides) = known.modes(name, shape, stride)?;
                    let read = !write || accumulates || contents.is_some();
                    accumulates &= !write;
                    // Numbers of four bits, two in an element.
                    let is_packed = along(param, 1) == Value::symbol("K").ceil_div(2);
                    Argument::Tensor(Tensor {
                        name: name.clone(),
                        elem: *elem,
                        along: match along(param, 0) {
                            Some(Value::Sym { times: 1, of, over: 1 }) => Some(of.name().to_owned()),
                            _ => None,
                        },
                        written: *write,
                        read,
                        contents: match contents {
                            _ if !read => Contents::Constant(poison(*elem)),
                            None if is_packed => Contents::Bytes,
                            contents => contents.unwrap_or(Contents::Uniform),
                        },
                        values: Vec::new(),
                        extents: shape.iter().map(|&n| n as usize).collect(),
                        strides: strides.iter().map(|&d| d as usize).collect(),
                    })
                }
                Param::Scalar { name, elem } => {
                    let contents = contents(name).unwrap_or(Contents::Uniform);
                    let value = Random(seed ^ arguments.len() as u64).contents(*elem, contents, 0);
                    Argument::Number { name: name.clone(), elem: *elem, value }
                }
                _ => return Err(strange(&kernel.name)),
            });
        }
        Ok((Problem { sizes: known.extents.clone(), arguments }, known))
    }

    /// The arguments.
    pub(crate) fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// The tensors.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Tensor(tensor) => Some(tensor),
            Argument::Number { .. } => None,
        })
    }

    /// A number by its name.
    pub(crate) fn number(&self, wanted: &str) -> Option<f64> {
        self.arguments.iter().find_map(|argument| match argument {
            Argument::Number { name, value, .. } if name == wanted => Some(*value),
            _ => None,
        })
    }
}

/// The user's parameters, with which every variant begins.
fn params(kernel: &Generated) -> &[Param] {
    &kernel.variants[0].program.params[..kernel.params.len()]
}

/// Extents by name.
type Sizes = Vec<(String, i64)>;

/// Extents by name, and the arguments of a launch that is planned and does not run: each begins where an allocation could.
pub(crate) fn unallocated(
    kernel: &Generated,
    sizes: Option<&str>,
    inputs: &[Input],
) -> Result<(Sizes, Vec<Given>)> {
    let params = params(kernel);
    let mut known = extents(kernel, params, sizes)?;
    known.described(kernel, params, inputs)?;
    let given = placed(kernel, params, &mut known)?;
    Ok((known.extents, given))
}

/// Extents by name, for the project's own benchmarks. A kernel has some of them.
pub fn placed_with(kernel: &Generated, sizes: &[(&str, i64)]) -> Result<Vec<Given>> {
    let params = params(kernel);
    let mut known = extents(kernel, params, None)?;
    for (name, extent) in &mut known.extents {
        let size = sizes.iter().find(|(size, _)| size == name);
        *extent = size.map_or(*extent, |(_, value)| *value);
    }
    known.described(kernel, params, &[])?;
    placed(kernel, params, &mut known)
}

/// Arguments of these sizes.
fn placed(kernel: &Generated, params: &[Param], known: &mut Known) -> Result<Vec<Given>> {
    let mut given = Vec::new();
    for (offset_of, param) in params.iter().enumerate() {
        given.push(match param {
            Param::Pointer { name, elem, write, shape, stride } => {
                let (extents, strides) = known.modes(name, shape, stride)?;
                let (len, address) = (reach(&extents, &strides) as u64, (offset_of as u64 + 1) << 50);
                Given::Tensor(launch::Tensor { elem: *elem, mutable: *write, extents, strides, len, address })
            }
            Param::Scalar { elem, .. } => Given::Scalar(*elem),
            _ => return Err(strange(&kernel.name)),
        });
    }
    Ok(given)
}

/// The extent of a mode.
fn along(param: &Param, mode: usize) -> Option<Value> {
    let Param::Pointer { shape, .. } = param else { return None };
    shape.get(mode).copied()
}

/// The length of a tensor in elements, gaps included; 0 if a mode is empty.
fn reach(shape: &[i64], strides: &[i64]) -> i64 {
    let last = |(n, d): (&i64, &i64)| (n - 1).saturating_mul(*d);
    shape.iter().zip(strides).map(last).fold(1, i64::saturating_add)
}

/// Refuses sizes whose tensors do not fit free memory. Each element is generated as a double, converted for
/// the kernel and, for a result, read back.
fn fits(params: &[Param], sizes: &Known, memory: i64) -> Result<()> {
    let mut known =
        Known { extents: sizes.extents.clone(), computed: sizes.computed.clone(), ..Known::default() };
    let (mut all, mut parts) = (0i64, Vec::new());
    for param in params {
        let Param::Pointer { name, elem, shape, stride, .. } = param else { continue };
        let (shape, strides) = known.modes(name, shape, stride)?;
        let elements = if shape.contains(&0) { 0 } else { reach(&shape, &strides) };
        let bytes = elements.saturating_mul(2 * 8 + i64::from(elem.bytes()));
        all = all.saturating_add(bytes);
        parts.push(format!("{name} {bytes}"));
    }
    match all <= memory {
        true => Ok(()),
        false => Err(Failure::Refused(format!(
            "these sizes take {all} bytes of memory for arguments, results and their comparison, and {memory} are free: {}\nhelp: give smaller sizes, with --size",
            parts.join(" + ")
        ))),
    }
}

/// Free memory of this machine in bytes, if known.
fn memory() -> i64 {
    const OTHERWISE: i64 = 16 << 30;
    let reported = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = reported.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<i64>().ok());
    kilobytes.map_or(OTHERWISE, |kilobytes| kilobytes.saturating_mul(1024))
}

fn strange(name: &str) -> Failure {
    Failure::Refused(format!(
        "arguments for `{name}` cannot be made up: its sizes do not follow from its extents"
    ))
}

/// The sizes that are known so far.
#[derive(Default)]
struct Known {
    extents: Vec<(String, i64)>,
    /// Extents that the kernel computes from others.
    computed: Vec<(String, i64)>,
    strides: Vec<(String, i64)>,
    /// Tensors that are to be row-major, or column-major.
    rows: Vec<(String, bool)>,
}

impl Known {
    /// Applies the options about arguments.
    fn described(&mut self, kernel: &Generated, params: &[Param], inputs: &[Input]) -> Result {
        let refuse = |message: String| Err(Failure::Refused(message));
        let mut set: Vec<(&str, i64)> = Vec::new();
        for input in inputs {
            let Input { name, .. } = input;
            let offset_of = kernel.params.iter().position(|param| param.name == *name);
            let Some((param, known)) =
                offset_of.map(|offset_of| (&params[offset_of], &kernel.params[offset_of]))
            else {
                let names: Vec<&str> = kernel.params.iter().map(|param| param.name.as_str()).collect();
                let near = did_you_mean(name, names.iter().copied());
                let help = near.unwrap_or_else(|| format!("its arguments are {}", names.join(", ")));
                return refuse(format!("the kernel has no argument `{name}`\nhelp: {help}"));
            };
            if let Some(elem) = input.elem.filter(|elem| *elem != known.elem) {
                return refuse(format!(
                    "`{name}` is of {elem} here, and the kernel takes {}\nhelp: write {}, or choose another element type by a \
                     key, where the kernel has one",
                    known.elem, known.elem
                ));
            }
            let Param::Pointer { shape, .. } = param else {
                if input.extents.is_empty() && input.rows.is_none() {
                    continue;
                }
                return refuse(format!("`{name}` is a number\nhelp: write `{name}: 0.5`"));
            };
            if !input.extents.is_empty() && input.extents.len() != shape.len() {
                let (given, modes) = (input.extents.len(), shape.len());
                return refuse(format!("`{name}` has {given} extents here, and the kernel's has {modes}"));
            }
            for ((reported, extent), value) in input.extents.iter().zip(shape) {
                match value {
                    Value::Sym { times: 1, of, over: 1 }
                        if reported.as_deref().is_none_or(|reported| reported == of.name()) =>
                    {
                        if let Some((_, other)) = set
                            .iter()
                            .find(|(size, _)| *size == of.name())
                            .filter(|(_, other)| other != extent)
                        {
                            return refuse(format!(
                                "{} is {extent} in `{name}`, and {other} in another input",
                                of.name()
                            ));
                        }
                        set.push((of.name(), *extent));
                    }
                    Value::Int(n) if n == extent => {}
                    _ => {
                        return refuse(format!(
                            "`{name}` has an extent {extent} here where the kernel's is `{value}`"
                        ));
                    }
                }
            }
            self.rows.extend(input.rows.map(|rows| (name.clone(), rows)));
        }
        let mut given = Vec::new();
        for (name, value) in set {
            self.extents
                .iter_mut()
                .filter(|(known, _)| known == name)
                .for_each(|(_, extent)| *extent = value);
            given.push((name.to_owned(), value));
        }
        for require in &kernel.requires {
            let Some((symbol, value)) = require.computed(&self.lookup()) else { continue };
            if let Some((_, other)) =
                given.iter().find(|(name, other)| name == symbol.name() && *other != value)
            {
                return refuse(format!(
                    "an extent is {other} in an input, and the kernel computes {value} for it from the others\nhelp: leave it out, or write {value}"
                ));
            }
            self.computed.push((symbol.name().to_owned(), value));
        }
        Ok(())
    }

    /// The extents and strides of a tensor.
    fn modes(&mut self, name: &str, shape: &[Value], stride: &[Value]) -> Result<(Vec<i64>, Vec<i64>)> {
        let shape: Option<Vec<i64>> = shape.iter().map(|n| n.evaluate(&self.lookup())).collect();
        let shape = shape.ok_or_else(|| strange(name))?;
        let rows = self.rows.iter().find(|(known, _)| known == name).map(|(_, rows)| *rows);
        let strides = strides(&shape, stride, rows == Some(true), self).ok_or_else(|| strange(name))?;
        let contiguous = |mode: usize| strides[mode] == 1 || shape[mode] <= 1;
        match rows {
            Some(true) if !contiguous(shape.len() - 1) => Err(Failure::Refused(format!(
                "`{name}` cannot be row-major: the kernel fixes its strides\nhelp: write column-major, or leave it out"
            ))),
            Some(false) if !contiguous(0) => Err(Failure::Refused(format!(
                "`{name}` cannot be column-major: the kernel fixes its strides\nhelp: write row-major, or leave it out"
            ))),
            _ => Ok((shape, strides)),
        }
    }

    fn lookup(&self) -> impl Fn(Symbol) -> Option<i64> {
        |symbol: Symbol| {
            let all = self.extents.iter().chain(&self.computed).chain(&self.strides);
            all.into_iter().find(|(name, _)| name == symbol.name()).map(|(_, value)| *value)
        }
    }
}

/// Named extents, with their values from the command line.
fn extents(kernel: &Generated, params: &[Param], text: Option<&str>) -> Result<Known> {
    let computed = |name: Symbol| kernel.requires.iter().any(|require| require.of == Some(name));
    let mut names: Vec<&str> = Vec::new();
    for param in params {
        let Param::Pointer { shape, .. } = param else { continue };
        for value in shape {
            if let Value::Sym { of, .. } = value
                && !names.contains(&of.name())
                && !computed(*of)
            {
                names.push(of.name());
            }
        }
    }
    let offset_of = |name: &str| USUAL.iter().position(|(usual, _)| *usual == name).unwrap_or(USUAL.len());
    names.sort_by_key(|name| offset_of(name));
    let usual = |name: &str| USUAL.get(offset_of(name)).map_or(64, |(_, value)| *value);
    let mut extents: Vec<(String, i64)> = names.iter().map(|name| (name.to_string(), usual(name))).collect();
    let Some(text) = text else { return Ok(Known { extents, ..Known::default() }) };
    let help = format!("this kernel's sizes are {}", names.join(","));
    let wrong = |word: &str, what: String| pointed(&what, "--size ", [text, word], &help);
    for (position, word) in text.split(',').enumerate() {
        let (name, number) = match word.split_once('=') {
            Some((name, number)) => (Some(name.trim()), number),
            None => (None, word),
        };
        let offset_of = match name {
            Some(name) => names.iter().position(|known| *known == name),
            None => (position < names.len()).then_some(position),
        };
        let Some(offset_of) = offset_of else {
            return Err(wrong(
                name.unwrap_or(word),
                match name {
                    Some(name) => format!("there is no size `{name}`"),
                    None => format!("this is one size too many: the kernel has {}", names.len()),
                },
            ));
        };
        match number.trim().parse() {
            Ok(value @ 0..=0x7fff_ffff) => extents[offset_of].1 = value,
            _ => return Err(wrong(number, "a size is a number from 0 to 2147483647".into())),
        }
    }
    Ok(Known { extents, ..Known::default() })
}

/// Strides of a tensor: named strides are as small as possible, in the order of modes, or from the last one on.
fn strides(shape: &[i64], strides: &[Value], from_last: bool, known: &mut Known) -> Option<Vec<i64>> {
    let fixed = |value: &Value| value.int();
    // After the last element that the modes with constant strides reach together.
    let last = |(n, d): (&i64, &Value)| Some((n - 1).max(0).saturating_mul(fixed(d)?));
    let mut far = shape.iter().zip(strides).filter_map(last).fold(1, i64::saturating_add);
    let mut all = vec![0; shape.len()];
    for offset_of in 0..shape.len() {
        let mode = if from_last { shape.len() - 1 - offset_of } else { offset_of };
        let (extent, stride) = (&shape[mode], &strides[mode]);
        let evaluated = stride.evaluate(&known.lookup());
        let value = match evaluated {
            Some(value) => value,
            None => {
                let Value::Sym { times: 1, of, over: 1 } = stride else { return None };
                known.strides.push((of.name().to_owned(), far));
                far
            }
        };
        if fixed(stride).is_none() {
            far = far.max((*extent.max(&1)).saturating_mul(value));
        }
        all[mode] = value;
    }
    Some(all)
}

/// Elements of a tensor by their numbers in memory: random ones are repeated after a prime number of them.
fn repeated(len: i64, contents: Contents, value: impl FnMut(i64) -> f64) -> Vec<f64> {
    const PERIOD: i64 = 1_048_573;
    let period = if contents == Contents::Index { len } else { len.min(PERIOD) };
    let mut values: Vec<f64> = (0..period).map(value).collect();
    while (values.len() as i64) < len {
        values.extend_from_within(..values.len().min(len as usize - values.len()));
    }
    values
}

/// Random numbers from a seed: splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A value of an element type: between -1 and 1, or a small integer, so that sums of products stay in
    /// range.
    fn value(&mut self, elem: Elem) -> f64 {
        let bits = self.next();
        match elem {
            Elem::Bool => (bits % 2) as f64,
            elem if elem.is_signed() => (bits % 9) as f64 - 4.0,
            elem if elem.is_integer() => (bits % 9) as f64,
            _ => rounded(elem, (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0),
        }
    }
}

impl Random {
    /// An element with these contents, by its number in memory.
    fn contents(&mut self, elem: Elem, contents: Contents, at: i64) -> f64 {
        match contents {
            Contents::Uniform => self.value(elem),
            // Box and Muller's.
            Contents::Normal => {
                let mut uniform = || ((self.next() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
                let (radius, angle) =
                    ((-2.0 * uniform().ln()).sqrt(), 2.0 * std::f64::consts::PI * uniform());
                rounded(elem, radius * angle.cos())
            }
            Contents::Constant(value) => rounded(elem, value),
            Contents::Index => rounded(elem, at as f64),
            Contents::Bytes => (self.next() % 256) as f64,
        }
    }
}

/// The initial contents of a result.
fn poison(elem: Elem) -> f64 {
    match elem.is_float() {
        true => f64::NAN,
        // All bits set, or the sign alone.
        false => {
            let (least, most) = number::range(elem);
            if elem.is_signed() { least as f64 } else { most as f64 }
        }
    }
}

/// The nearest value of an element type.
fn rounded(elem: Elem, value: f64) -> f64 {
    decoded(elem, encoded(elem, value))
}

/// The bits of a value in an element type.
pub(crate) fn encoded(elem: Elem, value: f64) -> u64 {
    number::Number::Float(value).bits(elem)
}

/// The value of bits of an element type.
pub(crate) fn decoded(elem: Elem, bits: u64) -> f64 {
    number::value(elem, bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel;

    #[track_caller]
    fn check(name: &str, keys: &str, sizes: Option<&str>, expected: &str) {
        let generated = kernel::choose(name, keys).ok().map(|chosen| chosen.generated).expect("a kernel");
        let reported = match Problem::new(&generated, sizes, &[], 1) {
            Ok(problem) => {
                let one =
                    |t: &Tensor| format!("{} {:?}:{:?} {}", t.name, t.extents, t.strides, t.values.len());
                problem.tensors().map(one).collect::<Vec<_>>().join("\n")
            }
            Err(Failure::Refused(why)) => why,
            Err(Failure::Wrong) => String::new(),
        };
        assert_eq!(reported, expected);
    }

    #[test]
    fn sizes_and_strides() {
        check("tutorial", "", Some("7,5,3"), "a [7, 3]:[1, 7] 21\nb [5, 3]:[1, 5] 15\nc [7, 5]:[1, 7] 35");
        check("naive", "", Some("K=3,M=7,N=5"), "a [7, 3]:[3, 1] 21\nb [5, 3]:[1, 5] 15\nc [7, 5]:[5, 1] 35");
        check("softmax", "", Some("4"), "x [4, 100]:[100, 1] 400\ny [4, 100]:[100, 1] 400");
        check("tutorial", "", Some("7,0,3"), "a [7, 3]:[1, 7] 21\nb [0, 3]:[1, 1] 0\nc [7, 0]:[1, 7] 0");
        check(
            "matmul",
            "batched=true",
            Some("7,5,3,2"),
            "a [7, 3, 2]:[1, 7, 21] 42\nb [5, 3, 2]:[1, 5, 15] 30\nc [7, 5, 2]:[1, 7, 35] 70",
        );
    }

    #[track_caller]
    fn check_inputs(name: &str, inputs: &[&str], expected: &str) {
        let generated = kernel::choose(name, "").ok().map(|chosen| chosen.generated).expect("a kernel");
        let inputs: Vec<Input> = inputs.iter().map(|text| Input::read(text).expect(text)).collect();
        let reported = match Problem::new(&generated, None, &inputs, 1) {
            Ok(problem) => {
                let one =
                    |t: &Tensor| format!("{} {:?}:{:?} {:?}", t.name, t.extents, t.strides, t.values.first());
                problem.tensors().map(one).collect::<Vec<_>>().join("\n")
            }
            Err(Failure::Refused(why)) => why,
            Err(Failure::Wrong) => String::new(),
        };
        assert_eq!(reported, expected);
    }

    #[test]
    fn inputs_describe_arguments() {
        check_inputs(
            "softmax",
            &["x: f32 [M=4, N=7] row-major ones"],
            "x [4, 7]:[7, 1] Some(1.0)\ny [4, 7]:[7, 1] Some(NaN)",
        );
        check_inputs(
            "tutorial",
            &["a: [3, 2] index", "b: [N=5, K=2] zeros"],
            "a [3, 2]:[1, 3] Some(0.0)\nb [5, 2]:[1, 5] Some(0.0)\nc [3, 5]:[1, 3] Some(NaN)",
        );
        check_inputs(
            "softmax",
            &["z: zeros"],
            "the kernel has no argument `z`\nhelp: its arguments are x, y",
        );
        check_inputs(
            "softmax",
            &["x: f64"],
            "`x` is of f64 here, and the kernel takes f32\nhelp: write f32, or choose another element type by a key, where the kernel has one",
        );
        check_inputs("softmax", &["x: [4]"], "`x` has 1 extents here, and the kernel's has 2");
        check_inputs("softmax", &["x: [N=4, M=5]"], "`x` has an extent 4 here where the kernel's is `M`");
        check_inputs("softmax", &["x: [4, 5]", "y: [5, 5]"], "M is 5 in `y`, and 4 in another input");
        check_inputs(
            "softmax",
            &["x: [4, 5] column-major"],
            "`x` cannot be column-major: the kernel fixes its strides\nhelp: write row-major, or leave it out",
        );
    }

    #[test]
    fn sizes_that_cannot_be_read() {
        check(
            "tutorial",
            "",
            Some("7,x,3"),
            "a size is a number from 0 to 2147483647\n  --size 7,x,3\n           ^\nhelp: this kernel's sizes are M,N,K",
        );
        check(
            "tutorial",
            "",
            Some("7,5,3,1"),
            "this is one size too many: the kernel has 3\n  --size 7,5,3,1\n               ^\nhelp: this kernel's sizes are M,N,K",
        );
        check(
            "softmax",
            "",
            Some("M=7,K=5"),
            "there is no size `K`\n  --size M=7,K=5\n             ^\nhelp: this kernel's sizes are M,N",
        );
    }

    #[test]
    fn sizes_that_do_not_fit_memory() {
        let generated = kernel::choose("tutorial", "").ok().map(|chosen| chosen.generated).expect("a kernel");
        let params = &generated.variants[0].program.params[..3];
        let reported = |sizes: &str, memory: i64| {
            let Ok(known) = extents(&generated, params, Some(sizes)) else {
                panic!("these are no sizes: {sizes}")
            };
            match fits(params, &known, memory) {
                Err(Failure::Refused(why)) => why,
                _ => String::new(),
            }
        };
        assert_eq!(reported("200,100,50", 20 * (10_000 + 5_000 + 20_000)), "");
        assert_eq!(
            reported("100000,100000,100000", 16 << 30),
            "these sizes take 600000000000 bytes of memory for arguments, results and their comparison, and 17179869184 are free: a 200000000000 + b 200000000000 + c 200000000000\nhelp: give smaller sizes, with --size"
        );
        let most = reported("2147483647,2147483647,2147483647", 16 << 30);
        assert!(most.contains("take 9223372036854775807 bytes"), "{most}");
        assert_eq!(reported("0,2147483647,0", 1), "");
    }

    #[test]
    fn values_keep_their_bits() {
        for elem in Elem::all() {
            let mut random = Random(5);
            for _ in 0..100 {
                let value = random.value(elem);
                assert_eq!(decoded(elem, encoded(elem, value)), value, "{elem}");
            }
        }
    }
}
