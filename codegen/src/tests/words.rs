use crate::compiled::kernel_def::Locations;
use crate::launch::definition::Definition;
use crate::specialize::Generate;
use crate::values::elem::Elem;
use crate::words::{Kernels as _, Words};

/// The parsed keys, as they are printed.
#[track_caller]
fn check(text: &str, expected: &str) {
    let words = Words::read(text).unwrap();
    let shown: Vec<String> = words.args().iter().map(|arg| arg.to_string()).collect();
    assert_eq!(shown.join(", "), expected);
}

/// Commas between keys may be left out, and a layout is a shape and a stride.
#[test]
fn keys() {
    check("", "");
    check(" bm = 64 , bn=64, dtype =f64 ", "bm = 64, bn = 64, dtype = f64");
    check("alpha_beta=true name=\"nt\" bm=-(1 - -2)", "alpha_beta = true, name = \"nt\", bm = -(1 - (-2))");
    check("tc=(8, 8) sa=(64,8):(1,65) bm=3", "tc = (8, 8), sa = layout!((64, 8) : (1, 65)), bm = 3");
    check(
        "sa=swizzled(3,2,3,(64,8):(8,1)) sb=layout!((8,8))",
        "sa = swizzled(3, 2, 3, layout!((64, 8) : (8, 1))), sb = layout!((8, 8))",
    );
    check("schedule=(vec=4 values=(4,4)) bm=64", "schedule = (vec = 4, values = (4, 4)), bm = 64");
    check("schedule = (vec = 4, exits = false,)", "schedule = (vec = 4, exits = false)");
    check("epilogue=|x| max(x, 0.0) bm=64", "epilogue = |x| max(x, 0.0), bm = 64");
    check(
        "epilogue=|x| if x > 0.0 { x } else { 0.1 * x } bm=64",
        "epilogue = |x| if x > 0.0 { x } else { 0.1 * x }, bm = 64",
    );
}

#[test]
fn texts_nest_only_so_deep() {
    let nested = format!("epilogue=|x| {}x{}", "{ ".repeat(100_000), " }".repeat(100_000));
    let chained = format!("epilogue=|x| {}x", "if x > 0.0 { x } else ".repeat(100_000));
    for text in [nested, chained] {
        let message = Words::read(&text).unwrap_err().to_string();
        assert!(message.starts_with("this is nested more than 64 levels deep"), "{message}");
    }
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let message = match Words::read(text) {
        Err(message) => message,
        Ok(words) => words.matmul().unwrap_err(),
    };
    assert_eq!(message.to_string(), expected);
}

#[test]
fn thread_layouts_that_do_not_share_tiles() {
    refused(
        "bm=64 bn=64 tc=(8,8,3)",
        "`tc` has 3 threads along `bk`, which do not divide 8\n  bm=64 bn=64 tc=(8,8,3)\n                 ^^^^^^^\nhelp: give `tc` 2 or 4 threads along it, or change `bk`",
    );
    refused(
        "schedule=(values=(3,4))",
        "the default of `tc` has 16 threads with 3 elements each along `bm`, which do not divide 128\n  schedule=(values=(3,4))\n                   ^^^^^\nhelp: let each thread take a number of elements that divides 128, or change `bm`",
    );
    refused(
        "bm=256 bn=256 tc=(16,8)",
        "a fragment of 512 elements of f32 takes 512 registers of each thread, and 255 is the limit\n  bm=256 bn=256 tc=(16,8)\n                   ^^^^^^\nhelp: use a smaller `bm` or `bn`, or more threads in `tc`",
    );
}

#[test]
fn parse_errors() {
    refused("bm", "`bm` has no value\n  bm\n  ^^\nhelp: write `bm = …`");
    refused("bm= ", "`bm` has no value\n  bm=\n  ^^\nhelp: write `bm = …`");
    refused(
        "bm=64 64",
        "a comma is missing in front of this\n  bm=64 64\n        ^^\nhelp: write `key = value, key = value`",
    );
    refused(
        "bm=*3",
        "there is nothing to dereference here\n  bm=*3\n     ^\nhelp: leave out the `*`; a power is x * x, or pow(x, 3.0)",
    );
    refused(
        "tc=(8,8",
        "the text from here on is not made of keys\n  tc=(8,8\n     ^\nhelp: close every parenthesis and quotation mark",
    );
    refused(
        "schedule=(vec=4 vec)",
        "every value needs its key\n  schedule=(vec=4 vec)\n                  ^^^\nhelp: write schedule = (values = (4, 4), vec = 4)",
    );
    refused(
        "bm=64k",
        "`64k` is one number, of a type `k` that does not exist\n  bm=64k\n     ^^^\nhelp: write 64 * k, a product",
    );
    refused(
        "bm=99999999999999999999",
        "this number does not fit into 64 bits\n  bm=99999999999999999999\n     ^^^^^^^^^^^^^^^^^^^^\nhelp: write a smaller one",
    );
}

#[test]
fn key_errors() {
    refused(
        "bm=64 dtype=f31",
        "`dtype` must be an element type\n  bm=64 dtype=f31\n              ^^^\nhelp: did you mean `f32`?",
    );
    refused("bm=64 bm=32", "`bm` is given twice\n  bm=64 bm=32\n        ^^\nhelp: remove one of them");
}

#[test]
fn constants_of_a_kernel() {
    let matmul = Definition::Matmul(Vec::new());
    let def = matmul.def(&matmul.generate().kernel.unwrap(), &Locations::default());
    let other = Words::specialize(&def, "bm=64 dtype=f64").unwrap();
    assert!(other.source().contains("double"));
    let again = Words::specialize(&other, "bm=32").unwrap();
    assert!(again.report().contains("32 divides M"), "{}", again.report());
    let tuned = again.specialize(&[("vec", 4), ("vec", 2), ("bk", 16)], &[("dtype", Elem::F32)]).unwrap();
    assert!(tuned.source().contains("cp_async_8"), "{}", tuned.source());
    let message = Words::specialize(&def, "bn=7").unwrap_err().to_string();
    assert!(message.contains("  bn=7\n     ^\n"), "{message}");
}

#[test]
fn long_lines_are_cut_around_the_mistake() {
    let text = format!("{}oops=1", "bm=64 ".repeat(100));
    let message = Words::read(&text).unwrap().matmul().unwrap_err().to_string();
    let at = message.find("there is no key").unwrap();
    let lines: Vec<&str> = message[at..].lines().collect();
    let caret = lines[2].chars().position(|c| c == '^').unwrap();
    let under: String = lines[1].chars().skip(caret).take(4).collect();
    assert_eq!(under, "oops");
    assert!(lines[1].chars().count() < 110);
}
