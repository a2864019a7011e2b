enum Swizzle { NO_SWIZZLE, SWIZZLE_128B, SWIZZLE_64B, SWIZZLE_32B };

// The descriptor of a matrix in shared memory, from its leading and its stride byte offset. The matrix begins `units` of 16
// bytes after p: they are added to the descriptor of p.
template <int leading, int stride, Swizzle swizzle>
__device__ __forceinline__ unsigned long long matrix_descriptor(const void* p, int units = 0) {
    const unsigned high = (unsigned)swizzle << 30 | stride >> 4;
    const unsigned low = (unsigned)(leading >> 4) << 16 | (shared_address(p) >> 4 & 0x3fff);
    return (unsigned long long)high << 32 | (low + units);
}

// A compiler fence for registers: their uses cannot be moved across this point.
template <int n>
__device__ __forceinline__ void pin(float (&registers)[n]) {
    #pragma unroll
    for (int i = 0; i < n; ++i) asm volatile("" : "+f"(registers[i]) :: "memory");
}

// A compiler fence for registers of integers and of packed words.
template <typename T, int n>
__device__ __forceinline__ void pin_words(T (&registers)[n]) {
    #pragma unroll
    for (int i = 0; i < n; ++i) asm volatile("" : "+r"(registers[i]) :: "memory");
}

__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `pending` commit groups of this warpgroup are in flight.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory");
}
