// A tensor map (CUtensorMap), which the host encodes.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

// Proxy fence: ordinary accesses to shared memory before those of bulk copies and matrix products.
__device__ __forceinline__ void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most `pending` groups of bulk stores of this thread are in flight.
template <int pending>
__device__ __forceinline__ void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" :: "n"(pending) : "memory");
}

// Waits until at most `pending` groups of bulk stores of this thread have not read their shared memory.
template <int pending>
__device__ __forceinline__ void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(pending) : "memory");
}
