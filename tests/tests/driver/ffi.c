/* Calls of the function of TVM's FFI with values that are written here, and stand-ins for what it calls. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    void *data;
    int32_t device_type, device, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *extents, *strides;
    uint64_t offset;
} tensor;

typedef struct {
    int32_t type;
    uint32_t zero;
    union {
        int64_t integer;
        double number;
        void *pointer;
    } value;
} any;

/* An object with its header. */
typedef struct {
    uint64_t header[3];
    tensor of;
} object;

int __tvm_ffi_product(void *self, const any *arguments, int32_t count, any *result);

static object memory;
static int allocated, freed, has_allocator = 1, is_quiet;

void *TVMFFIEnvGetStream(int32_t type, int32_t device) {
    if (!is_quiet) printf("stream of device %d:%d; ", type, device);
    return 0;
}
int TVMFFIEnvTensorAlloc(tensor *like, void **made) {
    if (!has_allocator) return printf("error of the allocator"), -1;
    printf("allocated %ld bytes on %d:%d; ", (long)like->extents[0], like->device_type, like->device);
    memory.of = *like;
    memory.of.data = (void *)(uintptr_t)(UINT64_C(1) << 50);
    return *made = &memory, ++allocated, 0;
}
int TVMFFIObjectDecRef(void *of) { return freed += of == &memory, 0; }
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
    printf("%s: ", kind);
    for (; *message; ++message) *message == '\n' ? printf(" | ") : putchar(*message);
}

/* Tensors of a product of 256, 128 and 64, the first one as an object, in bf16. */
static int64_t extents[3][2] = {{256, 64}, {128, 64}, {256, 128}}, strides[3][2] = {{64, 1}, {64, 1}, {128, 1}};
static object first;
static tensor tensors[2];
static any arguments[5];

static void reset(void) {
    int at;
    has_allocator = 1;
    for (at = 0; at < 3; ++at) {
        tensor *of = at ? &tensors[at - 1] : &first.of;
        tensor made = {0, 2, 0, 2, 4, 16, 1, extents[at], strides[at], 0};
        made.data = (void *)(((uintptr_t)at + 1) << 44);
        *of = made;
        arguments[at].type = at ? 7 : 70;
        arguments[at].value.pointer = at ? (void *)of : (void *)&first;
        strides[at][0] = extents[at][1];
        strides[at][1] = 1;
    }
    arguments[3].type = 3;
    arguments[3].value.number = 1.0;
    arguments[4].type = 1;
    arguments[4].value.integer = 0;
}

static void call(const char *name, int count) {
    any result = {7, 0, {7}};
    int status;
    printf("%s: ", name);
    fflush(stdout);
    status = __tvm_ffi_product(0, arguments, count, &result);
    printf("%s%d, result %d\n", status ? " -> " : "-> ", status, result.type);
    fflush(stdout);
}

#define CALL(name, change) \
    reset();               \
    change;                \
    call(name, 5)

/* The least time of some runs: others may use the processor. */
static void time_calls(void) {
    enum { CALLS = 10000 };
    double best = 1e9;
    int run, at;
    any result;
    reset();
    is_quiet = 1;
    for (run = 0; run < 100; ++run) {
        struct timespec begin, end;
        double time;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (at = 0; at < CALLS; ++at) {
            /* Each call has another address. */
            tensors[1].data = (void *)((UINT64_C(3) << 44) + (uint64_t)at % 1000 * 256);
            if (__tvm_ffi_product(0, arguments, 5, &result)) exit(1);
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        time = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
        best = time / CALLS < best ? time / CALLS : best;
    }
    printf("%.0f ns a call\n", best);
}

int main(int count, char **words) {
    (void)words;
    if (count > 1) return time_calls(), 0;
    CALL("tensors as an object and by pointers", (void)0);
    CALL("again", (void)0);
    CALL("without strides", tensors[0].strides = 0);
    CALL("with an offset", tensors[0].offset = 512);
    CALL("rows of 65 elements", strides[0][0] = 65);
    CALL("rows of 65 elements, without an allocator", (strides[0][0] = 65, has_allocator = 0));
    CALL("device 1", first.of.device = tensors[0].device = tensors[1].device = 1);
    reset();
    call("two arguments", 2);
    CALL("no tensor", arguments[0].type = 0);
    CALL("a number for a tensor", arguments[1].type = 1);
    CALL("another object", arguments[1].type = 71);
    CALL("a tensor for a number", (arguments[3].type = 7, arguments[3].value.pointer = &tensors[0]));
    CALL("a large number", arguments[3].type = 78);
    CALL("the CPU", first.of.device_type = 1);
    CALL("another kind of device", first.of.device_type = 10);
    CALL("another device", tensors[0].device = 1);
    CALL("float32", (first.of.code = 2, first.of.bits = 32));
    CALL("complex64", (first.of.code = 5, first.of.bits = 64));
    CALL("lanes", first.of.lanes = 2);
    CALL("three modes", first.of.rank = 3);
    CALL("another extent", extents[1][1] = 63);
    extents[1][1] = 64;
    CALL("columns", (strides[0][0] = 1, strides[0][1] = 256));
    CALL("the memory of another", tensors[1].data = first.of.data);
    CALL("after mistakes", (void)0);
    printf("%d allocated, %d freed\n", allocated, freed);
    return 0;
}
