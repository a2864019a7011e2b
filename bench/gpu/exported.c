/* An exported product on a GPU: its results against the processor, the host's time for a planned launch and for planning again,
   and the device's time. Compiled by exported.sh, with KERNEL, HEADER, BF16 and ROWS. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include HEADER

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define OPEN JOIN(KERNEL, _open)
#define PLAN JOIN(KERNEL, _plan)
#define LAUNCH JOIN(KERNEL, _launch)

typedef unsigned long long address;
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(address *at, size_t bytes);
int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, address from, size_t bytes);
int cuStreamCreate(struct CUstream_st **stream, unsigned flags);
int cuStreamSynchronize(struct CUstream_st *stream);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, struct CUstream_st *stream);
int cuEventSynchronize(void *event);
int cuEventElapsedTime(float *milliseconds, void *start, void *end);

#define DO(call)                                                     \
    do {                                                             \
        int status_ = (call);                                        \
        if (status_) {                                               \
            printf("%s: %d %s\n", #call, status_, plan.error);       \
            exit(1);                                                 \
        }                                                            \
    } while (0)

#if BF16
typedef uint16_t element;
#define TYPE TILEWRIGHT_BF16
static element of(int n) {
    float x = (float)n;
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (element)(bits >> 16);
}
static double value(element x) {
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, 4);
    return y;
}
#define BOUND (1.0 / 128)
#else
typedef float element;
#define TYPE TILEWRIGHT_F32
static element of(int n) { return (float)n; }
static double value(element x) { return x; }
#define BOUND 1e-5
#endif

static tilewright_plan plan;
static JOIN(KERNEL, _kernel) kernel;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int at(int row, int column, int rows, int columns) { return ROWS ? row * columns + column : row + column * rows; }

static tilewright_tensor tensor(address where, int rows, int columns) {
    tilewright_tensor made;
    memset(&made, 0, sizeof made);
    made.address = where;
    made.elements = (uint64_t)rows * (uint64_t)columns;
    made.type = TYPE;
    made.rank = 2;
    made.extents[0] = rows;
    made.extents[1] = columns;
    made.strides[0] = ROWS ? columns : 1;
    made.strides[1] = ROWS ? 1 : rows;
    return made;
}

static int check(int m, int n, int k, struct CUstream_st *stream) {
    size_t sizes[3] = {(size_t)m * (size_t)k, (size_t)n * (size_t)k, (size_t)m * (size_t)n};
    element *host[3];
    address there[3], workspace = 0;
    JOIN(KERNEL, _arguments) arguments;
    void *start, *end;
    float milliseconds;
    double planned, launched, worst = 0;
    int which, i, wrong = 0, repeats = 200;
    for (which = 0; which < 3; ++which) {
        host[which] = malloc(sizes[which] * sizeof(element));
        for (i = 0; i < (int)sizes[which]; ++i) host[which][i] = of((i * 7 + which) % 5 - 1);
        DO(cuMemAlloc_v2(&there[which], sizes[which] * sizeof(element)));
        DO(cuMemcpyHtoD_v2(there[which], host[which], sizes[which] * sizeof(element)));
    }
    arguments.a = tensor(there[0], m, k);
    arguments.b = tensor(there[1], n, k);
    arguments.c = tensor(there[2], m, n);
    memset(&plan, 0, sizeof plan);
    DO(PLAN(&kernel, &arguments, &plan));
    if (plan.workspace) DO(cuMemAlloc_v2(&workspace, plan.workspace));
    DO(LAUNCH(stream, &plan, workspace));
    DO(cuStreamSynchronize(stream));
    DO(cuMemcpyDtoH_v2(host[2], there[2], sizes[2] * sizeof(element)));
    for (i = 0; i < 2000; ++i) {
        int row = i * 7919 % m, column = i * 104729 % n, j;
        double sum = 0, result = value(host[2][at(row, column, m, n)]), error;
        for (j = 0; j < k; ++j) sum += value(host[0][at(row, j, m, k)]) * value(host[1][at(column, j, n, k)]);
        error = (result > sum ? result - sum : sum - result) / (sum > 1 ? sum : sum < -1 ? -sum : 1);
        worst = error > worst ? error : worst;
        wrong += !(error <= BOUND);
    }
    planned = seconds();
    for (i = 0; i < repeats; ++i) DO(PLAN(&kernel, &arguments, &plan));
    planned = (seconds() - planned) / repeats;
    DO(cuStreamSynchronize(stream));
    launched = seconds();
    for (i = 0; i < repeats; ++i) DO(LAUNCH(stream, &plan, workspace));
    launched = (seconds() - launched) / repeats;
    DO(cuStreamSynchronize(stream));
    DO(cuEventCreate(&start, 0));
    DO(cuEventCreate(&end, 0));
    DO(cuEventRecord(start, stream));
    for (i = 0; i < 50; ++i) DO(LAUNCH(stream, &plan, workspace));
    DO(cuEventRecord(end, stream));
    DO(cuEventSynchronize(end));
    DO(cuEventElapsedTime(&milliseconds, start, end));
    printf("%dx%dx%d: variant %d, %s, worst error %.1e; host %.2f us to plan again, %.2f us to launch; device %.2f us, %.1f TFLOP/s\n", m, n,
           k, plan.variant + 1, wrong ? "WRONG" : "right", worst, 1e6 * planned, 1e6 * launched, 1e3 * (double)milliseconds / 50,
           2e-12 * m * n * k / (1e-3 * (double)milliseconds / 50));
    for (which = 0; which < 3; ++which) free(host[which]);
    return wrong != 0;
}

int main(void) {
    static const int sizes[][3] = {{256, 256, 256}, {1024, 1024, 1024}, {1000, 700, 301}, {4096, 4096, 4096}, {16, 4096, 4096}};
    struct CUstream_st *stream;
    void *context;
    size_t place;
    int device, wrong = 0;
    DO(cuInit(0));
    DO(cuDeviceGet(&device, 0));
    DO(cuDevicePrimaryCtxRetain(&context, device));
    DO(cuCtxSetCurrent(context));
    DO(cuStreamCreate(&stream, 1));
    if (OPEN(&kernel)) return printf("%s\n", kernel.error), 1;
    for (place = 0; place < sizeof sizes / sizeof sizes[0]; ++place)
        wrong |= check(sizes[place][0], sizes[place][1], sizes[place][2], stream);
    return wrong;
}
