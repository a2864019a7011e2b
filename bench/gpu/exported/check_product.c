/* An exported product on a GPU: its results against the processor, the host's time, and the device's. With BF16, and with ROWS
   where matrices are row-major. */
#include "check.h"

#if BF16
typedef uint16_t element;
#define TYPE TILEWRIGHT_BF16
#define TO to_bf16
#define OF of_bf16
#define BOUND (1.0 / 128)
#else
typedef float element;
#define TYPE TILEWRIGHT_F32
#define TO (float)
#define OF (double)
#define BOUND 1e-5
#endif

static int at(int row, int column, int rows, int columns) { return ROWS ? row * columns + column : row + column * rows; }

static int check(int m, int n, int k, struct CUstream_st *stream) {
    size_t sizes[3] = {(size_t)m * (size_t)k, (size_t)n * (size_t)k, (size_t)m * (size_t)n};
    element *host[3];
    address there[3], workspace;
    double worst = 0, time;
    int which, i, wrong = 0;
    for (which = 0; which < 3; ++which) {
        host[which] = malloc(sizes[which] * sizeof(element));
        for (i = 0; i < (int)sizes[which]; ++i) host[which][i] = TO((i * 7 + which) % 5 - 1);
        DO(cuMemAlloc_v2(&there[which], sizes[which] * sizeof(element)));
        DO(cuMemcpyHtoD_v2(there[which], host[which], sizes[which] * sizeof(element)));
    }
    arguments.a = matrix(there[0], TYPE, m, k, ROWS);
    arguments.b = matrix(there[1], TYPE, n, k, ROWS);
    arguments.c = matrix(there[2], TYPE, m, n, ROWS);
    workspace = launched(stream);
    DO(cuMemcpyDtoH_v2(host[2], there[2], sizes[2] * sizeof(element)));
    for (i = 0; i < 2000; ++i) {
        int row = i * 7919 % m, column = i * 104729 % n, j;
        double sum = 0, result = OF(host[2][at(row, column, m, n)]), error;
        for (j = 0; j < k; ++j) sum += OF(host[0][at(row, j, m, k)]) * OF(host[1][at(column, j, n, k)]);
        error = fabs(result - sum) / fmax(fabs(sum), 1);
        worst = fmax(worst, error);
        wrong += !(error <= BOUND);
    }
    printf("%dx%dx%d: variant %d, %d kernels, %s, worst error %.1e; ", m, n, k, plan.variant + 1, plan.steps,
           wrong ? "WRONG" : "right", worst);
    time = measured(stream, workspace);
    printf(", %.1f TFLOP/s\n", 2e-12 * m * n * k / time);
    for (which = 0; which < 3; ++which) {
        free(host[which]);
        DO(cuMemFree_v2(there[which]));
    }
    if (workspace) DO(cuMemFree_v2(workspace));
    return wrong != 0;
}

int main(void) {
    static const int sizes[][3] = {{256, 256, 256}, {1024, 1024, 1024}, {1000, 700, 301}, {4096, 4096, 4096}, {16, 4096, 4096}};
    struct CUstream_st *stream = opened();
    size_t which;
    int wrong = 0;
    for (which = 0; which < sizeof sizes / sizeof sizes[0]; ++which)
        wrong |= check(sizes[which][0], sizes[which][1], sizes[which][2], stream);
    return wrong;
}
