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

// e^x as a power of two: by two instructions. Results below 2^-126 become 0.
__device__ __forceinline__ float fast_exp(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.4426950408889634f * x));
    return y;
}

// By two instructions, with an error of two units in the last place. A divisor below 2^-126 is 0, and so is the reciprocal of one above
// 2^126.
__device__ __forceinline__ float fast_div(float x, float y) {
    float z;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(z) : "f"(y));
    return x * z;
}
