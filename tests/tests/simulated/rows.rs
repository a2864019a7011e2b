//! The table of instructions, row by row: matrix products of the simulator compared with sums in double
//! precision, on ordinary, special, subnormal and very different numbers. The `gpu` tests compare the
//! hardware with the same sums, and the `nvrtc` tests compile every row.

use tilewright_codegen::{Elem, with_element};
use tilewright_sim::{Arg, Options, run_program};
use tilewright_tests::rows::{self, Numbers, stored, value};
use tilewright_tests::sweep;

fn raw(bytes: &[u8], elem: Elem) -> Vec<u64> {
    let whole = |part: &[u8]| part.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
    bytes.chunks_exact(elem.bytes() as usize).map(whole).collect()
}

fn arg(bytes: &[u8], elem: Elem, written: bool) -> Arg {
    use tilewright_codegen::element::Element;
    let elem = stored(elem);
    with_element!(elem, T => {
        let all: Vec<T> = raw(bytes, elem).into_iter().map(T::from_raw).collect();
        if written { Arg::in_out(&all, [all.len()]) } else { Arg::tensor(&all, [all.len()]) }
    })
}

#[test]
fn products_are_sums() {
    for trial in sweep::share(rows::sample(), 6) {
        let elems = trial.elems();
        for (seed, kind) in Numbers::ALL.into_iter().enumerate() {
            let matrices = trial.draw(kind, seed as u64);
            let given = trial.given(&matrices);
            let args: Vec<Arg> = given
                .iter()
                .zip(elems)
                .enumerate()
                .map(|(at, (bytes, elem))| arg(bytes, elem, at == 0))
                .collect();
            let name = trial.row.name;
            let done = run_program(&trial.kernel, &args, &Options::default())
                .unwrap_or_else(|error| panic!("{name}, {kind:?}: {error}"));
            let got = raw(done.bytes("d").expect("a tensor"), elems[0]);
            let wanted = trial.wanted(&matrices);
            assert_eq!(got.len(), wanted.len(), "{name}");
            for (at, (&bits, &wanted)) in got.iter().zip(&wanted).enumerate() {
                let got = value(bits, elems[0]);
                // Terms are aligned and truncated, as the hardware does.
                let off = wanted.off(got, elems[0]);
                assert!(
                    off.is_some_and(|off| off <= trial.within()),
                    "{name}, {kind:?}: element {at} is {got:e}, not {wanted:?}"
                );
            }
        }
    }
}
