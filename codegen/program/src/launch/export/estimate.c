
/* What alternatives read, and their estimated clocks. */

/* Bytes that copies begin at multiples of, and where a copy is said to be while its own launch is planned. */
#define TW_COPY_ALIGNED 256
#define TW_ELSEWHERE ((uint64_t)1 << 62)
#define TW_SECTOR 32

typedef struct {
    tw_count bytes;
    int known_bytes;
    uint64_t alignment;
    int known_alignment;
} tw_traffic;

/* What some alternatives read: the arguments, some of them replaced by copies, and what follows from them. */
typedef struct {
    int form;
    int packs;
    int pack[TW_PACKS];
    tw_bound sizes[TW_SIZES];
    char broken[TW_FACTS]; /* 0: it holds; 1: `value` breaks it; 2: it is not known, or nothing is to be told */
    int64_t value[TW_FACTS];
    tw_traffic traffic[TW_MOVES];
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

static tw_count tw_ceil(tw_count a, tw_count b) { return a / b + (a % b > 0); }

static int tw_amount(tw_size size, const tw_bound *sizes, tw_count *amount) {
    int64_t value;
    if (!tw_value(size, sizes, &value)) return 0;
    *amount = value > 0 ? (tw_count)value : 0;
    return 1;
}

/* Iterations of a tile's main loop. */
static int tw_trips(const tw_cost *cost, const tw_bound *sizes, tw_count *trips) {
    tw_count one, other;
    if (!tw_amount(cost->steps.count, sizes, trips) || !tw_amount(cost->times[0], sizes, &one)) return 0;
    if (!tw_amount(cost->times[1], sizes, &other)) return 0;
    *trips = tw_times(tw_times(*trips, one), other);
    *trips = tw_ceil(*trips, cost->over);
    return 1;
}

static tw_count tw_longer(tw_count a, tw_count b) { return a > b ? a : b; }

static uint32_t tw_clusters(const tw_limits *limits, uint32_t of, uint32_t resident) {
    uint64_t blocks = (uint64_t)limits->multiprocessors * (resident ? resident : 1);
    if (blocks > UINT32_MAX) blocks = UINT32_MAX;
    if (of > 2) blocks -= (blocks + TW_IDLE - 1) / TW_IDLE;
    blocks /= of ? of : 1;
    return blocks ? (uint32_t)blocks : 1;
}

static void tw_measure(const tw_moves *moved, const tw_bound *sizes, tw_traffic *traffic) {
    uint64_t all = (uint64_t)1 << 16;
    int at, mode;
    traffic->bytes = 0;
    traffic->known_bytes = traffic->known_alignment = 1;
    for (at = 0; at < moved->count; ++at) {
        const tw_moved *tensor = &moved->tensors[at];
        tw_count elements = tensor->bytes, extent;
        for (mode = 0; mode < tensor->rank; ++mode) {
            if (!tw_amount(tensor->extents[mode], sizes, &extent)) traffic->known_bytes = 0;
            else elements = tw_times(elements, extent);
        }
        traffic->bytes = tw_plus(traffic->bytes, elements);
        for (mode = 0; mode < tensor->rows; ++mode) {
            int64_t stride;
            if (!tw_value(tensor->strides[mode], sizes, &stride)) traffic->known_alignment = 0;
            else all |= (uint64_t)(stride < 0 ? -stride : stride) * tensor->bytes;
        }
    }
    traffic->alignment = all & (~all + 1);
}

/* Clocks in which so many blocks each copy so many rows. */
static tw_count tw_rows_clocks(tw_count blocks, int paired, tw_count rows, uint64_t alignment) {
    size_t at;
    for (at = 0; at < sizeof tw_rows / sizeof tw_rows[0]; ++at) {
        if (alignment < tw_rows[at].aligned) {
            tw_count own = rows * (paired ? tw_rows[at].beside : tw_rows[at].alone) / 10;
            return tw_longer(own, tw_times(blocks, rows) / tw_rows[at].in_a_clock);
        }
    }
    return 0;
}

/* Clocks of guarded accesses that are not executed, where this part of a tile is inside: warps that skip all leave their
   scheduler to others, but one warp of each is as long as before. */
static tw_count tw_outside(const tw_cost *cost, uint32_t clocks, double inside) {
    double least = TW_SCHEDULERS / (double)cost->warps, part = inside > least ? inside : least;
    if (part > 1.0) part = 1.0;
    return clocks - (tw_count)((double)clocks * part);
}

/* Clocks of a tile beside its iterations, which depend on the rows of results. */
static tw_count tw_tile_clocks(const tw_cost *cost, const tw_operands *operands) {
    const tw_traffic *stores = &operands->traffic[cost->stores];
    int cuts = stores->known_alignment && stores->alignment < TW_SECTOR;
    return (tw_count)cost->tile + (cuts && stores->known_bytes && stores->bytes > TW_FEW_STORED ? cost->cut_tile : 0);
}

/* The clocks of the waves of blocks that the busiest multiprocessor has at once. */
static int tw_in_waves(const tw_variant *variant, const tw_limits *limits, const tw_operands *operands, uint32_t cluster,
                       tw_count *clocks) {
    const tw_cost *cost = variant->cost;
    const tw_traffic *reads = &operands->traffic[cost->reads];
    tw_count blocks = 1, along, extent, steps, waves, rest, last, all, once, own, alone, tile, step, shared, part = 0;
    double copied = 0.0, stored = 1.0, of_steps = 1.0;
    int at, axes = 0;
    for (at = 0; at < cost->factors; ++at) {
        const tw_factor *factor = &cost->factor[at];
        if (!tw_amount(factor->count, operands->sizes, &along)) return 0;
        blocks = tw_times(blocks, along);
        if (factor->tiles) {
            double inside;
            if (!tw_amount(factor->extent, operands->sizes, &extent)) return 0;
            inside = (double)extent / (double)factor->over;
            if (inside > 1.0) inside = 1.0;
            copied += inside;
            stored *= inside;
            ++axes;
        }
    }
    if (!tw_trips(cost, operands->sizes, &steps)) return 0;
    if (cost->steps.tiles) {
        if (!tw_amount(cost->steps.extent, operands->sizes, &extent)) return 0;
        of_steps = (double)extent / ((double)(steps ? steps : 1) * (double)cost->steps.over);
    }
    if (!reads->known_alignment || !reads->known_bytes) return 0;
    copied = (axes ? copied / (double)axes : 1.0) * of_steps;
    tile = tw_tile_clocks(cost, operands) - tw_outside(cost, cost->guarded_tile, stored);
    own = cost->step;
    alone = cost->alone;
    if (reads->alignment < TW_SECTOR) {
        own += cost->cut;
        alone += cost->cut;
    }
    own -= tw_outside(cost, cost->guarded_step, copied);
    all = (tw_count)tw_clusters(limits, cluster, cost->resident) * cluster;
    once = (tw_count)tw_clusters(limits, cluster, 1) * cluster;
    waves = blocks / all;
    rest = blocks % all;
    last = tw_ceil(rest, once);
    step = tw_times(cost->resident, own);
    step = tw_longer(step, alone);
    shared = tile > cost->begin ? tile - cost->begin : 0;
    all = tw_plus(tw_plus(tw_times(steps, step), tile), tw_times(tw_times(cost->resident - 1, shared), TW_SHARING) / TW_SHARING_OF);
    all = tw_times(waves, all);
    if (last) {
        step = tw_times(last, own);
        step = tw_longer(step, alone);
        part = tw_plus(tw_plus(tw_times(steps, step), tile), tw_times(tw_times(last - 1, shared), TW_SHARING) / TW_SHARING_OF);
    }
    *clocks = tw_plus(tw_longer(tw_plus(all, part), reads->bytes / TW_MEMORY), cost->launch);
    return 1;
}

/* The clocks of the busiest block's tiles, one of which is an edge tile. */
static int tw_by_tiles(const tw_variant *variant, const tw_limits *limits, const tw_operands *operands, uint32_t cluster,
                       tw_count *clocks) {
    const tw_cost *cost = variant->cost;
    const tw_traffic *reads = &operands->traffic[cost->reads], *bulk = &operands->traffic[cost->bulk];
    tw_count tiles = 1, outside = 0, along, extent, clusters, rounds, steps, blocks, busy, copied, own, step, tile, memory, edges;
    tw_count all;
    int at;
    for (at = 0; at < cost->factors; ++at) {
        const tw_factor *factor = &cost->factor[at];
        if (!tw_amount(factor->count, operands->sizes, &along)) return 0;
        tiles = tw_times(tiles, along);
        if (factor->tiles) {
            tw_count of_block = factor->over / (variant->persistent ? cluster : 1), out = tw_times(along, factor->over);
            if (!tw_amount(factor->extent, operands->sizes, &extent)) return 0;
            out = out > extent ? out - extent : 0;
            outside += out < of_block ? out : of_block;
        }
    }
    if (!variant->persistent) tiles = tw_ceil(tiles, cluster);
    clusters = tw_clusters(limits, cluster, variant->persistent ? variant->blocks_per_sm : 1);
    rounds = tw_ceil(tiles, clusters);
    if (!tw_trips(cost, operands->sizes, &steps)) return 0;
    blocks = tw_times(tiles < clusters ? tiles : clusters, cluster);
    busy = tw_times(tiles, cluster) / (rounds ? rounds : 1);
    if (!bulk->known_alignment || !reads->known_alignment) return 0;
    copied = tw_rows_clocks(busy, blocks > limits->multiprocessors / 2, cost->rows, bulk->alignment);
    own = cost->step;
    if (reads->alignment < TW_SECTOR) own += cost->cut;
    step = tw_longer(own, copied);
    tile = tw_tile_clocks(cost, operands);
    all = tw_times(rounds, tw_plus(tw_times(steps, step), tile));
    if (cost->rows && !bulk->known_bytes) return 0;
    memory = cost->rows ? bulk->bytes / TW_MEMORY : 0;
    edges = cost->rows ? tw_times(steps, outside) : 0;
    *clocks = tw_plus(tw_plus(tw_longer(all, memory), edges), cost->launch);
    return 1;
}

static int tw_estimate(const tw_variant *variant, const tw_limits *limits, const tw_operands *operands, tw_count *clocks) {
    uint32_t cluster = 1;
    int axis;
    if (!variant->cost) return 0;
    for (axis = 0; axis < 3; ++axis) cluster *= variant->cluster[axis];
    if (!cluster) cluster = 1;
    return variant->cost->resident ? tw_in_waves(variant, limits, operands, cluster, clocks)
                                   : tw_by_tiles(variant, limits, operands, cluster, clocks);
}
