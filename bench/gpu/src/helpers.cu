// Auxiliary kernels of benchmarks, after an `enum Type` of all element types.
typedef unsigned long long u64;

// An array whose element type is known at run time: one binary serves all types, and a switch for each element is cheap
// beside arithmetic in double precision.
struct Array {
    void* at;
    u64 type;
};

__device__ inline double of_f16(unsigned short bits) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
    return y;
}

// Eight bits with so many of mantissa; the least normal number is 2^least.
__device__ inline double of_fp8(unsigned bits, int mantissa, int least) {
    int fraction = bits & ((1 << mantissa) - 1), exponent = (bits & 0x7f) >> mantissa;
    bool finite = mantissa == 3 ? (bits & 0x7f) != 0x7f : exponent != 31;
    if (!finite) return __longlong_as_double(0x7ff8000000000000);
    double size = exponent == 0 ? ldexp((double)fraction, least - mantissa)
                                : ldexp((double)(fraction + (1 << mantissa)), exponent - 1 + least - mantissa);
    return bits & 0x80 ? -size : size;
}

// The nearest such number to one of magnitude at most 1. The mantissa's carry goes to the exponent.
__device__ inline unsigned char to_fp8(double x, int mantissa, int least) {
    double size = fabs(x);
    int exponent = size < ldexp(1.0, least) ? least : ilogb(size);
    int digits = (int)rint(ldexp(size, mantissa - exponent));
    return (unsigned char)((x < 0 ? 0x80 : 0) | (((exponent - least) << mantissa) + digits));
}

// An element.
__device__ inline double wide(const Array& x, u64 i) {
    switch (x.type) {
        case TYPE_f64: return ((const double*)x.at)[i];
        case TYPE_f32:
        case TYPE_tf32: return ((const float*)x.at)[i];
        case TYPE_f16: return of_f16(((const unsigned short*)x.at)[i]);
        case TYPE_bf16: return __uint_as_float((unsigned)((const unsigned short*)x.at)[i] << 16);
        case TYPE_i32: return ((const int*)x.at)[i];
        case TYPE_u32: return ((const unsigned*)x.at)[i];
        case TYPE_i8: return ((const signed char*)x.at)[i];
        case TYPE_u8: return ((const unsigned char*)x.at)[i];
        case TYPE_e4m3: return of_fp8(((const unsigned char*)x.at)[i], 3, -6);
        // Two in a byte, the first in its lower bits.
        case TYPE_i4: return (signed char)(((const unsigned char*)x.at)[i / 2] << (i % 2 ? 0 : 4)) >> 4;
        case TYPE_u4: return (((const unsigned char*)x.at)[i / 2] >> (i % 2 ? 4 : 0)) & 15;
        default: return of_fp8(((const unsigned char*)x.at)[i], 2, -14);
    }
}

// Sets an element to a number between -1 and 1 from 64 random bits, or to an integer: of 8 bits, or a small one.
__device__ inline void put(const Array& x, u64 i, u64 bits) {
    double y = (double)(long long)bits * 0x1p-63;
    unsigned word = __float_as_uint((float)y);
    switch (x.type) {
        case TYPE_f64: ((double*)x.at)[i] = y; break;
        case TYPE_f32: ((float*)x.at)[i] = (float)y; break;
        case TYPE_tf32: ((unsigned*)x.at)[i] = (word + 0x1000) & ~0x1fffu; break;
        case TYPE_f16: asm("cvt.rn.f16.f32 %0, %1;" : "=h"(((unsigned short*)x.at)[i]) : "f"((float)y)); break;
        case TYPE_bf16: ((unsigned short*)x.at)[i] = (unsigned short)((word + 0x7fff + ((word >> 16) & 1)) >> 16); break;
        case TYPE_i32: ((int*)x.at)[i] = (int)(bits % 19) - 9; break;
        case TYPE_u32: ((unsigned*)x.at)[i] = (unsigned)(bits % 19); break;
        case TYPE_i8:
        case TYPE_u8: ((unsigned char*)x.at)[i] = (unsigned char)bits; break;
        case TYPE_e4m3: ((unsigned char*)x.at)[i] = to_fp8(y, 3, -6); break;
        default: ((unsigned char*)x.at)[i] = to_fp8(y, 2, -14);
    }
}

// SplitMix64 of each element's index.
extern "C" __global__ void fill(Array x, u64 count, u64 seed) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
        u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        put(x, i, z ^ (z >> 31));
    }
}

// A matrix: strides of rows, of K and of batches. Blocks of so many rows and of K may have scales and zero points, with
// their strides.
struct Matrix {
    Array of;
    u64 row, k, batch;
    Array scales, zeros;
    u64 rows, along_rows, block, along_k;
};

__device__ inline double element(const Matrix& x, u64 first, u64 row, u64 k) {
    double y = wide(x.of, first + row * x.row + k * x.k);
    u64 block = row / x.rows * x.along_rows + k / x.block * x.along_k;
    if (x.zeros.at) y -= wide(x.zeros, block);
    return x.scales.at ? y * wide(x.scales, block) : y;
}

// The oracle: C(m, n) = sum over k of A(m, k) * B(n, k) in double precision, columns of C contiguous. A 64x64
// tile for each block of 256 threads, 4x4 for each thread.
extern "C" __global__ void reference(Array a, u64 am, u64 ak, u64 a_batch, Array as, Array az, u64 as_rows, u64 as_row,
                                     u64 as_block, u64 as_k, Array b, u64 bn, u64 bk, u64 b_batch, Array bs, Array bz,
                                     u64 bs_rows, u64 bs_row, u64 bs_block, u64 bs_k, double* c, int M, int N, int K) {
    __shared__ double sa[16][65], sb[16][65];
    Matrix left = {a, am, ak, a_batch, as, az, as_rows, as_row, as_block, as_k};
    Matrix right = {b, bn, bk, b_batch, bs, bz, bs_rows, bs_row, bs_block, bs_k};
    u64 a0 = blockIdx.z * a_batch, b0 = blockIdx.z * b_batch;
    c += blockIdx.z * (u64)M * N;
    int m0 = blockIdx.x * 64, n0 = blockIdx.y * 64, tm = threadIdx.x % 16, tn = threadIdx.x / 16;
    double sum[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int at = threadIdx.x; at < 1024; at += 256) {
            int row = at % 64, k = at / 64;
            sa[k][row] = m0 + row < M && k0 + k < K ? element(left, a0, m0 + row, k0 + k) : 0.0;
            sb[k][row] = n0 + row < N && k0 + k < K ? element(right, b0, n0 + row, k0 + k) : 0.0;
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

// The epilogue of products whose columns of m elements are contiguous: x * scale + bias, and a function of that. The
// scale and the bias have a number for each index of mode 0 or 1.
extern "C" __global__ void finish(double* c, u64 m, u64 n, u64 count, Array scale, u64 scale_mode, Array bias,
                                  u64 bias_mode, Array residual, u64 after, u64 function) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
        u64 row = i % m, column = i / m % n;
        double x = c[i];
        if (scale.at) x *= wide(scale, scale_mode ? column : row);
        if (bias.at) x += wide(bias, bias_mode ? column : row);
        if (residual.at && !after) x += wide(residual, i);
        switch (function) {
            case FUNCTION_relu: x = fmax(x, 0.0); break;
            case FUNCTION_gelu: x = 0.5 * x * (1 + erf(x * 0.70710678118654752440)); break;
            case FUNCTION_gelu_tanh: x = 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); break;
            case FUNCTION_silu: x = x / (1 + exp(-x)); break;
        }
        if (residual.at && after) x += wide(residual, i);
        c[i] = x;
    }
}

// The nearest number in the range of a type of 8 bits: conversions saturate.
__device__ inline double saturated(u64 type, double x) {
    switch (type) {
        case TYPE_i8: return fmin(fmax(x, -128.0), 127.0);
        case TYPE_u8: return fmin(fmax(x, 0.0), 255.0);
        case TYPE_e4m3: return fmin(fmax(x, -448.0), 448.0);
        case TYPE_e5m2: return fmin(fmax(x, -57344.0), 57344.0);
        default: return x;
    }
}

// sums: squares of the difference, squares of the expected values, the largest difference, the number of
// finite elements.
extern "C" __global__ void compare(Array got, const double* expected, u64 count, double* sums) {
    double off = 0, all = 0, most = 0, seen = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
        double x = wide(got, i), y = saturated(got.type, expected[i]), d = fabs(x - y);
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
