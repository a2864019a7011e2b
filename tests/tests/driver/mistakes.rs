//! Exported kernels where something is missing or wrong: drivers, devices, contexts, streams; and arguments in Python.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tilewright_codegen::Elem;
use tilewright_codegen::launch::{self, Given, Limits, Tensor};
use tilewright_tests::fake::Folder;

use crate::exported::{Case, built, driver, exported, product, shipped};

/// Mistakes in the devices, contexts, streams and workspaces of a launch.
#[test]
fn mistakes_in_c() {
    let folder = Folder::new();
    let kernel = product("name=half dtype=bf16 a=k_major b=k_major c=n_major");
    let launches = built(&folder, &kernel);
    let tensor = |index: u64, mutable| {
        Given::Tensor(Tensor {
            elem: Elem::Bf16,
            mutable,
            extents: vec![33, 33],
            strides: vec![33, 1],
            len: 33 * 33,
            address: index << 44,
        })
    };
    let given = vec![tensor(1, false), tensor(2, false), tensor(3, true)];
    let case = Case { limits: Limits::of(90), given, numbers: vec![0; 3] };
    let mut child = Command::new(launches);
    child.arg("mistakes").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(case.text().as_bytes()).unwrap();
    let message = child.wait_with_output().unwrap().stdout;
    insta::assert_snapshot!("mistakes_in_c", String::from_utf8_lossy(&message));
}

/// Without a driver, and with one that is too old, a kernel is not opened.
#[test]
fn drivers_that_are_missing() {
    let (folder, kernel) = (Folder::new(), shipped("softmax"));
    let (files, path) = (exported(&kernel), folder.path());
    std::fs::write(path.join("softmax.h"), &files.header).unwrap();
    std::fs::write(path.join("softmax.c"), &files.source).unwrap();
    let main = "#include <stdio.h>\n#include \"softmax.h\"\nint main(void) {\n    static softmax_kernel kernel;\n    \
                return printf(\"%d %s\", softmax_open(&kernel), kernel.error) < 0;\n}\n";
    std::fs::write(path.join("main.c"), main).unwrap();
    std::fs::write(path.join("old.c"), "int cuInit(unsigned flags) { return (int)flags; }\n").unwrap();
    let compiled = |options: &[&str]| {
        let output = Command::new("gcc").current_dir(path).args(options).output().expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    compiled(&["-shared", "-fPIC", "old.c", "-o", "libold.so"]);
    let opened = |library: &str| {
        let library = format!("-DTILEWRIGHT_DRIVER=\"{}\"", path.join(library).display());
        compiled(&[&library, "main.c", "softmax.c", "-o", "opens", "-ldl"]);
        let output = Command::new(path.join("opens")).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(
        opened("libnone.so"),
        "-1 there is no NVIDIA driver here\nhelp: install it; in a container, start it with `--gpus all`"
    );
    assert_eq!(
        opened("libold.so"),
        "-1 the driver has no `cuCtxGetCurrent`\nhelp: install a driver for CUDA 12.0 or newer"
    );
}

/// The lines that a script prints which imports the module `product` and a stand-in for PyTorch; `None` without Python.
fn printed_by_python(keys: &str, script: &str) -> Option<Vec<String>> {
    let folder = Folder::new();
    let (path, kernel) = (folder.path(), product(keys));
    let files = exported(&kernel);
    let module = folder.path().join("module");
    std::fs::create_dir(&module).unwrap();
    for (name, text) in [
        ("product.h", files.header.as_str()),
        ("product.c", &files.source),
        ("product.py", &launch::python(&kernel)),
        ("torch.py", include_str!("torch.py")),
    ] {
        std::fs::write(module.join(name), text).unwrap();
    }
    driver(&folder, &kernel, &module);
    let mut command = Command::new("python3");
    // Without a buffer, so that lines of Python and of the driver come in their order.
    command.current_dir(&module).env("LD_LIBRARY_PATH", path).args(["-u", "-c", script]);
    let Ok(output) = command.output() else {
        println!("skipped: no Python");
        return None;
    };
    let (message, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{message}{wrong}");
    Some(message.lines().map(str::to_owned).collect())
}

/// What scripts call.
const FUNCTIONS: &str = r#"
import torch, product
def refused(*arguments, call=product.product):
    try:
        call(*arguments)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, str(error).replace("\n", " | "))
def tensor(m, n, dtype=torch.bfloat16, **more):
    return torch.Tensor([m, n], dtype, **more)
"#;

/// The module of Python, on a stand-in for PyTorch: the operator launches, and its refusals are errors of Python.
#[test]
fn a_module_of_python() {
    let script = r#"
a, b, c = tensor(256, 64), tensor(128, 64), tensor(256, 128)
product.product(a, b, c, 1.0, 0.0)
product.product(tensor(256, 64), b, c, 2.0, 0.0)
product._operator.fake(a, b, c, 1.0, 0.0)
refused(a, tensor(128, 63), c, 1.0, 0.0)
refused(a, tensor(128, 63), c, 1.0, 0.0, call=product._operator.fake)
refused(tensor(256, 64, torch.float32), b, c, 1.0, 0.0)
refused(torch.Tensor([256], torch.bfloat16), b, c, 1.0, 0.0)
refused(tensor(256, 64, strides=[1, 256]), b, c, 1.0, 0.0)
refused(tensor(256, 64, kind="cpu"), b, c, 1.0, 0.0)
refused(*[tensor(*of, kind="cpu") for of in [(256, 64), (128, 64), (256, 128)]], 1.0, 0.0)
"#;
    let keys = "name=product dtype=bf16 alpha_beta=true a=k_major b=k_major c=n_major";
    let Some(lines) = printed_by_python(keys, &format!("{FUNCTIONS}{script}")) else { return };
    let message = lines.join("\n");
    let [operator, first, second, refusals @ ..] = &lines[..] else { panic!("{message}") };
    assert_eq!(*operator, "operator tilewright::product writes c");
    assert!(first.starts_with("launched ") && first == second, "{message}");
    let shape = "ValueError argument `b`: its extent 1 is 63, and `K` is 64, the extent 1 of `a`";
    let expected = [
        shape,
        shape,
        "TypeError argument `a`: its elements are torch.float32, and the kernel takes torch.bfloat16",
        "ValueError argument `a`: it has 1 modes, and the kernel takes 2",
        "ValueError argument `a`: its stride 1 is 256, and the kernel is made for 1 | help: mode 1 must be \
         contiguous: give it strides such as (64, 1)",
        "ValueError argument `b`: it is on cuda:0, and others are on cpu:0",
        "ValueError the tensors are on cpu:0, and the kernel runs on a GPU",
    ];
    assert_eq!(refusals, expected);
}

/// Integers that C would truncate are refused. A tensor whose elements have the other sign in memory is copied.
#[test]
fn numbers_and_negative_tensors_of_python() {
    let script = r#"
def whole(m, n):
    return tensor(m, n, torch.int32)
a, b, c = whole(256, 64), whole(128, 64), whole(256, 128)
product.product(a, b, c, 2**31 - 1, -2**31)
for alpha in [2**31, -2**31 - 1, 2**32 + 1, 2**70]:
    refused(a, b, c, alpha, 0)
print("negative")
a.negative = c.negative = True
product.product(a, b, c, 1, 0)
"#;
    let keys = "name=product dtype=i32 alpha_beta=true bm=64 bn=64 a=k_major b=k_major c=n_major";
    let Some(lines) = printed_by_python(keys, &format!("{FUNCTIONS}{script}")) else { return };
    let [_, launched, refusals @ .., negative, a, c, copied_launch, back] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert!(launched.starts_with("launched ") && copied_launch.starts_with("launched "), "{lines:?}");
    let refused =
        |number: &str| format!("ValueError argument `alpha`: {number} is out of range for torch.int32");
    let numbers = ["2147483648", "-2147483649", "4294967297", "1180591620717411303424"];
    assert_eq!(refusals, numbers.map(refused));
    assert_eq!([negative, a, c, back], ["negative", "resolved", "resolved", "copied"]);
}
