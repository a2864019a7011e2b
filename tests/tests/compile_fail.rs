//! One file for each mistake, named after it, with what the compiler says beside it; and what must compile.

#[test]
fn mistakes() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile_fail/*.rs");
    cases.pass("compile_pass/*.rs");
}
