//! One file per mistake, named after it, with the compiler's output beside it; and programs that must
//! compile.

#[test]
fn mistakes() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile_fail/*.rs");
    cases.pass("compile_pass/*.rs");
}
