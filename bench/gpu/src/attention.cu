// The reference of attention in double precision: a block for each query of each head. Rows of all tensors are compact,
// head after head. Scores are computed twice: for their maximum, and for the sums.
__device__ inline double over_block(double x, bool largest) {
    __shared__ double all[256];
    __syncthreads();
    all[threadIdx.x] = x;
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            double y = all[threadIdx.x + half];
            all[threadIdx.x] = largest ? fmax(all[threadIdx.x], y) : all[threadIdx.x] + y;
        }
    }
    __syncthreads();
    return all[0];
}

extern "C" __global__ void attended(Array q, Array k, Array v, double* y, u64 m, u64 n, u64 d, u64 heads, u64 causal,
                                    double scale) {
    __shared__ double weights[256];
    for (u64 at = blockIdx.x; at < m * heads; at += gridDim.x) {
        u64 head = at / m, row = at % m;
        // The keys that it sees: all, or those up to its own place, counted from the end.
        u64 seen = !causal ? n : row + 1 + n > m ? min(n, row + 1 + n - m) : 0;
        auto score = [&](u64 key) {
            double sum = 0;
            for (u64 l = 0; l < d; ++l) sum += wide(q, at * d + l) * wide(k, (head * n + key) * d + l);
            return sum * scale;
        };
        double most = -1e300, total = 0, sums[2] = {};
        for (u64 key = threadIdx.x; key < seen; key += 256) most = fmax(most, score(key));
        most = over_block(most, true);
        for (u64 first = 0; first < seen; first += 256) {
            u64 key = first + threadIdx.x;
            double weight = key < seen ? exp(score(key) - most) : 0;
            total += weight;
            __syncthreads();
            weights[threadIdx.x] = weight;
            __syncthreads();
            for (int part = 0; part < 2; ++part) {
                u64 l = threadIdx.x + 256 * part;
                if (l >= d) continue;
                for (u64 j = 0; j < 256 && first + j < seen; ++j)
                    sums[part] += weights[j] * wide(v, (head * n + first + j) * d + l);
            }
        }
        total = over_block(total, false);
        for (int part = 0; part < 2; ++part) {
            u64 l = threadIdx.x + 256 * part;
            if (l < d) y[at * d + l] = seen ? sums[part] / total : 0;
        }
    }
}
