//! `tilewright inspect` and `tilewright draw` as a user runs them.

mod common;

use common::{printed, refused};
use insta::assert_snapshot;

const SMALL: [&str; 6] = ["matmul", "bm=16", "bn=16", "bk=8", "tc=(8,8)", "name=small"];

fn small(more: &[&str]) -> String {
    printed(&[&["inspect"], &SMALL[..], more].concat())
}

#[test]
fn source() {
    let source = printed(&["inspect", "tutorial"]);
    assert!(source.starts_with("// matmul_nt\n// block   256 threads\n"), "{source}");
    assert_eq!(source, printed(&["inspect", "matmul_nt", "BM=128", "--variant", "1"]));
    assert_eq!(source, printed(&["inspect", "tutorial", "--source"]));
}

#[test]
fn parts_of_what_is_known() {
    assert_snapshot!("report", small(&["--report"]));
    assert_snapshot!("layouts", small(&["--layouts"]));
    assert_snapshot!("explain", small(&["--explain"]));
    let mut json: serde_json::Value = serde_json::from_str(&small(&["--json"])).unwrap();
    for variant in json["variants"].as_array_mut().unwrap() {
        assert_eq!(variant["report"]["threads"], variant["threads"]);
        assert!(variant["source"].as_str().unwrap().contains("__global__"));
        assert!(variant["loops"].as_str().unwrap().starts_with("grid "));
        (variant["source"], variant["loops"]) = ("…".into(), "…".into());
    }
    assert_snapshot!("json", format!("{json:#}"));
}

#[test]
fn loops_of_other_kernels() {
    assert_snapshot!("explain_tutorial", printed(&["inspect", "tutorial", "--explain"]));
    assert_snapshot!("explain_softmax", printed(&["inspect", "softmax", "--explain"]));
    assert_snapshot!(
        "explain_stages",
        printed(&["inspect", "matmul", "stages=3", "bk=16", "schedule=(vec=4)", "--explain"])
    );
}

#[test]
fn variants() {
    let all = small(&["--variant", "all"]);
    let headings: Vec<&str> = all.lines().filter(|line| line.starts_with("// variant")).collect();
    let count = headings.len();
    assert!(count > 1);
    assert_eq!(headings[count - 1], format!("// variant {count} of {count}"));
    assert!(all.contains(&small(&["--variant", &count.to_string()])));
}

/// Each variant has assumptions, accesses and figures of its own.
#[test]
fn reports_of_variants() {
    const KEYS: [&str; 5] = ["inspect", "matmul", "dtype=bf16", "arch=90", "--report"];
    let report = |more: &[&str]| printed(&[&KEYS[..], more].concat());
    let [first, second] = ["1", "2"].map(|number| report(&["--variant", number]));
    assert_eq!(report(&[]), first);
    assert_ne!(second, first);
    let all = report(&["--variant", "all"]);
    let headings: Vec<&str> = all.lines().filter(|line| line.starts_with("// variant")).collect();
    assert!(all.contains(&second) && headings.len() > 10, "{headings:?}");
    let last = report(&["--variant", &headings.len().to_string()]);
    assert!(
        all.ends_with(&last) && last.contains("threads        256") && !last.contains("divides"),
        "{last}"
    );
    // Where the last variant runs, its report is shown.
    let ran = printed(&["run", "tutorial", "--size", "7,5,3", "--json"]);
    let ran: serde_json::Value = serde_json::from_str(&ran).unwrap();
    assert_ne!(ran["run"]["variant"], 1);
    assert!(!ran["report"]["needs"].to_string().contains("divides"), "{}", ran["report"]["needs"]);
}

#[test]
fn keys_of_every_form() {
    let source = |keys: &[&str]| printed(&[&["inspect", "matmul"], keys].concat());
    assert!(source(&["epilogue=|x| max(x, 0.0)"]).contains("fmaxf"));
    assert!(source(&["bm=64", "bn=64", "schedule=(sa=(64,8):(1,65))"]).contains("(64,8):(1,65)"));
    assert!(source(&["bm = 2*32, bn = 64, dtype = f64"]).contains("double"));
    assert!(printed(&["inspect", "shared_tile", "T=i32", "W=16"]).contains("const int* __restrict__ a"));
}

#[test]
fn what_is_wrong_with_a_kernel() {
    let cases: [(&str, &[&str]); 13] = [
        ("name", &["tutoral"]),
        ("unknown_name", &["zzz"]),
        ("key_first", &["bm=64"]),
        ("key", &["matmul", "bm=64", "bnn=64"]),
        ("value", &["matmul", "bm=64", "dtype=f31"]),
        ("syntax", &["matmul", "tc=(8,8", "bm=64"]),
        ("no_value", &["matmul", "bm"]),
        ("does_not_divide", &["matmul", "bm=100"]),
        ("constant", &["tutorial", "BMM=64"]),
        ("element", &["shared_tile", "T=f16"]),
        ("not_a_size", &["tutorial", "BM=small"]),
        ("no_such_variant", &["tutorial", "--variant", "9"]),
        ("no_function", &["matmul", "--kernel"]),
    ];
    for (name, arguments) in cases {
        let arguments = [&["inspect"], arguments].concat();
        assert_snapshot!(format!("error_{name}"), refused(&arguments));
    }
}

#[test]
fn compilers_that_are_missing() {
    let message = refused(&["inspect", "tutorial", "--ptx"]);
    assert!(
        message.starts_with("error: NVRTC was not found.\n") && message.contains("Set TILEWRIGHT_NVRTC"),
        "{message}"
    );
    let message = refused(&["inspect", "tutorial", "--report", "--arch", "sm_90a"]);
    assert!(message.starts_with("error: NVRTC was not found.\n"), "{message}");
}

#[test]
fn pictures() {
    assert_eq!(
        printed(&["draw", "(2,4):(4,1)"]),
        "(2,4):(4,1)\n     0 1 2 3\n   ┌────────\n 0 │ 0 1 2 3\n 1 │ 4 5 6 7\n"
    );
    let part = printed(&[&["draw"], &SMALL[..], &["--part", "tc_gc"]].concat());
    assert_snapshot!("draw_part", part);
    let svg = printed(&[&["draw"], &SMALL[..], &["--part", "tc_gc", "--svg", "-"]].concat());
    assert!(svg.starts_with("<svg") && svg.contains("T63"), "{svg}");
    let all = printed(&[&["draw"], &SMALL[..]].concat());
    assert!(all.contains(&part), "{all}");
}

#[test]
fn what_cannot_be_drawn() {
    let cases: [(&str, &[&str]); 6] = [
        ("no_such_part", &["tutorial", "--part", "ta_gx"]),
        ("symbolic_part", &["tutorial", "--part", "a"]),
        ("many_parts", &["tutorial", "--svg", "picture.svg"]),
        ("symbolic", &["(M,8):(1,M)"]),
        ("keys_of_a_layout", &["(4,8)", "bm=64"]),
        ("nonsense", &["nonsense"]),
    ];
    for (name, arguments) in cases {
        assert_snapshot!(format!("undrawn_{name}"), refused(&[&["draw"], arguments].concat()));
    }
}

#[test]
fn choices() {
    let choose = |line: &str| printed(&[&["choose"], &line.split(' ').collect::<Vec<_>>()[..]].concat());
    // Variants that compete, copies of arguments, and a kernel that takes the first that can run.
    assert_snapshot!(
        "choose_alternatives",
        choose("linear_hopper CLUSTER=1 BN=128 --size M=16,N=4096,K=4096")
    );
    assert_snapshot!("choose_user_constants", choose("tutorial BM=64 --sizes 200,100,50"));
    let packed = choose("matmul dtype=bf16 arch=90 a=k_major b=k_major --size 512,1023,1023");
    let copies = packed.lines().find(|line| line.contains("`a`")).unwrap();
    assert!(
        copies.starts_with("variants ")
            && copies.ends_with(" read a copy of `a`: 8 does not divide lda, which is 1023")
    );
    // Fewer multiprocessors take more rounds.
    let rounds = |text: String| {
        text.lines().nth(3).unwrap().split_whitespace().nth(3).unwrap().parse::<u32>().unwrap()
    };
    let line = "linear_hopper BM=128 BN=128 --size 2048,2048,1024 --multiprocessors";
    assert!(rounds(choose(&format!("{line} 10"))) > rounds(choose(&format!("{line} 132"))));
    // Loops without iterations.
    assert!(choose("tutorial --size 200,100,0").contains("  4  256 threads"));
    // By its other name; at the end are the loops of the variant that is taken.
    let explained = printed(&["explain", "tutorial", "--size", "200,100,50"]);
    let loops = printed(&["inspect", "tutorial", "--explain", "--variant", "2"]);
    assert!(explained.ends_with(&format!("\nvariant 2 runs through\n{loops}")), "{explained}");
    assert!(refused(&["choose", "tutorial", "--size", "7,x,3"]).contains("a size is a number"));
    assert!(
        refused(&["choose", "tutorial", "--size", "2147483647,8,9"]).contains("coordinates have 32 bits")
    );
}
