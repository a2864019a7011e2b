//! Exported kernels where something is missing or wrong: drivers, devices, contexts, streams; and the module of Python.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tilewright_codegen::Elem;
use tilewright_codegen::launch::{self, Given, Limits, Tensor};
use tilewright_tests::fake::Folder;

use crate::exported::{Case, built, exported, product, shipped};

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

/// What a script prints which imports the module `product`, and stand-ins for PyTorch and apache-tvm-ffi.
fn printed_by_python(script: &str) -> Option<String> {
    let folder = Folder::new();
    let (path, kernel) =
        (folder.path(), product("name=product dtype=bf16 alpha_beta=true a=k_major b=k_major c=n_major"));
    let files = exported(&kernel);
    for (name, text) in [
        ("product.h", files.header.as_str()),
        ("product.c", &files.source),
        ("product.py", &launch::python(&kernel)),
        ("torch.py", include_str!("torch.py")),
        ("tvm_ffi.py", include_str!("tvm_ffi.py")),
    ] {
        std::fs::write(path.join(name), text).unwrap();
    }
    let Ok(output) = Command::new("python3").current_dir(path).args(["-u", "-c", script]).output() else {
        println!("skipped: no Python");
        return None;
    };
    let (message, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{message}{wrong}");
    Some(message.into_owned())
}

/// The module of Python: the function launches, what is traced goes through the operator, which checks it, and a tensor whose
/// elements have the other sign in memory is copied.
#[test]
fn a_module_of_python() {
    let script = r#"
import torch, product
def tensor(m, n, dtype=torch.bfloat16):
    return torch.Tensor([m, n], dtype)
def refused(*arguments):
    try:
        product._operator.fake(*arguments)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)
a, b, c = tensor(256, 64), tensor(128, 64), tensor(256, 128)
product.product(a, b, c, 1.0, 0.0)
print("changes", c.version)
torch.compiler.compiling = True
product.product(a, b, c, 1.0, 0.0)
torch.compiler.compiling = False
print("negative")
a.negative = c.negative = True
product.product(a, b, c, 1.0, 0.0)
product._operator.fake(a, b, c, 1.0, 0.0)
refused(a, tensor(128, 63), c, 1.0, 0.0)
refused(tensor(256, 64, torch.float32), b, c, 1.0, 0.0)
refused(torch.Tensor([256], torch.bfloat16), b, c, 1.0, 0.0)
"#;
    let Some(printed) = printed_by_python(script) else { return };
    insta::assert_snapshot!("module_of_python", printed);
}
