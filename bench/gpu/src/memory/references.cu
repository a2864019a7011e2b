// Reference results of memory-bound works in double precision, as plain as possible. Matrices are row-major
// and compact; threads or blocks stride over elements or rows.
#define EACH(i, count) for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (count); i += (u64)gridDim.x * blockDim.x)

extern "C" __global__ void transposed(Array x, double* y, u64 m, u64 n) {
    EACH(i, m * n) y[i] = wide(x, i % m * n + i / m);
}

// The sum of a block's 256 numbers, or their maximum, in every thread.
__device__ inline double together(double x, bool largest) {
    __shared__ double all[256];
    __syncthreads();
    all[threadIdx.x] = x;
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        double y = all[(threadIdx.x + half) % 256];
        __syncthreads();
        if (threadIdx.x < half) all[threadIdx.x] = largest ? fmax(all[threadIdx.x], y) : all[threadIdx.x] + y;
    }
    __syncthreads();
    return all[0];
}

extern "C" __global__ void softmax(Array x, double* y, u64 m, u64 n) {
    for (u64 row = blockIdx.x; row < m; row += gridDim.x) {
        u64 from = row * n;
        double most = -1e300, total = 0;
        for (u64 i = threadIdx.x; i < n; i += 256) most = fmax(most, wide(x, from + i));
        most = together(most, true);
        for (u64 i = threadIdx.x; i < n; i += 256) total += exp(wide(x, from + i) - most);
        total = together(total, false);
        for (u64 i = threadIdx.x; i < n; i += 256) y[row * n + i] = exp(wide(x, from + i) - most) / total;
    }
}

extern "C" __global__ void layernorm(Array x, Array w, Array b, double* y, u64 m, u64 n) {
    for (u64 row = blockIdx.x; row < m; row += gridDim.x) {
        u64 from = row * n;
        double total = 0, squares = 0;
        for (u64 i = threadIdx.x; i < n; i += 256) total += wide(x, from + i);
        double mean = together(total, false) / n;
        for (u64 i = threadIdx.x; i < n; i += 256) squares += (wide(x, from + i) - mean) * (wide(x, from + i) - mean);
        double factor = rsqrt(together(squares, false) / n + 1e-5);
        for (u64 i = threadIdx.x; i < n; i += 256)
            y[row * n + i] = (wide(x, from + i) - mean) * factor * wide(w, i) + wide(b, i);
    }
}

extern "C" __global__ void rmsnorm(Array x, Array w, double* y, u64 m, u64 n) {
    for (u64 row = blockIdx.x; row < m; row += gridDim.x) {
        u64 from = row * n;
        double squares = 0;
        for (u64 i = threadIdx.x; i < n; i += 256) squares += wide(x, from + i) * wide(x, from + i);
        double factor = rsqrt(together(squares, false) / n + 1e-5);
        for (u64 i = threadIdx.x; i < n; i += 256) y[row * n + i] = wide(x, from + i) * factor * wide(w, i);
    }
}

// y = A·x; without x the sums of rows.
__device__ inline void rows_of(Array a, Array x, double* y, u64 m, u64 n) {
    for (u64 row = blockIdx.x; row < m; row += gridDim.x) {
        double total = 0;
        for (u64 i = threadIdx.x; i < n; i += 256) total += wide(a, row * n + i) * (x.at ? wide(x, i) : 1.0);
        total = together(total, false);
        if (threadIdx.x == 0) y[row] = total;
    }
}
extern "C" __global__ void matrix_vector(Array a, Array x, double* y, u64 m, u64 n) { rows_of(a, x, y, m, n); }
extern "C" __global__ void row_sums_of(Array a, double* y, u64 m, u64 n) { rows_of(a, Array{}, y, m, n); }

extern "C" __global__ void column_sums_of(Array x, double* y, u64 m, u64 n) {
    for (u64 column = blockIdx.x; column < n; column += gridDim.x) {
        double total = 0;
        for (u64 i = threadIdx.x; i < m; i += 256) total += wide(x, i * n + column);
        total = together(total, false);
        if (threadIdx.x == 0) y[column] = total;
    }
}

extern "C" __global__ void cumulative_sums_of(Array x, double* y, u64 m, u64 n) {
    EACH(row, m) {
        double total = 0;
        for (u64 i = 0; i < n; i++) y[row * n + i] = total += wide(x, row * n + i);
    }
}

// Rows of x are coordinates x, y, z and masses; the result is the acceleration of each body, three rows.
extern "C" __global__ void attraction(Array x, double* y, u64 n) {
    for (u64 i = blockIdx.x; i < n; i += gridDim.x) {
        double sums[3] = {};
        for (u64 j = threadIdx.x; j < n; j += 256) {
            double d[3], square = 1e-3;
            for (int c = 0; c < 3; ++c) {
                d[c] = wide(x, c * n + j) - wide(x, c * n + i);
                square += d[c] * d[c];
            }
            double inverse = rsqrt(square), force = wide(x, 3 * n + j) * inverse * inverse * inverse;
            for (int c = 0; c < 3; ++c) sums[c] += force * d[c];
        }
        for (int c = 0; c < 3; ++c) {
            double all = together(sums[c], false);
            if (threadIdx.x == 0) y[c * n + i] = all;
        }
    }
}

// Random integers from 0 on, less than `below`.
extern "C" __global__ void integers(int* x, u64 count, u64 seed, u64 below) {
    EACH(i, count) {
        u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        x[i] = (int)((z ^ (z >> 31)) % below);
    }
}

// Integers less than `below`, each at most once: the prime does not divide it.
extern "C" __global__ void distinct(int* x, u64 count, u64 seed, u64 below) {
    EACH(i, count) x[i] = (int)((i * 1000003 + seed) % below);
}

extern "C" __global__ void gathered(Array table, Array ids, double* y, u64 m, u64 n) {
    EACH(i, m * n) y[i] = wide(table, (u64)wide(ids, i / n) * n + i % n);
}

// Added to y, which is zero before: how often each of 256 numbers occurs.
extern "C" __global__ void counts_of(Array x, double* y, u64 count) {
    __shared__ unsigned counts[256];
    counts[threadIdx.x] = 0;
    __syncthreads();
    EACH(i, count) atomicAdd(&counts[(int)wide(x, i)], 1u);
    __syncthreads();
    atomicAdd(&y[threadIdx.x], (double)counts[threadIdx.x]);
}

// In three dimensions; beyond the edges there are zeros.
extern "C" __global__ void stencil(Array x, double* y, u64 l, u64 m, u64 n, double centre, double side) {
    EACH(i, l * m * n) {
        u64 c = i % n, b = i / n % m, a = i / n / m;
        double sum = 0;
        if (c > 0) sum += wide(x, i - 1);
        if (c + 1 < n) sum += wide(x, i + 1);
        if (b > 0) sum += wide(x, i - n);
        if (b + 1 < m) sum += wide(x, i + n);
        if (a > 0) sum += wide(x, i - m * n);
        if (a + 1 < l) sum += wide(x, i + m * n);
        y[i] = centre * wide(x, i) + side * sum;
    }
}
