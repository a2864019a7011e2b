/* What follows is the same for every kernel: it reads the tables at the end, checks the arguments of a launch, chooses among
   the alternatives, and calls the driver. Sizes of a launch have numbers; the tables name them by these. */

#ifdef _WIN32
#ifdef __cplusplus
extern "C" {
#endif
__declspec(dllimport) void *__stdcall LoadLibraryA(const char *name);
__declspec(dllimport) void (*__stdcall GetProcAddress(void *library, const char *name))(void);
#ifdef __cplusplus
}
#endif
#else
#include <dlfcn.h>
#endif
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library of the driver, which is loaded when a kernel is first opened. Where this is 0, the program has its functions. */
#ifndef TILEWRIGHT_DRIVER
#ifdef _WIN32
#define TILEWRIGHT_DRIVER "nvcuda.dll"
#else
#define TILEWRIGHT_DRIVER "libcuda.so.1"
#endif
#endif

/* Its functions that are called. */
#define TW_DRIVER(FUNCTION)                                                                                                   \
    FUNCTION(cuInit, (unsigned flags))                                                                                        \
    FUNCTION(cuCtxGetCurrent, (void **context))                                                                               \
    FUNCTION(cuCtxGetDevice, (int *device))                                                                                   \
    FUNCTION(cuCtxSetCurrent, (void *context))                                                                                \
    FUNCTION(cuDeviceGetAttribute, (int *value, int attribute, int device))                                                   \
    FUNCTION(cuDeviceGetName, (char *name, int length, int device))                                                           \
    FUNCTION(cuDevicePrimaryCtxRetain, (void **context, int device))                                                          \
    FUNCTION(cuFuncGetAttribute, (int *value, int attribute, void *function))                                                 \
    FUNCTION(cuFuncSetAttribute, (void *function, int attribute, int value))                                                  \
    FUNCTION(cuGetErrorName, (int error, const char **text))                                                                  \
    FUNCTION(cuGetErrorString, (int error, const char **text))                                                                \
    FUNCTION(cuLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,            \
                              unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters,     \
                              void **extra))                                                                                  \
    FUNCTION(cuLaunchKernelEx, (const void *config, void *function, void **parameters, void **extra))                         \
    FUNCTION(cuMemsetD8Async, (unsigned long long address, unsigned char value, size_t bytes, void *stream))                  \
    FUNCTION(cuModuleGetFunction, (void **function, void *module, const char *name))                                          \
    FUNCTION(cuModuleLoadData, (void **module, const void *image))                                                            \
    FUNCTION(cuModuleUnload, (void *module))                                                                                  \
    FUNCTION(cuPointerGetAttribute, (void *value, int attribute, unsigned long long address))                                 \
    FUNCTION(cuStreamGetCtx, (void *stream, void **context))                                                                  \
    FUNCTION(cuStreamIsCapturing, (void *stream, int *status))                                                                \
    FUNCTION(cuTensorMapEncodeTiled,                                                                                          \
             (void *map, int type, uint32_t modes, void *address, const uint64_t *extents, const uint64_t *strides,           \
              const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))

#define TW_POINTER(name, parameters) static int(*name) parameters;
TW_DRIVER(TW_POINTER)

__extension__ typedef __int128 tw_wide;
typedef uint64_t tw_count;

/* times * ceil(size number `of` / over); of = -1: the number `times`; of = -2: without a value. */
typedef struct {
    int64_t times;
    int of;
    uint32_t over;
} tw_size;

/* The value of a size. */
typedef int64_t tw_bound;

struct tw_operands;
struct tw_packing;

/* What a device can hold. */
typedef struct {
    uint32_t arch, shared_bytes, threads, grid[3], multiprocessors;
    uint64_t model;
} tw_limits;

/* An error text that is filled from the left. */
typedef struct {
    char *at;
    size_t left;
} tw_text;

struct tw_kernel;

/* Determines the sizes, as some alternatives take tensors. */
typedef struct {
    int (*bind)(const tilewright_tensor *const *tensors, tw_bound *sizes, tw_text *error);
} tw_form;

/* How messages call what an alternative assumes: what stands before and after the number, if there is one. */
typedef struct {
    const char *before, *after;
} tw_fact;

/* Alternatives that differ in tiles alone have this in common. `kept_fact` are the facts that a copy does not change, and `rows` is
   the reason why they do not read the arguments themselves, if rows are along another mode. */
typedef struct {
    int form;
    int facts;
    const int *fact;
    int kept_facts;
    const int *kept_fact;
    const char *rows;
    tw_count (*copies)(struct tw_packing *packing, int of_class);
} tw_class;

enum { TW_TENSOR, TW_SCALAR, TW_INT, TW_MAP, TW_WORKSPACE, TW_ZEROED };

/* A tensor map for bulk copies, innermost mode first. */
typedef struct {
    int type;
    uint32_t bytes;
    int modes;
    const tw_size *extents;
    const tw_size *strides;
    const uint32_t *box, *steps;
    uint32_t swizzle;
    const char *name;
} tw_map;

/* Memory of a launch: the extents, and bytes of an element. */
typedef struct {
    int factors;
    const tw_size *factor;
    uint32_t bytes;
} tw_memory;

typedef struct {
    int kind;
    int arg;
    tw_size value;
    const tw_map *map;
    const tw_memory *memory;
} tw_parameter;

/* A binary: for its architecture and newer ones with the same first digit, or for that alone; PTX for all newer ones. */
typedef struct {
    uint32_t arch;
    int exact;
    int ptx;
    size_t size, packed; /* bytes of the binary, and of the block of LZ4 that it is in */
    const unsigned char *block;
} tw_image;

typedef struct tw_variant {
    const char *entry;
    int of_class;
    uint32_t arch;
    int competes;
    tw_count alternative;
    int cuts; /* takes longer where rows of an argument begin in the middle of a sector */
    uint32_t launch_clocks;
    tw_count (*estimate)(const uint32_t *constants, const struct tw_operands *of, const tw_limits *limits); /* clocks */
    const uint32_t *constants;
    int (*supported)(const tw_bound *sizes, const tw_limits *limits, tw_text *error);
    int (*blocks)(const tw_bound *sizes, const tw_limits *limits, uint32_t grid[3], tw_text *error);
    int (*is_long)(const tw_bound *sizes, const tw_limits *limits); /* along y or z */
    const struct tw_variant *folded; /* with all blocks along x, for grids that are too long along y or z */
    uint32_t cluster[3];
    uint32_t threads, shared_bytes;
    int overlaps;
    int parameters;
    const tw_parameter *parameter;
    int images;
    const tw_image *image;
    int function;
} tw_variant;

struct tw_kernel;

/* An argument that may be copied to aligned rows first. `copied` has the copy, and the arguments of its launch, or returns 0. */
typedef struct {
    int arg;
    int (*copied)(const tilewright_tensor *const *tensors, tilewright_tensor *copy, tilewright_tensor launch[2]);
    const struct tw_kernel *kernel;
    int beside; /* alternatives for a copy alone; then for the first of several, and for copies beside it; 0: one kind */
} tw_pack;

/* The kernel without loops, for launches where a size is 0 that only they run over. */
typedef struct {
    const struct tw_kernel *kernel;
    const int *sizes; /* by its numbers; -1: none */
} tw_empty_loops;

typedef struct {
    const char *name;
    int type;
    int tensor;
    unsigned nonzero; /* a bit for each mode whose extent is at least 1 */
    int rank;
} tw_param;

typedef struct tw_kernel {
    const char *name;
    int params;
    const tw_param *param;
    int sizes;
    /* Checks tensors, and determines the sizes; for each form, determines the sizes; checks that tensors do not overlap. */
    int (*check)(const tilewright_tensor *const *tensors, tw_bound *sizes, int *empty_loops,
                 tw_text *error);
    const tw_form *form;
    int (*apart)(const tilewright_tensor *const *tensors, tw_text *error);
    int facts;
    const tw_fact *fact;
    int limits; /* facts that all alternatives have */
    const int *limit;
    int classes;
    const tw_class *of_class;
    int variants;
    const tw_variant *variant;
    int packs;
    const tw_pack *pack;
    /* What facts and estimates are about. */
    void (*derive)(const tilewright_tensor *const *tensors, const tw_bound *sizes, struct tw_operands *of);
    const tw_empty_loops *empty_loops;
    uint64_t alignment;
    /* The number of the alternative that the nearest record says is the fastest, or TW_NONE. */
    tw_count (*recorded)(const tw_bound *sizes, const tw_limits *limits);
} tw_kernel;

static void tw_put(tw_text *text, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

static void tw_put(tw_text *text, const char *format, ...) {
    va_list values;
    int length;
    va_start(values, format);
    length = vsnprintf(text->at, text->left, format, values);
    va_end(values);
    if (length > 0) {
        size_t used = (size_t)length < text->left ? (size_t)length : text->left - 1;
        text->at += used;
        text->left -= used;
    }
}

#define TW_REFUSE(text, ...) (tw_put((text), __VA_ARGS__), TILEWRIGHT_REFUSED)

static int tw_function(void *library, const char *name, void *function, size_t bytes) {
#ifdef _WIN32
    void (*symbol)(void) = GetProcAddress(library, name);
#else
    void *symbol = dlsym(library, name);
#endif
    if (symbol) memcpy(function, &symbol, bytes);
    return symbol != 0;
}

/* Loads the driver, once in a program. */
static int tw_driver(tw_text *error) {
    static int loaded;
    static char busy;
    const char *missing = 0;
    void *library;
    int status = 0;
    if (__atomic_load_n(&loaded, __ATOMIC_ACQUIRE)) return 0;
    while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) continue;
#ifdef _WIN32
    library = LoadLibraryA(TILEWRIGHT_DRIVER);
#else
    library = dlopen(TILEWRIGHT_DRIVER, RTLD_NOW);
#endif
#define TW_LOAD(name, parameters) \
    if (!missing && !tw_function(library, #name, &name, sizeof name)) missing = #name;
    if (library) {
        TW_DRIVER(TW_LOAD)
    }
    if (!library) status = TW_REFUSE(error, "there is no NVIDIA driver here\nhelp: install it; in a container, start it with `--gpus all`");
    else if (missing) status = TW_REFUSE(error, "the driver has no `%s`\nhelp: install a driver for CUDA 12.0 or newer", missing);
    else __atomic_store_n(&loaded, 1, __ATOMIC_RELEASE);
    __atomic_clear(&busy, __ATOMIC_RELEASE);
    return status;
}

/* The value of a size; 0 if it overflows. */
static int tw_value(tw_size size, const tw_bound *sizes, int64_t *value) {
    tw_wide product = size.times;
    if (size.of >= 0) {
        int64_t of = sizes[size.of], over = size.over, rest = ((of % over) + over) % over;
        product *= (of - rest) / over + (rest != 0);
    }
    *value = (int64_t)product;
    return size.of > -2 && product <= INT64_MAX && product >= INT64_MIN;
}

static int tw_empty(const tilewright_tensor *tensor) {
    int mode;
    for (mode = 0; mode < tensor->rank; ++mode)
        if (tensor->extents[mode] == 0) return 1;
    return 0;
}

/* The offset of the last element. */
static tw_wide tw_last(const tilewright_tensor *tensor) {
    tw_wide last = 0;
    int mode;
    for (mode = 0; mode < tensor->rank; ++mode) last += (tw_wide)(tensor->extents[mode] - 1) * tensor->strides[mode];
    return last;
}
