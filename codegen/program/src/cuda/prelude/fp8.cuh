// 8-bit floating-point numbers: stored as bits, computed in float.
struct e4m3 { unsigned char bits; };

struct e5m2 { unsigned char bits; };

__device__ __forceinline__ float float_of_half(unsigned bits) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)bits));
    return y;
}

__device__ __forceinline__ float to_float(e4m3 x) {
#if __CUDA_ARCH__ >= 890
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits));
    return float_of_half(pair);
#else
    // As a half it is 2^8 times too small: its exponent counts from another number.
    const float y = float_of_half((x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7) * 256.0f;
    return (x.bits & 0x7f) == 0x7f ? __int_as_float(0x7fffffff) : y;
#endif
}

// The upper half of a half.
__device__ __forceinline__ float to_float(e5m2 x) {
    return float_of_half(x.bits << 8);
}

// Rounds to nearest, ties to even, at most to `greatest`: a number with `fraction` bits of fraction, whose least normal number is
// 2^least.
template <int fraction, int least>
__device__ __forceinline__ unsigned rounded_to_byte(float x, float greatest) {
    const float size = fminf(fabsf(x), greatest);
    const unsigned bits = __float_as_uint(size), dropped = 23 - fraction;
    const unsigned normal = (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped;
    const unsigned steps = __float2uint_rn(size * __uint_as_float((unsigned)(127 + fraction - least) << 23));
    const unsigned code = bits >> 23 < 127 + least ? steps : normal - ((126 + least) << fraction);
    return x == x ? (__float_as_uint(x) >> 24 & 0x80) | code : 0x7f;
}

__device__ __forceinline__ e4m3 to_e4m3(float x) {
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return e4m3{(unsigned char)pair};
#else
    return e4m3{(unsigned char)rounded_to_byte<3, -6>(x, 448.0f)};
#endif
}

__device__ __forceinline__ e5m2 to_e5m2(float x) {
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return e5m2{(unsigned char)pair};
#else
    return e5m2{(unsigned char)rounded_to_byte<2, -14>(x, 57344.0f)};
#endif
}

__device__ __forceinline__ e4m3 double_to_e4m3(double x) {
    return to_e4m3(float_to_odd(x));
}

__device__ __forceinline__ e5m2 double_to_e5m2(double x) {
    return to_e5m2(float_to_odd(x));
}

// Exact in double, and rounded once.
__device__ __forceinline__ e4m3 fused(e4m3 a, e4m3 b, e4m3 c) {
    return double_to_e4m3(fma((double)to_float(a), (double)to_float(b), (double)to_float(c)));
}

__device__ __forceinline__ e5m2 fused(e5m2 a, e5m2 b, e5m2 c) {
    return double_to_e5m2(fma((double)to_float(a), (double)to_float(b), (double)to_float(c)));
}

__device__ __forceinline__ e4m3 shuffle_xor(e4m3 x, int lanes) {
    return e4m3{(unsigned char)__shfl_xor_sync(0xffffffff, (unsigned)x.bits, lanes)};
}

__device__ __forceinline__ e4m3 shuffle(e4m3 x, int lane, int lanes = 32) {
    return e4m3{(unsigned char)__shfl_sync(0xffffffff, (unsigned)x.bits, lane, lanes)};
}

__device__ __forceinline__ e5m2 shuffle_xor(e5m2 x, int lanes) {
    return e5m2{(unsigned char)__shfl_xor_sync(0xffffffff, (unsigned)x.bits, lanes)};
}

__device__ __forceinline__ e5m2 shuffle(e5m2 x, int lane, int lanes = 32) {
    return e5m2{(unsigned char)__shfl_sync(0xffffffff, (unsigned)x.bits, lane, lanes)};
}
