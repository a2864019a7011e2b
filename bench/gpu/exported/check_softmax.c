/* The exported softmax of rows on a GPU. */
#include "check.h"

static int check(int rows, int columns, struct CUstream_st *stream) {
    size_t count = (size_t)rows * (size_t)columns, i;
    float *x = malloc(count * sizeof(float)), *y = malloc(count * sizeof(float));
    address there[2], workspace;
    double worst = 0, time;
    int row;
    for (i = 0; i < count; ++i) x[i] = (float)(i * 2654435761u % 1000) / 100 - 5;
    DO(cuMemAlloc_v2(&there[0], count * sizeof(float)));
    DO(cuMemAlloc_v2(&there[1], count * sizeof(float)));
    DO(cuMemcpyHtoD_v2(there[0], x, count * sizeof(float)));
    arguments.x = matrix(there[0], TILEWRIGHT_F32, rows, columns, 1);
    arguments.y = matrix(there[1], TILEWRIGHT_F32, rows, columns, 1);
    workspace = launched(stream);
    DO(cuMemcpyDtoH_v2(y, there[1], count * sizeof(float)));
    for (row = 0; row < rows; row += 1 + rows / 100) {
        const float *from = x + (size_t)row * (size_t)columns, *to = y + (size_t)row * (size_t)columns;
        double sum = 0;
        int column;
        for (column = 0; column < columns; ++column) sum += exp((double)from[column]);
        for (column = 0; column < columns; ++column)
            worst = fmax(worst, fabs((double)to[column] * sum / exp((double)from[column]) - 1));
    }
    printf("%dx%d: variant %d, %s, worst relative error %.1e; ", rows, columns, plan.variant + 1, worst < 1e-5 ? "right" : "WRONG", worst);
    time = measured(stream, workspace);
    printf(", %.0f GB/s\n", 8e-9 * (double)count / time);
    free(x);
    free(y);
    return !(worst < 1e-5);
}

int main(void) {
    struct CUstream_st *stream = opened();
    return check(4096, 1000, stream) | check(16384, 4096, stream);
}
