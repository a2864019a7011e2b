//! Conversions between all element types on a device: by native instructions, and by their emulation.
#![allow(unsafe_code)]

use tilewright_codegen::cuda;
use tilewright_tests::{casts, number};

use super::{device_run, stream};

#[test]
fn conversions_round_once() {
    let Some(stream) = stream() else { return };
    let mut wrong = Vec::new();
    for from in casts::all() {
        // As the host encodes them: its 8-bit types have no infinities.
        let given = casts::given(from).into_iter().map(|x| number::bits(from, number::value(from, x)));
        let (program, given) = (casts::kernel(from), given.collect::<Vec<u64>>());
        let source = cuda::print(&program);
        let older = source.replace("__CUDA_ARCH__ >= 890", "false");
        for source in [source.clone(), older] {
            // SAFETY: the tensors' sizes are multiples of the block.
            let kernel = unsafe { device_run::alone(program.clone(), source) };
            let mut operands = vec![device_run::whole("from", from, false, &given)];
            let empty = vec![0; given.len()];
            operands.extend(
                casts::targets(from).map(|to| device_run::whole(&format!("to_{to}"), to, true, &empty)),
            );
            let buffers =
                device_run::run(&stream, &kernel, &operands).expect("it runs").expect("it is launched");
            let results = casts::targets(from).zip(&buffers[1..]);
            wrong.extend(results.filter_map(|(to, got)| casts::wrong(&given, got, from, to)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn conversions_of_words_are_exact() {
    let Some(stream) = stream() else { return };
    let mut wrong = Vec::new();
    for row in casts::rows() {
        let [from, to] = casts::types(row);
        let given: Vec<u64> =
            casts::given(from).into_iter().map(|x| number::bits(from, number::value(from, x))).collect();
        let (numbers, all) = casts::numbers(row, &given);
        let program = casts::by_row(row);
        let source = cuda::print(&program);
        // SAFETY: the tensors' sizes are multiples of a block's elements.
        let kernel = unsafe { device_run::alone(program, source) };
        let empty = vec![0; all.len()];
        let operands =
            [device_run::whole("from", from, false, &given), device_run::whole("to", to, true, &empty)];
        let buffers = device_run::run(&stream, &kernel, &operands).expect("it runs").expect("it is launched");
        wrong.extend(casts::wrong(&all, &buffers[1], numbers, to));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
