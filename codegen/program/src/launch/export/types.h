#ifndef TILEWRIGHT_LAUNCH_1
#define TILEWRIGHT_LAUNCH_1

#include <stddef.h>
#include <stdint.h>

#define TILEWRIGHT_MODES 8       /* of a tensor, at most */
#define TILEWRIGHT_ARGUMENTS 24  /* of a kernel, at most */
#define TILEWRIGHT_STEPS 8       /* kernels of a launch, at most: those that copy arguments first, and the kernel itself */
#define TILEWRIGHT_PARAMETERS 96 /* of all steps */
#define TILEWRIGHT_MAPS 12       /* tensor maps of all steps */
#define TILEWRIGHT_ERROR 1024    /* bytes of a message */

/* What functions return: 0, or TILEWRIGHT_REFUSED, or the driver's error. The plan's `error` has the message. */
#define TILEWRIGHT_REFUSED (-1)

typedef enum tilewright_type {
    TILEWRIGHT_F64,
    TILEWRIGHT_F32,
    TILEWRIGHT_F16,
    TILEWRIGHT_BF16,
    TILEWRIGHT_I32,
    TILEWRIGHT_U32,
    TILEWRIGHT_I8,
    TILEWRIGHT_U8,
    TILEWRIGHT_TF32,
    TILEWRIGHT_E4M3,
    TILEWRIGHT_E5M2,
    TILEWRIGHT_I64,
    TILEWRIGHT_U64,
    TILEWRIGHT_I16,
    TILEWRIGHT_U16,
    TILEWRIGHT_BOOL
} tilewright_type;

/* A tensor in a device's memory. Extents and strides count elements. */
typedef struct tilewright_tensor {
    uint64_t address;  /* of its first element */
    uint64_t elements; /* of its memory, from the first one on */
    int type;          /* a tilewright_type */
    int rank;          /* modes */
    int64_t extents[TILEWRIGHT_MODES];
    int64_t strides[TILEWRIGHT_MODES];
} tilewright_tensor;

/* A device, as the context that was current when the kernel was opened has it. */
typedef struct tilewright_context {
    void *context;
    int device;
    uint32_t arch, shared_bytes, threads, grid[3], multiprocessors;
    uint64_t model; /* a hash of its name */
} tilewright_context;

typedef struct tilewright_function {
    void *module, *function;
} tilewright_function;

/* One kernel of a launch. */
typedef struct tilewright_step {
    void *function;
    uint32_t grid[3], cluster[3], threads;
    uint32_t shared_bytes; /* dynamic */
    int overlaps;          /* programmatic dependent launch: the kernel waits for the one before it by itself */
    int first, count;      /* of the plan's parameters */
} tilewright_step;

enum { TILEWRIGHT_ADDRESS, TILEWRIGHT_WORKSPACE, TILEWRIGHT_NUMBER, TILEWRIGHT_SIZE };

/* A parameter of a kernel: an address, or one in the workspace, a number that is given, a size; or the map of that address. */
typedef struct tilewright_parameter {
    int kind, arg, map;
    uint64_t word;
} tilewright_parameter;

typedef struct tilewright_map {
#if defined(__GNUC__)
    __attribute__((aligned(64)))
#endif
    uint64_t encoded[16];
    uint64_t address; /* for which it is encoded, or 0 */
    uint64_t extents[5], strides[5];
    uint32_t box[5], steps[5], modes, swizzle;
    int type;
} tilewright_map;

/* A planned launch. Set it to zeros before it is planned for the first time. */
typedef struct tilewright_plan {
    char error[TILEWRIGHT_ERROR];
    int made;
    int variant;      /* the alternative that runs, from 0; -1 where there is nothing to do */
    uint32_t grid[3]; /* of the kernel itself */
    uint64_t workspace; /* bytes of memory that a launch needs until it has ended */
    uint64_t zeros, zeroed; /* where in it a launch sets bytes to 0 first, and how many */
    void *context;
    int steps, parameters, maps;
    tilewright_step step[TILEWRIGHT_STEPS];
    tilewright_parameter parameter[TILEWRIGHT_PARAMETERS];
    tilewright_map map[TILEWRIGHT_MAPS];
    tilewright_tensor tensor[TILEWRIGHT_ARGUMENTS];
} tilewright_plan;

#endif
