//! What kernels compute on a GPU. Without one these tests say so and pass; `TILEWRIGHT_REQUIRE_GPU=1` makes that a
//! failure. They read no file of the workspace: what cargo built can be taken to another machine and run there.

mod choreography;
mod drawn;
mod draws;
mod functions;
mod held;
mod hopper;
mod interop;
mod kernels;
mod narrow;
mod ordering;
mod rows;

use tilewright::{Device, Stream};

/// A stream of the first device, or nothing where the tests are to do without.
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
