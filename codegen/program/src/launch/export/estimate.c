
/* What alternatives read. */

/* Bytes that copies begin at multiples of, and where a copy is said to be while its own launch is planned. */
#define TW_COPY_ALIGNED 256
#define TW_ELSEWHERE ((uint64_t)1 << 62)
#define TW_SECTOR 32

/* What some alternatives read: the arguments, some of them replaced by copies, and what follows from them. */
typedef struct tw_operands {
    int form;
    int packs;
    int pack[TW_PACKS];
    tw_bound sizes[TW_SIZES];
    char broken[TW_FACTS]; /* 0: it holds; 1: `value` breaks it; 2: it is not known, or nothing is to be told */
    int64_t value[TW_FACTS];
    tw_count counts[TW_COUNTS], bytes[TW_MOVES], alignment[TW_MOVES];
} tw_operands;

/* A kernel's launch. */
typedef struct {
    const tw_variant *variant;
    uint32_t grid[3];
    tw_bound sizes[TW_SIZES];
    tw_count clocks;
    int estimated;
} tw_chosen;

typedef struct {
    int state; /* 0: not planned; 1: planned; 2: there is none */
    tilewright_tensor copy;
    tw_chosen chosen;
} tw_copy;

typedef struct {
    const tw_launch *launch;
    const tw_limits *limits;
    int count;
    tw_operands operands[TW_OPERANDS];
    tw_copy copies[TW_PACKS];
    int of_class[TW_CLASSES]; /* operands with copies; -1: none; -2: not looked for */
} tw_packing;

static tw_count tw_times(tw_count a, tw_count b) {
    tw_count product;
    return __builtin_mul_overflow(a, b, &product) ? ~(tw_count)0 : product;
}

static tw_count tw_plus(tw_count a, tw_count b) { return a + b < a ? ~(tw_count)0 : a + b; }

static tw_count tw_minus(tw_count a, tw_count b) { return a > b ? a - b : 0; }

static uint32_t tw_clusters(const tw_limits *limits, uint32_t of, uint32_t resident) {
    uint64_t blocks = (uint64_t)limits->multiprocessors * (resident ? resident : 1);
    if (blocks > UINT32_MAX) blocks = UINT32_MAX;
    if (of > 2) blocks -= (blocks + TW_IDLE - 1) / TW_IDLE;
    blocks /= of ? of : 1;
    return blocks ? (uint32_t)blocks : 1;
}
