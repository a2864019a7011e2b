//! Numeric functions on a device, checked against double precision for their documented accuracy.

use tilewright::DeviceTensor;
use tilewright::{bf16, f16};
use tilewright_tests::functions::{FAST, FUNCTIONS, arguments, fast_functions, functions, wrong, wrong_fast};

use super::stream;

#[test]
fn functions_are_as_accurate_as_documents_say() {
    let Some(stream) = stream() else { return };
    macro_rules! check {
        ($ty:ident, $of:expr, $back:expr, $digits:expr, $most:expr) => {{
            let x: Vec<$ty> = arguments().into_iter().map($of).collect();
            let from = DeviceTensor::from_host(&stream, [x.len()], &x).unwrap();
            let mut to = DeviceTensor::<$ty, 2>::poisoned(&stream, [x.len(), FUNCTIONS.len()]).unwrap();
            functions!(T = $ty).launch(&stream, &from, &mut to).unwrap();
            let results: Vec<f64> = to.to_host().unwrap().into_iter().map($back).collect();
            let inputs: Vec<f64> = x.into_iter().map($back).collect();
            if let Some(message) = wrong(&inputs, &results, $digits, $most) {
                panic!("{}: {message}", stringify!($ty));
            }
        }};
    }
    check!(f32, |x| x as f32, f64::from, 24, f64::from(f32::MAX));
    check!(f64, |x| x, |x| x, 53, f64::MAX);
    check!(f16, |x| f16::from_f32(x as f32), |x: f16| f64::from(x.to_f32()), 11, 65519.0);
    check!(bf16, |x| bf16::from_f32(x as f32), |x: bf16| f64::from(x.to_f32()), 8, 3.3961775e38);
}

#[test]
fn fast_functions_are_as_accurate_as_documents_say() {
    let Some(stream) = stream() else { return };
    macro_rules! check {
        ($ty:ident, $of:expr, $back:expr, $digits:expr, $most:expr) => {{
            let x: Vec<$ty> = arguments().into_iter().map($of).collect();
            let from = DeviceTensor::from_host(&stream, [x.len()], &x).unwrap();
            let mut to = DeviceTensor::<$ty, 2>::poisoned(&stream, [x.len(), FAST.len()]).unwrap();
            fast_functions!(T = $ty).launch(&stream, &from, &mut to).unwrap();
            let results: Vec<f64> = to.to_host().unwrap().into_iter().map($back).collect();
            let inputs: Vec<f64> = x.into_iter().map($back).collect();
            if let Some(why) = wrong_fast(&inputs, &results, $digits, $most) {
                panic!("{}: {why}", stringify!($ty));
            }
        }};
    }
    check!(f32, |x| x as f32, f64::from, 24, f64::from(f32::MAX));
    check!(f16, |x| f16::from_f32(x as f32), |x: f16| f64::from(x.to_f32()), 11, 65519.0);
    check!(bf16, |x| bf16::from_f32(x as f32), |x: bf16| f64::from(x.to_f32()), 8, 3.3961775e38);
}
