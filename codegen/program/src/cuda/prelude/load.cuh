// Volatile loads from shared memory, `at` elements further on, which the compiler cannot sink to their uses.
__device__ __forceinline__ void load_here_4(float4& to, const float* from, unsigned at) {
    asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to.x), "=f"(to.y), "=f"(to.z), "=f"(to.w) : "r"(shared_address(from) + at * 4));
}

__device__ __forceinline__ void load_here_2(float2& to, const float* from, unsigned at) {
    asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(to.x), "=f"(to.y) : "r"(shared_address(from) + at * 4));
}

__device__ __forceinline__ void load_here_1(float& to, const float* from, unsigned at) {
    asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(to) : "r"(shared_address(from) + at * 4));
}

// The loads of `load_here` for doubles.
__device__ __forceinline__ void load_doubles_here_2(double2& to, const double* from, unsigned at) {
    asm volatile("ld.volatile.shared.v2.f64 {%0, %1}, [%2];"
                 : "=d"(to.x), "=d"(to.y) : "r"(shared_address(from) + at * 8));
}

__device__ __forceinline__ void load_doubles_here_1(double& to, const double* from, unsigned at) {
    asm volatile("ld.volatile.shared.f64 %0, [%1];" : "=d"(to) : "r"(shared_address(from) + at * 8));
}
