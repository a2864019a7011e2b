// A matrix descriptor: offsets in bytes; mode 0 is no swizzle, 1, 2 and 3 are swizzles over 128, 64 and 32
// bytes.
template <int leading, int stride, int mode>
__device__ __forceinline__ unsigned long long matrix_descriptor(const void* p) {
    return (unsigned long long)mode << 62 | (unsigned long long)(stride >> 4) << 32
         | (unsigned)(leading >> 4) << 16 | (shared_address(p) >> 4 & 0x3fff);
}

// A compiler fence for registers: their uses cannot be moved across this point.
template <int n>
__device__ __forceinline__ void pin(float (&registers)[n]) {
    #pragma unroll
    for (int i = 0; i < n; ++i) asm volatile("" : "+f"(registers[i]) :: "memory");
}

// The same for integers, and for packed words.
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

// Waits until at most so many commit groups of this warpgroup are in flight.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory");
}
