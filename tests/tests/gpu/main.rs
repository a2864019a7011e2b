//! Kernels on a GPU. Without one these tests print so and pass, unless `TILEWRIGHT_REQUIRE_GPU=1`. They read
//! no file of the workspace, so that the built test binary can be copied to another machine and run there.

mod between;
mod choreography;
mod device_run;
mod drawn;
mod draws;
mod functions;
mod hopper;
mod instrumented;
mod interop;
mod kernels;
mod models;
mod narrow;
mod one_call;
mod ordering;
mod overflow;
mod packed;
mod radix;
mod rows;
mod tensor_drawn;
mod words;

use tilewright::{Device, Stream};

/// A stream of the first device; `None` if there is none and the tests may be skipped.
fn stream() -> Option<Stream> {
    let required = std::env::var_os("TILEWRIGHT_REQUIRE_GPU").is_some_and(|value| value == "1");
    match Device::open(0).and_then(|device| device.stream()) {
        Ok(stream) => Some(stream),
        Err(why) if !required => {
            eprintln!("skipped: no GPU\n{why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}
