/* The exported causal attention for heads of 64 on a GPU. */
#include "check.h"

enum { D = 64 };

static tilewright_tensor heads(address where, int rows, int count) {
    tilewright_tensor made = matrix(where, TILEWRIGHT_BF16, rows, D, 1);
    made.rank = 3;
    made.elements *= (uint64_t)count;
    made.extents[2] = count;
    made.strides[2] = (int64_t)rows * D;
    return made;
}

static int check(int rows, int count, struct CUstream_st *stream) {
    size_t elements = (size_t)rows * D * (size_t)count, i;
    uint16_t *host[4];
    address there[4], workspace;
    double worst = 0, time, *weights = malloc((size_t)rows * sizeof(double));
    int which, sample;
    for (which = 0; which < 4; ++which) {
        host[which] = malloc(elements * 2);
        for (i = 0; i < elements; ++i) host[which][i] = to_bf16((double)((i * 2654435761u + (size_t)which * 40503u) >> 7 & 255) / 64 - 2);
        DO(cuMemAlloc_v2(&there[which], elements * 2));
        DO(cuMemcpyHtoD_v2(there[which], host[which], elements * 2));
    }
    arguments.q = heads(there[0], rows, count);
    arguments.k = heads(there[1], rows, count);
    arguments.v = heads(there[2], rows, count);
    arguments.o = heads(there[3], rows, count);
    arguments.scale = 0.125f;
    workspace = launched(stream);
    DO(cuMemcpyDtoH_v2(host[3], there[3], elements * 2));
    for (sample = 0; sample < 50; ++sample) {
        int head = sample % count, row = sample * 7919 % rows, key, d;
        size_t first = (size_t)head * (size_t)rows * D;
        double sum = 0, most = -1e30;
        for (key = 0; key <= row; ++key) {
            double score = 0;
            for (d = 0; d < D; ++d)
                score += of_bf16(host[0][first + (size_t)row * D + (size_t)d]) * of_bf16(host[1][first + (size_t)key * D + (size_t)d]);
            weights[key] = 0.125 * score;
            most = fmax(most, weights[key]);
        }
        for (key = 0; key <= row; ++key) sum += weights[key] = exp(weights[key] - most);
        for (d = 0; d < D; ++d) {
            double expected = 0;
            for (key = 0; key <= row; ++key) expected += weights[key] / sum * of_bf16(host[2][first + (size_t)key * D + (size_t)d]);
            worst = fmax(worst, fabs(of_bf16(host[3][first + (size_t)row * D + (size_t)d]) - expected));
        }
    }
    /* Values are up to 2: a rounding of results, and one of weights. */
    printf("%d rows, %d heads: variant %d, %s, worst error %.1e; ", rows, count, plan.variant + 1, worst < 0.03 ? "right" : "WRONG", worst);
    time = measured(stream, workspace);
    printf(", %.1f TFLOP/s\n", 2e-12 * rows * rows * D * count / time);
    for (which = 0; which < 4; ++which) free(host[which]);
    free(weights);
    return !(worst < 0.03);
}

int main(void) {
    struct CUstream_st *stream = opened();
    return check(1000, 3, stream) | check(4096, 32, stream);
}
