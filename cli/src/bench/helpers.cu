// Auxiliary kernels of benchmarks. ELEM and OUT are set when it is compiled: the operand type and the result
// type, from the list below.
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
typedef unsigned long long u64;

__device__ inline double wide(double x) { return x; }
__device__ inline double wide(float x) { return x; }
__device__ inline double wide(int x) { return x; }
__device__ inline double wide(signed char x) { return x; }
__device__ inline double wide(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ inline double wide(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }

// A number between -1 and 1 from 64 random bits, or a small integer.
__device__ inline double between(u64 bits) { return (double)(long long)bits * 0x1p-63; }
__device__ inline void narrow(u64 bits, double& x) { x = between(bits); }
__device__ inline void narrow(u64 bits, float& x) { x = (float)between(bits); }
__device__ inline void narrow(u64 bits, int& x) { x = (int)(bits % 19) - 9; }
__device__ inline void narrow(u64 bits, signed char& x) { x = (signed char)((int)(bits % 19) - 9); }
__device__ inline void narrow(u64 bits, f16& x) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"((float)between(bits)));
}
__device__ inline void narrow(u64 bits, bf16& x) {
    unsigned y = __float_as_uint((float)between(bits));
    x.bits = (unsigned short)((y + 0x7fff + ((y >> 16) & 1)) >> 16);
}

// SplitMix64 of each element's index.
extern "C" __global__ void fill(ELEM* x, u64 count, u64 seed) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
        u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        narrow(z ^ (z >> 31), x[i]);
    }
}

// The oracle: C(m, n) = sum over k of A(m, k) * B(n, k) in double precision, columns of C contiguous. A 64x64
// tile for each block of 256 threads, 4x4 for each thread.
extern "C" __global__ void reference(const ELEM* a, u64 am, u64 ak, u64 a_batch, const ELEM* b, u64 bn, u64 bk, u64 b_batch,
                                     double* c, int M, int N, int K) {
    __shared__ double sa[16][65], sb[16][65];
    a += blockIdx.z * a_batch;
    b += blockIdx.z * b_batch;
    c += blockIdx.z * (u64)M * N;
    int m0 = blockIdx.x * 64, n0 = blockIdx.y * 64, tm = threadIdx.x % 16, tn = threadIdx.x / 16;
    double sum[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int at = threadIdx.x; at < 1024; at += 256) {
            int row = at % 64, k = at / 64;
            sa[k][row] = m0 + row < M && k0 + k < K ? wide(a[(m0 + row) * am + (k0 + k) * ak]) : 0.0;
            sb[k][row] = n0 + row < N && k0 + k < K ? wide(b[(n0 + row) * bn + (k0 + k) * bk]) : 0.0;
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            for (int j = 0; j < 4; ++j)
                for (int i = 0; i < 4; ++i) sum[i][j] = fma(sa[k][tm + 16 * i], sb[k][tn + 16 * j], sum[i][j]);
        __syncthreads();
    }
    for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 4; ++i) {
            int m = m0 + tm + 16 * i, n = n0 + tn + 16 * j;
            if (m < M && n < N) c[m + (u64)n * M] = sum[i][j];
        }
}

// sums: squares of the difference, squares of the expected values, the largest difference, the number of
// finite elements.
extern "C" __global__ void compare(const OUT* got, const double* expected, u64 count, double* sums) {
    double off = 0, all = 0, most = 0, seen = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
        double x = wide(got[i]), y = expected[i], d = fabs(x - y);
        if (d != d || d > 1e300) continue;
        seen += 1;
        off += d * d;
        all += y * y;
        most = fmax(most, d);
    }
    atomicAdd(&sums[0], off);
    atomicAdd(&sums[1], all);
    atomicMax((u64*)&sums[2], (u64)__double_as_longlong(most));
    atomicAdd(&sums[3], seen);
}

// Blocks the stream, so that launches queued meanwhile run without gaps afterwards.
extern "C" __global__ void hold(u64 nanoseconds) {
    u64 start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
}

// Peak rates. Multiply-adds from registers: 16 in each iteration of each thread.
__device__ inline float mad(float x, float a, float b) { return fmaf(x, a, b); }
__device__ inline double mad(double x, double a, double b) { return fma(x, a, b); }
template <class T>
__device__ inline void multiply_add(T* out, int iterations) {
    T x[16], a = (T)0.999, b = (T)threadIdx.x;
    for (int i = 0; i < 16; ++i) x[i] = (T)i;
    for (int iteration = 0; iteration < iterations; ++iteration)
        for (int i = 0; i < 16; ++i) x[i] = mad(x[i], a, b);
    T sum = 0;
    for (int i = 0; i < 16; ++i) sum += x[i];
    if (sum == (T)-1.5) *out = sum;
}
extern "C" __global__ void multiply_add_f32(float* out, int iterations) { multiply_add(out, iterations); }
extern "C" __global__ void multiply_add_f64(double* out, int iterations) { multiply_add(out, iterations); }

extern "C" __global__ void move(const uint4* from, uint4* to, u64 count) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) to[i] = from[i];
}
