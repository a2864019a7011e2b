// 16-bit floating-point numbers: stored as bits, computed in float.
struct f16 { unsigned short bits; };

struct bf16 { unsigned short bits; };

__device__ __forceinline__ float to_float(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

__device__ __forceinline__ float to_float(bf16 x) {
    return __uint_as_float((unsigned)x.bits << 16);
}

// An element of an array of pairs, which is aligned to them.
__device__ __forceinline__ float paired_to_float(const bf16* x, int at) {
    const unsigned pair = ((const unsigned*)x)[at / 2];
    return __uint_as_float(at % 2 ? pair & 0xffff0000 : pair << 16);
}

__device__ __forceinline__ f16 to_f16(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

__device__ __forceinline__ bf16 to_bf16(float x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

__device__ __forceinline__ f16 double_to_f16(double x) {
    f16 y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x));
    return y;
}

// Round to odd, towards zero with a sticky last bit: rounded once afterwards.
__device__ __forceinline__ bf16 double_to_bf16(double x) {
    const float y = __double2float_rz(x);
    return to_bf16((double)y == x || x != x ? y : __uint_as_float(__float_as_uint(y) | 1));
}

// What is not a number is 0, as from float; the conversion alone gives the least integer.
__device__ __forceinline__ int double_to_int(double x) {
    return x == x ? __double2int_rz(x) : 0;
}

__device__ __forceinline__ unsigned double_to_unsigned(double x) {
    return x == x ? __double2uint_rz(x) : 0;
}

__device__ __forceinline__ f16 fused(f16 a, f16 b, f16 c) {
    f16 d;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(d.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
    return d;
}

__device__ __forceinline__ bf16 fused(bf16 a, bf16 b, bf16 c) {
    bf16 d;
    asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(d.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
    return d;
}

__device__ __forceinline__ f16 shuffle_xor(f16 x, int lanes) {
    return f16{(unsigned short)__shfl_xor_sync(0xffffffff, (unsigned)x.bits, lanes)};
}

__device__ __forceinline__ f16 shuffle(f16 x, int lane, int lanes = 32) {
    return f16{(unsigned short)__shfl_sync(0xffffffff, (unsigned)x.bits, lane, lanes)};
}

__device__ __forceinline__ bf16 shuffle_xor(bf16 x, int lanes) {
    return bf16{(unsigned short)__shfl_xor_sync(0xffffffff, (unsigned)x.bits, lanes)};
}

__device__ __forceinline__ bf16 shuffle(bf16 x, int lane, int lanes = 32) {
    return bf16{(unsigned short)__shfl_sync(0xffffffff, (unsigned)x.bits, lane, lanes)};
}
