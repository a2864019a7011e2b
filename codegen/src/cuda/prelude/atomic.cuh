__device__ __forceinline__ void atomic_add(f16* at, f16 x) {
    asm volatile("red.add.noftz.f16 [%0], %1;" :: "l"(at), "h"(x.bits) : "memory");
}

__device__ __forceinline__ void atomic_add(bf16* at, bf16 x) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.add.noftz.bf16 [%0], %1;" :: "l"(at), "h"(x.bits) : "memory");
#else
    unsigned short seen = at->bits, old;
    do {
        old = seen;
        seen = atomicCAS(&at->bits, old, to_bf16(to_float(bf16{old}) + to_float(x)).bits);
    } while (seen != old);
#endif
}

__device__ __forceinline__ void atomic_min(float* at, float x) {
    int seen = *(int*)at, old;
    do {
        old = seen;
        seen = atomicCAS((int*)at, old, __float_as_int(fminf(__int_as_float(old), x)));
    } while (seen != old);
}

__device__ __forceinline__ void atomic_max(float* at, float x) {
    int seen = *(int*)at, old;
    do {
        old = seen;
        seen = atomicCAS((int*)at, old, __float_as_int(fmaxf(__int_as_float(old), x)));
    } while (seen != old);
}

__device__ __forceinline__ void atomic_min(double* at, double x) {
    unsigned long long seen = *(unsigned long long*)at, old;
    do {
        old = seen;
        seen = atomicCAS((unsigned long long*)at, old, __double_as_longlong(fmin(__longlong_as_double(old), x)));
    } while (seen != old);
}

__device__ __forceinline__ void atomic_max(double* at, double x) {
    unsigned long long seen = *(unsigned long long*)at, old;
    do {
        old = seen;
        seen = atomicCAS((unsigned long long*)at, old, __double_as_longlong(fmax(__longlong_as_double(old), x)));
    } while (seen != old);
}

// Acquires a flag: waits until it has been raised so far; what was written before is visible.
__device__ __forceinline__ void await_flag(const int* at, long long least) {
    int seen;
    do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
    } while (seen < least);
}
