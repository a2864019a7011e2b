
/* What alternatives read. */

/* Bytes that copies begin at multiples of, and where a copy is said to be while its own launch is planned. */
#define TW_COPY_ALIGNED 256
#define TW_ELSEWHERE ((uint64_t)1 << 62)

/* What some alternatives read: the arguments, some of them replaced by copies, and what follows from them. */
typedef struct tw_operands {
    int form;
    tw_count copies;
    tw_bound sizes[TW_SIZES];
    unsigned char broken[TW_FACTS]; /* is a fact false? */
    tw_count value[TW_FACTS];       /* the number that it is about */
    tw_count counts[TW_COUNTS], bytes[TW_MOVES], alignment[TW_MOVES];
} tw_operands;

/* A kernel's launch. */
typedef struct {
    const tw_variant *variant;
    uint32_t grid[3];
    tw_bound sizes[TW_SIZES];
    tw_count clocks, copies;
} tw_chosen;

typedef struct {
    int state; /* 0: not planned; 1: planned; 2: there is none */
    tilewright_tensor copy;
    tw_chosen chosen;
} tw_copy;

typedef struct tw_packing {
    const tw_launch *launch;
    const tw_limits *limits;
    int count;
    tw_operands operands[TW_OPERANDS];
    tw_copy copies[TW_PACKS];
    char is_known[TW_CLASSES];
    tw_count of_class[TW_CLASSES]; /* the copies that its alternatives read */
} tw_packing;

static tw_count tw_times(tw_count a, tw_count b) {
    tw_count product;
    return __builtin_mul_overflow(a, b, &product) ? ~(tw_count)0 : product;
}
