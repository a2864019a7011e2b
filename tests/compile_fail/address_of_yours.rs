use std::sync::Arc;
use tilewright::cudarc::driver::{CudaStream, DevicePtr, DeviceSlice, SyncOnDrop};
use tilewright::prelude::*;

/// Returns an arbitrary address; the trait is safe to implement.
struct Forged(Arc<CudaStream>);

impl DeviceSlice<f32> for Forged {
    fn len(&self) -> usize {
        usize::MAX
    }
    fn stream(&self) -> &Arc<CudaStream> {
        &self.0
    }
}

impl DevicePtr<f32> for Forged {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>) {
        (0xdead_beef, SyncOnDrop::record_event(&None, stream))
    }
}

fn lent(forged: &Forged) {
    let _ = TensorRef::new(forged, [8, 8]);
}

fn lent_for_writing(forged: &mut Forged) {
    let _ = TensorMut::new(forged, [8, 8]);
}

fn main() {}
