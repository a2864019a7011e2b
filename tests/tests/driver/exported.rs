//! Exported kernels: the C files are compiled, and their launches are compared with Rust's, on a driver of a few lines that
//! prints its calls. C records what Rust decides, so these are tests of the recording, of the tables and of the calls of the driver,
//! with arguments of any kind, under a sanitizer.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tilewright::kernels;
use tilewright::prelude::*;
use tilewright_codegen::definition::Variant;
use tilewright_codegen::launch::{
    self, Exported, Given, Image, Limits, Map, Passed, Plan, Record, Refusal, Tensor, plan, ranking,
};
use tilewright_codegen::target::STATIC_SHARED;
use tilewright_codegen::thread;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_codegen::{Elem, Generated};
use tilewright_tests::fake::Folder;
use tilewright_tests::lists;
use tilewright_tests::sweep::{count, share};

/// Where a launch has its workspace.
const WORKSPACE: u64 = 1 << 50;

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)) >> 1
}

/// The replacement of a variant's code: a part of its source.
fn code(variant: &Variant) -> Vec<u8> {
    let source = variant.source.as_bytes();
    [&hash(source).to_le_bytes(), &source[..source.len().min(600)]].concat()
}

/// The name of a variant: a hash of its code.
fn named(variant: &Variant) -> u64 {
    hash(&code(variant))
}

/// A binary of a variant: its name, the number of bytes of its code, and the code. The driver compares.
fn binary(variant: &Variant) -> Vec<u8> {
    let code = code(variant);
    [&named(variant).to_le_bytes()[..], &(code.len() as u64).to_le_bytes(), &code].concat()
}

/// Binaries for sm_80 and sm_90, where the variant runs on them, and PTX for newer devices.
fn images(variant: &Variant) -> Result<Vec<Image>, Refusal> {
    let program = &variant.program;
    let runs = |arch: &u32| program.arch <= *arch && (!program.arch_specific || program.arch == *arch);
    let image = |arch| Image { arch, exact: program.arch_specific, ptx: false, bytes: binary(variant) };
    let ptx = |arch| Image { arch, exact: false, ptx: true, bytes: binary(variant) };
    let newer = (!program.arch_specific).then(|| ptx(program.arch));
    Ok([80, 90].into_iter().filter(runs).map(image).chain(newer).collect())
}

pub(crate) fn exported(kernel: &Generated) -> Exported {
    launch::export(kernel, images).unwrap_or_else(|why| panic!("{}: {why}", kernel.name))
}

/// The driver, and a program that reads launches and prints the outcome of each.
pub(crate) fn program(kernel: &Generated) -> String {
    let name = &kernel.name;
    let read: String = kernel
        .params
        .iter()
        .map(|param| match param.tensor {
            Some(_) => format!("        read_tensor(&arguments.{});\n", param.name),
            None => format!("        read_number(&arguments.{0}, sizeof arguments.{0});\n", param.name),
        })
        .collect();
    let tensors = kernel.params.iter().filter(|param| param.tensor.is_some());
    let moved: String =
        tensors.map(|param| format!("    arguments.{}.address += by;\n", param.name)).collect();
    let program = include_str!("exported.c").replace("NAME", name);
    program.replace("        READ\n", &read).replace("    MOVE\n", &moved)
}

/// Writes the files of a kernel, and compiles them with the driver. Every compiler must accept them without a warning.
pub(crate) fn built(folder: &Folder, kernel: &Generated) -> PathBuf {
    let (files, name, path) = (exported(kernel), &kernel.name, folder.path());
    std::fs::write(path.join(format!("{name}.h")), &files.header).unwrap();
    std::fs::write(path.join(format!("{name}.c")), &files.source).unwrap();
    std::fs::write(path.join("main.c"), program(kernel)).unwrap();
    std::fs::copy(path.join(format!("{name}.c")), path.join(format!("{name}.cpp"))).unwrap();
    let compile = |compiler: &str, file: &str, options: &[&str]| {
        let warnings =
            ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror"];
        let mut command = Command::new(compiler);
        command.current_dir(path).args(warnings).args(options).args(["-c", file]);
        match command.output() {
            Ok(output) => {
                let message = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{compiler} {file}: {message}");
            }
            Err(_) => println!("skipped: no {compiler}"),
        }
    };
    let source = format!("{name}.c");
    compile("clang", &source, &["-std=c11", "-o", "clang.o"]);
    compile("clang++", &format!("{name}.cpp"), &["-std=c++11", "-o", "clang_cpp.o"]);
    compile("g++", &format!("{name}.cpp"), &["-std=c++11", "-o", "cpp.o"]);
    // The program itself defines the driver's functions.
    compile("gcc", &source, &["-std=c11", "-O1", "-fsanitize=undefined", "-DTILEWRIGHT_DRIVER=0"]);
    compile("gcc", "main.c", &["-std=c11"]);
    let own = format!("{name}.o");
    let objects = [&*own, "main.o", "-o", "launches", "-fsanitize=undefined", "-rdynamic", "-ldl"];
    let output = Command::new("gcc").current_dir(path).args(objects).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path.join("launches")
}

/// A launch.
pub(crate) struct Case {
    pub(crate) limits: Limits,
    pub(crate) given: Vec<Given>,
    /// The bits of numbers, by argument.
    pub(crate) numbers: Vec<u64>,
}

impl Case {
    /// For the program's input.
    pub(crate) fn text(&self) -> String {
        let Limits { arch, shared_bytes, threads, grid: [x, y, z], multiprocessors, model: _ } = self.limits;
        let mut text = format!("{arch} {shared_bytes} {threads} {x} {y} {z} {multiprocessors}\n");
        for (given, number) in self.given.iter().zip(&self.numbers) {
            match given {
                Given::Tensor(Tensor { elem, extents, strides, len, address, .. }) => {
                    let _ = write!(text, "{address} {len} {} {}", *elem as u32, extents.len());
                    extents.iter().chain(strides).for_each(|n| {
                        let _ = write!(text, " {n}");
                    });
                    text.push('\n');
                }
                Given::Scalar(_) => {
                    let _ = writeln!(text, "{number}");
                }
            }
        }
        text
    }

    /// The outcome of a launch in Rust.
    fn expected(&self, kernel: &Generated) -> String {
        let plan = match plan(kernel, &self.given, &self.limits) {
            Ok(plan) => plan,
            Err(refusal) => {
                // C does not list the variants of a reason, and messages end where their memory does.
                let without = |line: &str| match line.strip_prefix("  variant") {
                    Some(rest) => format!("  {}", rest.split_once(": ").expect("a reason").1),
                    None => line.to_owned(),
                };
                let mut message = refusal.to_string().lines().map(without).collect::<Vec<_>>().join("\n");
                message.truncate(1023);
                return format!("refused {}", message.replace('\n', " | "));
            }
        };
        if plan.is_empty() {
            return format!("planned -1 {:?} 0", plan.grid);
        }
        let variant = plan.variant.min(kernel.variants.len());
        let zeros = Case::zeros(&plan);
        let mut text = format!("planned {variant} {:?} {}", plan.grid, zeros + plan.zeroed());
        if plan.zeroed() > 0 {
            let _ = write!(text, " ; clear {} {}", WORKSPACE + zeros, plan.zeroed());
        }
        // After memory is cleared, a kernel does not start early.
        let mut may_overlap = plan.zeroed() == 0;
        for packed in &plan.packed {
            let arguments = packed.arguments(kernel, &self.given, WORKSPACE);
            let given = arguments.map(Given::Tensor);
            text += &self.step(&kernel.packs[packed.pack].kernel, &packed.plan, &given, may_overlap);
            may_overlap = true;
        }
        text + &self.step(kernel, &plan, &plan.arguments(&self.given, WORKSPACE), may_overlap)
    }

    /// Where the memory that is 0 begins in C's workspace: after everything else.
    fn zeros(plan: &Plan) -> u64 {
        if plan.zeroed() > 0 { plan.workspace().next_multiple_of(256) } else { plan.workspace() }
    }

    fn step(&self, kernel: &Generated, plan: &Plan, given: &[Given], may_overlap: bool) -> String {
        let variant = kernel.variant(plan.variant);
        let launch = &variant.program.launch;
        let dynamic = if launch.shared_bytes > STATIC_SHARED { launch.shared_bytes } else { 0 };
        let cluster = launch.cluster.map(|blocks| blocks.max(1));
        let overlaps = u8::from(may_overlap && launch.overlaps && self.limits.arch >= 90);
        let mut text = format!(
            " ; {} {:?} {} {dynamic} {cluster:?} {overlaps}",
            named(variant),
            plan.grid,
            launch.threads
        );
        let address = |index: usize| match &given[index] {
            Given::Tensor(tensor) => tensor.address,
            Given::Scalar(_) => 0,
        };
        for (passed, param) in plan.passed.iter().zip(&variant.program.params) {
            let _ = match passed {
                Passed::Tensor(index) => write!(text, " {}", address(*index)),
                Passed::Scalar(index) => write!(text, " {}", self.numbers[*index]),
                Passed::Int { value, .. } => write!(text, " {}", value.cast_unsigned()),
                Passed::Workspace { offset, zeroed } => {
                    let zeros = if *zeroed { Case::zeros(plan) } else { 0 };
                    write!(text, " {}", WORKSPACE + zeros + offset)
                }
                Passed::Map(map) => write!(text, " {}", mapped(map, param, address(map.arg))),
            };
        }
        text
    }
}

/// A tensor map as the driver prints it.
fn mapped(map: &Map, param: &thread::Param, address: u64) -> String {
    assert!(matches!(param, thread::Param::TensorMap { .. }));
    let stride = |(stride, extent): (&u64, &u64)| if *extent == 1 { 16 } else { *stride };
    let strides: Vec<u64> = map.strides.iter().zip(&map.extents[1..]).map(stride).collect();
    format!("map {address} {:?} {strides:?} {:?} {}", map.extents, map.tile, map.swizzle).replace(", ", ",")
}

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next() as usize % all.len()]
    }

    /// A launch of a kernel: mostly a right one, on sizes of every kind.
    fn case(&mut self, kernel: &Generated) -> Case {
        let limits = Limits {
            multiprocessors: self.of(&[132, 132, 108, 7]),
            ..Limits::of(self.of(&[90, 90, 90, 80, 75, 86, 100]))
        };
        let params = &kernel.variants[0].program.params[..kernel.params.len()];
        let mut sizes: Vec<(String, i64)> = Vec::new();
        let (mut given, mut numbers) = (Vec::new(), Vec::new());
        for (index, param) in params.iter().enumerate() {
            numbers.push(self.next() % (1 << 31));
            let thread::Param::Pointer { elem, write, shape, stride, .. } = param else {
                given.push(Given::Scalar(kernel.params[index].elem));
                continue;
            };
            let extents: Vec<i64> = shape.iter().map(|value| self.extent(*value, &mut sizes)).collect();
            // Named strides from the tightest on, some with gaps.
            let mut reach = 1;
            let strides: Vec<i64> = extents
                .iter()
                .zip(stride)
                .map(|(extent, value)| match value.int() {
                    Some(n) => {
                        reach = reach.max(n * extent);
                        n
                    }
                    None => 0,
                })
                .collect();
            let strides: Vec<i64> = strides
                .into_iter()
                .zip(&extents)
                .map(|(known, extent)| {
                    if known != 0 {
                        return known;
                    }
                    let own = reach + self.of(&[0, 0, 0, 1, 8, 64]);
                    reach = own * (*extent).max(1);
                    own
                })
                .collect();
            let shift = self.of(&[0, 0, 0, 16, 8, 4, 64]) / u64::from(elem.bytes()) * u64::from(elem.bytes());
            let address = ((index as u64 + 1) << 44) + shift;
            let steps = extents.iter().zip(&strides);
            let last: i128 = steps.map(|(n, d)| i128::from(n - 1) * i128::from(*d)).sum();
            let len = if extents.contains(&0) { 0 } else { u64::try_from(last + 1).unwrap_or(0) };
            given.push(Given::Tensor(Tensor {
                elem: *elem,
                mutable: *write,
                extents,
                strides,
                len,
                address,
            }));
        }
        self.spoil(&mut given);
        Case { limits, given, numbers }
    }

    fn extent(&mut self, value: tilewright_layout::Value, sizes: &mut Vec<(String, i64)>) -> i64 {
        use tilewright_layout::Value;
        let Value::Sym { times, of, over } = value else { return value.int().unwrap_or(1) };
        let known = sizes.iter().find(|(name, _)| name == of.name()).map(|(_, value)| *value);
        let size = known.unwrap_or_else(|| {
            let size = match self.next() % 8 {
                0 => 1,
                1 if self.next().is_multiple_of(4) => 0,
                2 => self.of(&[1, 2, 3, 7, 33, 100, 129, 1000, 1023, 4097]),
                3 => self.next() as i64 % 5000 + 1,
                _ => self.of(&[16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 14336]),
            };
            sizes.push((of.name().to_owned(), size));
            size
        });
        times * ((size + i64::from(over) - 1) / i64::from(over.max(1)))
    }

    /// Makes a launch wrong, sometimes.
    fn spoil(&mut self, given: &mut [Given]) {
        let index = self.next() as usize % given.len();
        let other = self.next() as usize % given.len();
        let there = match &given[other] {
            Given::Tensor(tensor) => tensor.address,
            Given::Scalar(_) => 0,
        };
        let what = self.next() % 60;
        let mode = self.next() as usize;
        let Given::Tensor(tensor) = &mut given[index] else { return };
        let mode = mode % tensor.extents.len();
        match what {
            0 => tensor.extents[mode] += 1,
            1 => tensor.strides[mode] += 1,
            2 => tensor.strides[mode] = 0,
            3 => tensor.address += 1,
            4 => tensor.len = tensor.len.saturating_sub(1),
            5 => tensor.extents[mode] = 1 << 31,
            6 => tensor.address = there,
            7 => tensor.extents[mode] = -1,
            8 => tensor.elem = if tensor.elem == Elem::F64 { Elem::F32 } else { Elem::F64 },
            9 => tensor.strides[mode] = 1 << 40,
            10 => {
                tensor.extents.pop();
                tensor.strides.pop();
            }
            _ => {}
        }
    }
}

/// Launches of a kernel in C and in Rust.
#[track_caller]
fn same(kernel: &Generated, cases: u64) {
    let mut random = Random(kernel.name.len() as u64);
    let cases: Vec<Case> = (0..cases).map(|_| random.case(kernel)).collect();
    let (planned, packed) = planned_alike(kernel, &cases);
    println!("{}: {planned} of {} were launched, {packed} with copies", kernel.name, cases.len());
    assert!(planned * 5 > cases.len(), "{}: {planned}", kernel.name);
}

/// Compares launches in C and in Rust, and returns how many were made, and how many of these with copies.
#[track_caller]
fn planned_alike(kernel: &Generated, cases: &[Case]) -> (usize, usize) {
    let folder = Folder::new();
    let launches = built(&folder, kernel);
    let mut child = Command::new(launches).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let text: String = cases.iter().map(Case::text).collect();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let message = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = message.lines().collect();
    let (mut planned, mut packed) = (0, 0);
    for (at, case) in cases.iter().enumerate() {
        let expected = case.expected(kernel);
        planned += usize::from(expected.starts_with("planned"));
        packed += usize::from(expected.matches(" ; ").count() > 1);
        let line = lines.get(at).copied().unwrap_or("nothing");
        assert_eq!(line, expected, "{}, case {at}:\n{}", kernel.name, case.text());
    }
    (planned, packed)
}

pub(crate) fn shipped(name: &str) -> Generated {
    kernels::named(name).expect(name).def.generate().expect(name)
}

pub(crate) fn product(keys: &str) -> Generated {
    Words::read(keys).expect(keys).matmul().unwrap_or_else(|why| panic!("{keys}: {why}"))
}

#[test]
fn kernels_of_the_language() {
    for name in share(["softmax", "attention_hopper", "gather_rows", "histogram"], 2) {
        same(&shipped(name), count(100, 1000));
    }
}

/// Requirements of the author, on extents and on strides.
#[kernel]
pub fn demanding(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    z: &Tensor<f32, (M, K), (ldz, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    assert(ldx % 4 == 0);
    assert(ldy == 2 * ldx || M * 3 > N / 2);
    assert(K == min(N, 4096) / 2 + N % 2 || K * N < 100000000);
    assert(!(M == 7) && 1000 / K < 900);
    let (x, y) = (tile(x, (4, 128), (block.x, block.y)), tile(y, (4, 128), (block.x, block.y)));
    copy(map((x, tile(z, (4, 1), (block.x, 0))), |x, z| x * z), y);
}

#[test]
fn requirements_of_the_author() {
    same(&demanding().def().generate().expect("a kernel"), count(500, 20_000));
}

/// A grid that is too long along y or z has all its blocks along x.
#[kernel]
pub fn long(x: &Tensor<f32, (L, M, N), (ldx, ldm, _1)>, y: &mut Tensor<f32, (L, M, N), (ldy, ldn, _1)>) {
    let at = (block.z, block.y, block.x);
    copy(tile(x, (1, 2, 64), at) + 1.0, tile(y, (1, 2, 64), at));
}

#[test]
fn long_grids() {
    let kernel = long().def().generate().expect("a kernel");
    let tensor = |extents: [i64; 3], mutable| {
        let [_, m, n] = extents;
        let (strides, len) = (vec![m * n, n, 1], extents.iter().product::<i64>() as u64);
        let address = if mutable { 1 << 44 } else { 1 << 43 };
        Given::Tensor(Tensor { elem: Elem::F32, mutable, extents: extents.to_vec(), strides, len, address })
    };
    let case = |extents| Case {
        limits: Limits::HOPPER,
        given: vec![tensor(extents, false), tensor(extents, true)],
        numbers: vec![0; 2],
    };
    let sizes = [
        [1, 131_070, 3],
        [1, 131_071, 3],
        [65_535, 2, 64],
        [65_536, 3, 65],
        [70_000, 140_000, 1],
        [70_000, 140_000, 200_000],
    ];
    let cases: Vec<Case> = sizes.into_iter().map(case).collect();
    let grids: Vec<_> =
        cases.iter().map(|case| plan(&kernel, &case.given, &case.limits).map(|plan| plan.grid)).collect();
    assert_eq!(
        grids[..4].iter().flatten().collect::<Vec<_>>(),
        [&[1, 65_535, 1], &[65_536, 1, 1], &[1, 1, 65_535], &[2 * 2 * 65_536, 1, 1]]
    );
    let refused = "the grid would have 4900000000 blocks along x, and 2147483647 is the most";
    assert!(grids[4].as_ref().is_err_and(|why| why.to_string().starts_with(refused)), "{:?}", grids[4]);
    planned_alike(&kernel, &cases);
}

/// Alternatives for rows of limited lengths, none for the longest.
#[kernel(choose((PART, ROWS) in [(2048, 1), (256, 4), (256, 8), (32, 8)]))]
pub fn limited<const PART: usize, const ROWS: usize>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, M>,
) {
    assert(N <= PART);
    copy(sum(tile(x, (ROWS, PART), (block.x, 0)), 1), tile(y, ROWS, block.x).along(0));
}

#[test]
fn alternatives_with_limits() {
    same(&limited().def().generate().expect("a kernel"), count(300, 5000));
}

/// Lists of tensors are passed one by one, and grids are sums.
#[test]
fn lists_of_tensors() {
    let made = |def: &tilewright::KernelDef| def.generate().expect("a kernel");
    same(&made(lists::transposed_pair().def()), count(300, 5000));
    same(&made(lists::adam().def()), count(200, 2000));
    let many = lists::adam().specialize(&[("K", 7)]).expect("a kernel");
    let refused = launch::export(&made(many.def()), images).expect_err("29 arguments").to_string();
    assert_eq!(refused, "the kernel has 29 arguments, and 24 is the most that is exported");
}

#[test]
fn alternatives_by_their_estimates() {
    same(&shipped("linear_hopper"), count(300, 5000));
}

/// Records of some launches, each of an alternative that is drawn, on this device or on another one.
#[test]
fn records_of_launches() {
    for kernel in [shipped("linear_hopper"), product("name=half dtype=bf16 a=k_major b=k_major c=n_major")] {
        let mut random = Random(5);
        let cases: Vec<Case> = (0..count(120, 3000)).map(|_| random.case(&kernel)).collect();
        let fingerprint = kernel.fingerprint();
        let record = |case: &Case| {
            let sizes = launch::sizes(&kernel, &case.given).ok()?;
            let serves = ranking(&kernel, &case.given, &case.limits).ok()?.serves;
            let taken = serves[random.next() as usize % serves.len()].variant;
            let shift = |size: i64, random: &mut Random| {
                size + random.of(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, size / 2, size / 32, 1])
            };
            let sizes = sizes.iter().map(|(name, size)| (name.name().to_owned(), shift(*size, &mut random)));
            Some(Record {
                kernel: kernel.name.clone(),
                fingerprint,
                sizes: sizes.collect(),
                device: (*random.of(&["NVIDIA H200", "NVIDIA H200", "NVIDIA H100"])).to_owned(),
                alternative: kernel.alternative(taken),
                microseconds: 1.0,
                spread: 0.0,
                estimated: random.of(&[1.0, 1.02, 1.5]),
                overestimate: random.of(&[1.0, 1.3, 3.0]),
                driver: "13.0".into(),
            })
        };
        let records: Vec<Record> = cases.iter().filter_map(record).collect();
        let recorded = kernel.clone().with_records(records.iter());
        let differ = |case: &&Case| {
            let of = |kernel| plan(kernel, &case.given, &case.limits).ok().map(|plan| plan.variant);
            of(&kernel) != of(&recorded)
        };
        let different = cases.iter().filter(differ).count();
        println!("{}: {} records, {different} launches differ", kernel.name, records.len());
        assert!(different > 4, "{different} of {}", cases.len());
        planned_alike(&recorded, &cases);
    }
}

#[test]
fn products_with_copies() {
    same(&product("name=half dtype=bf16 a=k_major b=k_major c=n_major"), count(100, 5000));
    same(&product("name=bytes dtype=i8 a=m_major b=n_major"), count(100, 5000));
    same(&product("name=single alpha_beta=true"), count(50, 2000));
    same(&product("name=many dtype=f16 batched=true bias=columns"), count(100, 2000));
}

/// A driver that prints launches of a kernel, as a library in a folder. `header` is where its header is.
pub(crate) fn driver<'f>(
    folder: &'f Folder,
    kernel: &Generated,
    header: &Path,
    options: &[&str],
) -> &'f Path {
    let path = folder.path();
    std::fs::write(path.join("driver.c"), program(kernel)).unwrap();
    let library = path.join("libcuda.so.1");
    // A link to another stand-in.
    let _ = std::fs::remove_file(&library);
    let mut command = Command::new("gcc");
    command.current_dir(path).args(options).args(["-DWITHOUT_PLAN", "-shared", "-fPIC", "driver.c", "-I"]);
    command.arg(header);
    let output = command.arg("-o").arg(&library).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}
