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

// Loads an integer until it is at least this; what was written before its release is visible.
template <typename T, typename Least>
__device__ __forceinline__ T await_acquire(const T* at, Least least) {
    T seen;
    do {
        if constexpr (sizeof(T) == 8) {
            asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(seen) : "l"(at) : "memory");
        } else {
            asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
        }
    } while (seen < static_cast<T>(least));
    return seen;
}

// Loads an integer until it is at least this; it orders no other accesses.
template <typename T, typename Least>
__device__ __forceinline__ T await_relaxed(const T* at, Least least) {
    T seen;
    do {
        if constexpr (sizeof(T) == 8) {
            asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(seen) : "l"(at) : "memory");
        } else {
            asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
        }
    } while (seen < static_cast<T>(least));
    return seen;
}
