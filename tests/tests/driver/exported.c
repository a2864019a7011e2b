/* A driver that prints its launches, and a program that reads arguments and launches. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "NAME.h"

#ifdef WITHOUT_PLAN
static int device[9] = {90, 232448, 1024, 2147483647, 65535, 65535, 132};
#else
static int device[9]; /* compute capability, shared memory, threads, grid, multiprocessors */
#endif

/* Maps as they were encoded: what launches get is their number here. */
typedef struct {
    uint64_t address, extents[5], strides[4];
    uint32_t box[5], modes;
    int swizzle;
} map;

static map maps[1 << 16];
static uint64_t encoded;

static NAME_kernel kernel;
static NAME_arguments arguments;
static tilewright_plan plan;
static int step; /* the next launch's */

/* What is current, and where streams and memory are: changed by mistakes(). */
static void *current = device, *of_streams;
static int of_memory, initial;

int cuInit(unsigned flags) { return (void)flags, initial; }
int cuCtxGetCurrent(void **context) { return *context = current, 0; }
int cuCtxGetDevice(int *ordinal) { return *ordinal = (int)((int *)current - device), 0; }
int cuCtxSetCurrent(void *context) { return current = context, 0; }
int cuDevicePrimaryCtxRetain(void **context, int ordinal) { return *context = device + ordinal, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int ordinal) {
    (void)ordinal;
    switch (attribute) {
    case 75: *value = device[0] / 10; break;
    case 76: *value = device[0] % 10; break;
    case 97: *value = device[1]; break;
    case 1: *value = device[2]; break;
    case 5: case 6: case 7: *value = device[attribute - 2]; break;
    case 16: *value = device[6]; break;
    default: return 1;
    }
    return 0;
}
int cuDeviceGetName(char *name, int length, int ordinal) {
    (void)ordinal;
    return snprintf(name, (size_t)length, "NVIDIA H200") < 0;
}
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    (void)attribute, (void)function;
    return *value = 1024, 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
    (void)function;
    return attribute != 8 && attribute != 14 && value;
}
int cuGetErrorName(int error, const char **text) { return (void)error, *text = "E", 0; }
int cuGetErrorString(int error, const char **text) { return (void)error, *text = "e", 0; }
/* Modules and functions are copies of what images begin with: a hash of the bytes after it, and their number. */
int cuModuleLoadData(void **module, const void *image) {
    static uint64_t modules[1 << 10][2];
    static unsigned next;
    uint64_t *made = modules[next++ % (1 << 10)];
#ifndef WITHOUT_PLAN
    uint64_t hash = 7;
    memcpy(made, image, 16);
    for (uint64_t at = 0; at < made[1]; ++at) hash = (hash ^ ((const unsigned char *)image)[16 + at]) * 0x100000001b3;
    if (hash >> 1 != made[0]) return 1;
#else
    (void)image;
#endif
    return *module = made, 0;
}
int cuMemsetD8Async(unsigned long long address, unsigned char value, size_t bytes, void *stream) {
    (void)stream;
#ifndef WITHOUT_PLAN
    printf(" ; clear %llu %zu", address, bytes);
#else
    (void)address, (void)bytes;
#endif
    return value;
}
int cuModuleGetFunction(void **function, void *module, const char *name) { return *function = module, !*name; }
int cuModuleUnload(void *module) { return !module; }
int cuPointerGetAttribute(void *value, int attribute, unsigned long long address) {
    int ordinal = (int)((int *)current - device) + of_memory;
    return memcpy(value, &ordinal, sizeof ordinal), attribute != 9 || !address;
}
int cuStreamGetCtx(void *stream, void **context) { return (void)stream, *context = of_streams ? of_streams : current, 0; }
int cuStreamIsCapturing(void *stream, int *status) { return (void)stream, *status = 0; }
int cuTensorMapEncodeTiled(void *to, int type, uint32_t modes, void *address, const uint64_t *extents, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
    map *made = &maps[encoded % (1 << 16)];
    if ((uintptr_t)to % 64 || interleave || promotion != 2 || fill || type < 0 || type > 12) return 1;
    memset(made, 0, sizeof *made);
    made->address = (uint64_t)(uintptr_t)address;
    made->modes = modes;
    made->swizzle = swizzle ? 16 << swizzle : 0;
    for (uint32_t mode = 0; mode < modes; ++mode) {
        made->extents[mode] = extents[mode];
        made->box[mode] = box[mode];
        if (mode) made->strides[mode - 1] = strides[mode - 1];
        if (steps[mode] != 1) return 1;
    }
    memset(to, 0, 128);
    memcpy(to, &encoded, sizeof encoded);
    ++encoded;
    return 0;
}

static void list(const char *before, const uint64_t *all, unsigned count) {
    printf("%s", before);
    for (unsigned at = 0; at < count; ++at) printf("%s%" PRIu64, at ? "," : "", all[at]);
    printf("]");
}

/* One launch, with the parameters that the plan's step has. */
static int launched(const uint64_t *function, const unsigned grid[3], const unsigned block[3], unsigned shared, const unsigned cluster[3],
                    int overlaps, void **parameters) {
#ifdef WITHOUT_PLAN
    (void)function, (void)cluster, (void)overlaps, (void)parameters, (void)list, (void)step;
#ifndef WITHOUT_PRINT
    printf("launched [%u, %u, %u] %u %u\n", grid[0], grid[1], grid[2], block[0], shared);
    fflush(stdout);
#endif
    return 0;
#else
    const tilewright_step *of = &plan.step[step++];
    uint64_t variant;
    memcpy(&variant, function, sizeof variant);
    printf(" ; %" PRIu64 " [%u, %u, %u] %u %u [%u, %u, %u] %d", variant, grid[0], grid[1], grid[2], block[0] * block[1] * block[2],
           shared, cluster[0], cluster[1], cluster[2], overlaps);
    for (int at = 0; at < of->count; ++at) {
        uint64_t word;
        memcpy(&word, parameters[at], sizeof word);
        if (plan.parameter[of->first + at].map < 0) {
            printf(" %" PRIu64, word);
            continue;
        }
        const map *made = &maps[word];
        uint64_t box[5];
        for (int mode = 0; mode < 5; ++mode) box[mode] = made->box[mode];
        printf(" map %" PRIu64, made->address);
        list(" [", made->extents, made->modes);
        list(" [", made->strides, made->modes - 1);
        list(" [", box, made->modes);
        printf(" %d", made->swizzle);
    }
    return 0;
#endif
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **parameters, void **extra) {
    const unsigned grid[3] = {x, y, z}, block[3] = {bx, by, bz}, cluster[3] = {1, 1, 1};
    (void)stream, (void)extra;
    return launched(function, grid, block, shared, cluster, 0, parameters);
}

int cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra) {
    const struct {
        unsigned grid[3], block[3], shared;
        void *stream;
        const struct {
            int id;
            char pad[4];
            unsigned words[16];
        } *attributes;
        unsigned count;
    } *of = config;
    unsigned cluster[3] = {1, 1, 1};
    int overlaps = 0;
    (void)extra;
    for (unsigned at = 0; at < of->count; ++at) {
        if (of->attributes[at].id == 4) memcpy(cluster, of->attributes[at].words, sizeof cluster);
        else if (of->attributes[at].id == 6) overlaps = (int)of->attributes[at].words[0];
        else return 1;
    }
    return launched(function, of->grid, of->block, of->shared, cluster, overlaps, parameters);
}

#ifndef WITHOUT_PLAN
static void read_tensor(tilewright_tensor *tensor) {
    memset(tensor, 0, sizeof *tensor);
    if (scanf("%" SCNu64 " %" SCNu64 " %d %d", &tensor->address, &tensor->elements, &tensor->type, &tensor->rank) != 4) return;
    for (int mode = 0; mode < tensor->rank; ++mode)
        if (scanf("%" SCNd64, &tensor->extents[mode]) != 1) return;
    for (int mode = 0; mode < tensor->rank; ++mode)
        if (scanf("%" SCNd64, &tensor->strides[mode]) != 1) return;
}

static void read_number(void *number, size_t bytes) {
    uint64_t word = 0;
    if (scanf("%" SCNu64, &word) == 1) memcpy(number, &word, bytes);
}

/* A message, in one line. */
static void refused(const char *text) {
    printf("refused ");
    for (; *text; ++text) *text == '\n' ? printf(" | ") : putchar(*text);
}

/* Moves all tensors: their addresses keep their remainders. */
static void move(uint64_t by) {
    MOVE
}

/* A launch that is right but for one thing, again and again. */
static void mistakes(void) {
    int other[9];
#define MISTAKE(name, setting, call)                          \
    memset(&plan, 0, sizeof plan);                            \
    memset(&kernel, 0, sizeof kernel);                        \
    (void)NAME_open(&kernel);                                 \
    setting;                                                  \
    printf("%s: ", name);                                     \
    if (call) refused(plan.error[0] ? plan.error : kernel.error); \
    printf("\n");                                             \
    initial = of_memory = 0, current = device, of_streams = 0;
#define PLANNED NAME_plan(&kernel, &arguments, &plan)
#define LAUNCHED(workspace) (PLANNED || NAME_launch(0, &plan, workspace))
    MISTAKE("no device", initial = 100, NAME_open(&kernel))
    MISTAKE("no context", current = 0, NAME_open(&kernel))
    MISTAKE("not open", memset(&kernel, 0, sizeof kernel), PLANNED)
    MISTAKE("another context is current", current = other, PLANNED)
    MISTAKE("memory of another device", of_memory = 1, PLANNED)
    MISTAKE("memory of another device, where there is a plan", ((void)PLANNED, move((uint64_t)1 << 36), of_memory = 1), PLANNED)
    move(-((uint64_t)1 << 36));
    MISTAKE("not planned", (void)0, NAME_launch(0, &plan, 0))
    MISTAKE("a stream of another context", of_streams = other, LAUNCHED((uint64_t)1 << 50))
    MISTAKE("no workspace", (void)0, LAUNCHED(0))
    MISTAKE("a workspace in between", (void)0, LAUNCHED(((uint64_t)1 << 50) + 128))
}

int main(int count, char **words) {
    (void)read_number, (void)words;
    while (scanf("%d %d %d %d %d %d %d", &device[0], &device[1], &device[2], &device[3], &device[4], &device[5], &device[6]) == 7) {
        READ
        if (count > 1) {
            mistakes();
            continue;
        }
        memset(&kernel, 0, sizeof kernel);
        memset(&plan, 0, sizeof plan);
        step = 0;
        encoded %= 1 << 15;
        if (NAME_open(&kernel)) return 1;
        /* Planned twice: the second plan takes over the first one, for tensors elsewhere. */
        move((uint64_t)1 << 36);
        (void)NAME_plan(&kernel, &arguments, &plan);
        move(-((uint64_t)1 << 36));
        if (NAME_plan(&kernel, &arguments, &plan)) refused(plan.error);
        else {
            printf("planned %d [%u, %u, %u] %" PRIu64, plan.variant, plan.grid[0], plan.grid[1], plan.grid[2], plan.workspace);
            if (NAME_launch(0, &plan, (uint64_t)1 << 50)) refused(plan.error);
        }
        printf("\n");
        NAME_close(&kernel);
    }
    return 0;
}
#endif
