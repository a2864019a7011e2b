//! Conversions between all element types on a device: by its own instructions, and as devices without them compute.
#![allow(unsafe_code)]

use tilewright_codegen::cuda;
use tilewright_tests::{casts, number};

use super::{held, stream};

#[test]
fn conversions_round_once() {
    let Some(stream) = stream() else { return };
    let mut wrong = Vec::new();
    for from in casts::ALL {
        // As the host gives them: it has no infinities of eight bits.
        let given = casts::given(from).into_iter().map(|x| number::bits(from, number::value(from, x)));
        let (program, given) = (casts::kernel(from), given.collect::<Vec<u64>>());
        let source = cuda::print(&program);
        let older = source.replace("__CUDA_ARCH__ >= 890", "false");
        for source in [source.clone(), older] {
            // SAFETY: the tensors have a whole number of blocks of elements.
            let kernel = unsafe { held::alone(program.clone(), source) };
            let mut operands = vec![held::whole("from", from, false, &given)];
            let empty = vec![0; given.len()];
            operands
                .extend(casts::targets(from).map(|to| held::whole(&format!("to_{to}"), to, true, &empty)));
            let buffers = held::run(&stream, &kernel, &operands).expect("it runs").expect("it is launched");
            let results = casts::targets(from).zip(&buffers[1..]);
            wrong.extend(results.filter_map(|(to, got)| casts::wrong(&given, got, from, to)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
