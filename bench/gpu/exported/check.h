/* What the programs that check exported kernels have in common. HEADER and KERNEL are the kernel's. */
#define _POSIX_C_SOURCE 199309L
#include <math.h>
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
int cuDeviceGetCount(int *count);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxCreate_v2(void **context, unsigned flags, int device);
int cuCtxGetCurrent(void **context);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(address *at, size_t bytes);
int cuMemFree_v2(address at);
int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, address from, size_t bytes);
int cuStreamCreate(struct CUstream_st **stream, unsigned flags);
int cuStreamSynchronize(struct CUstream_st *stream);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, struct CUstream_st *stream);
int cuEventSynchronize(void *event);
int cuEventElapsedTime(float *milliseconds, void *start, void *end);

static tilewright_plan plan;
static JOIN(KERNEL, _kernel) kernel;
static JOIN(KERNEL, _arguments) arguments;

#define DO(call)                                                        \
    do {                                                                \
        int status_ = (call);                                           \
        if (status_) {                                                  \
            printf("%s: %d %s\n", #call, status_, plan.error);          \
            exit(1);                                                    \
        }                                                               \
    } while (0)

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A number of 16 bits with an exponent of 8. */
static inline double of_bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, 4);
    return y;
}

/* The nearest one that is no larger in size. */
static inline uint16_t to_bf16(double x) {
    float y = (float)x;
    uint32_t bits;
    memcpy(&bits, &y, 4);
    return (uint16_t)(bits >> 16);
}

static inline tilewright_tensor matrix(address where, int type, int64_t rows, int64_t columns, int row_major) {
    tilewright_tensor made;
    memset(&made, 0, sizeof made);
    made.address = where;
    made.elements = (uint64_t)(rows * columns);
    made.type = type;
    made.rank = 2;
    made.extents[0] = rows;
    made.extents[1] = columns;
    made.strides[0] = row_major ? columns : 1;
    made.strides[1] = row_major ? 1 : rows;
    return made;
}

/* Opens the kernel in the first device's own context, which it makes current. */
static inline struct CUstream_st *opened(void) {
    struct CUstream_st *stream;
    void *context;
    int device;
    DO(cuInit(0));
    DO(cuDeviceGet(&device, 0));
    DO(cuDevicePrimaryCtxRetain(&context, device));
    DO(cuCtxSetCurrent(context));
    DO(cuStreamCreate(&stream, 1));
    if (OPEN(&kernel)) {
        printf("%s\n", kernel.error);
        exit(1);
    }
    return stream;
}

/* Plans and launches once, and waits. Returns the workspace. */
static inline address launched(struct CUstream_st *stream) {
    address workspace = 0;
    memset(&plan, 0, sizeof plan);
    DO(PLAN(&kernel, &arguments, &plan));
    if (plan.workspace) DO(cuMemAlloc_v2(&workspace, plan.workspace));
    DO(LAUNCH(stream, &plan, workspace));
    DO(cuStreamSynchronize(stream));
    return workspace;
}

/* Prints the host's time to plan again and to launch, and the device's time of a launch; returns the last in seconds. */
static inline double measured(struct CUstream_st *stream, address workspace) {
    void *start, *end;
    float milliseconds;
    double planned, host;
    int i, repeats = 200;
    planned = seconds();
    for (i = 0; i < repeats; ++i) DO(PLAN(&kernel, &arguments, &plan));
    planned = (seconds() - planned) / repeats;
    DO(cuStreamSynchronize(stream));
    host = seconds();
    for (i = 0; i < repeats; ++i) DO(LAUNCH(stream, &plan, workspace));
    host = (seconds() - host) / repeats;
    DO(cuStreamSynchronize(stream));
    DO(cuEventCreate(&start, 0));
    DO(cuEventCreate(&end, 0));
    DO(cuEventRecord(start, stream));
    for (i = 0; i < 50; ++i) DO(LAUNCH(stream, &plan, workspace));
    DO(cuEventRecord(end, stream));
    DO(cuEventSynchronize(end));
    DO(cuEventElapsedTime(&milliseconds, start, end));
    printf("host %.2f us to plan again, %.2f us to launch; device %.2f us", 1e6 * planned, 1e6 * host,
           1e3 * (double)milliseconds / 50);
    return 1e-3 * (double)milliseconds / 50;
}
