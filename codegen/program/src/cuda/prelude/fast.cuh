__device__ __forceinline__ float infinity() {
    return __int_as_float(0x7f800000);
}

__device__ __forceinline__ double double_infinity() {
    return __longlong_as_double(0x7ff0000000000000LL);
}

// By one instruction, with an error of one unit in the last place.
__device__ __forceinline__ float fast_sqrt(float x) {
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// By one instruction, with an error of two units in the last place; infinite for magnitudes below 2^-126.
__device__ __forceinline__ float fast_rsqrt(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// By one instruction, with a relative error of 2^-11.
__device__ __forceinline__ float fast_tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
