// A float of ten bits of fraction, to nearest, ties away from zero: the format that tensor cores read.
__device__ __forceinline__ float to_tf32(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return __uint_as_float(y);
}

__device__ __forceinline__ float double_to_tf32(double x) {
    return to_tf32(float_to_odd(x));
}

// Exact in double but for what lies far below the last bit that is kept.
__device__ __forceinline__ float fused_tf32(float a, float b, float c) {
    return double_to_tf32(fma((double)a, (double)b, (double)c));
}
