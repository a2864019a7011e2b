
/* Which alternative a launch takes: facts, copies of arguments, and estimates. */

/* Which facts do not hold. */
static void tw_judge(const tw_launch *launch, tw_operands *operands) {
    const tw_kernel *kernel = launch->kernel;
    int at, mode;
    for (at = 0; at < kernel->facts; ++at) {
        const tw_fact *fact = &kernel->fact[at];
        const tilewright_tensor *tensor = launch->tensors[fact->arg];
        tw_bound *sizes = operands->sizes;
        int64_t value = 0;
        char broken = 0;
        switch (fact->kind) {
        case TW_ALIGNED:
            value = (int64_t)(tensor->address % (uint64_t)fact->number);
            broken = value != 0;
            break;
        case TW_SMALL: {
            tw_wide last = 0;
            for (mode = 0; mode < tensor->rank; ++mode) {
                int64_t stride;
                if (!tw_value(fact->strides[mode], sizes, &stride)) stride = tensor->strides[mode];
                last += (tw_wide)(tensor->extents[mode] + fact->beyond[mode] - 1) * stride;
            }
            broken = last > INT32_MAX ? 2 : 0;
            break;
        }
        default:
            if (!tw_value(fact->of, sizes, &value)) broken = 2;
            else if (fact->kind == TW_DIVIDES) broken = value % fact->number != 0;
            else if (fact->kind == TW_AT_MOST) broken = value > fact->number;
            else broken = value < fact->number;
            break;
        }
        operands->broken[at] = broken;
        operands->value[at] = value;
    }
    if (kernel->measure) kernel->measure(operands->sizes, operands);
}

/* The first fact of a class that does not hold, or -1. */
static int tw_unmet(const tw_kernel *kernel, int of_class, const tw_operands *operands) {
    const tw_class *of = &kernel->of_class[of_class];
    int at;
    for (at = 0; at < of->facts; ++at)
        if (operands->broken[of->fact[at]]) return of->fact[at];
    return -1;
}

static int tw_broken(const tw_kernel *kernel, int of_class, const tw_operands *operands) {
    const tw_class *of = &kernel->of_class[of_class];
    int at, count = 0;
    for (at = 0; at < of->facts; ++at) count += operands->broken[of->fact[at]] != 0;
    return count;
}

static void tw_say_fact(tw_text *text, const tw_fact *fact, const tw_operands *operands, int at) {
    int64_t value = operands->value[at];
    int known = operands->broken[at] == 1;
    switch (fact->kind) {
    case TW_DIVIDES:
        if (known) tw_put(text, "%" PRId64 " does not divide %s, which is %" PRId64, fact->number, fact->name, value);
        else tw_put(text, "%s is not known", fact->name);
        break;
    case TW_AT_MOST:
    case TW_AT_LEAST:
        if (!known) tw_put(text, "`%s` is not known", fact->name);
        else if (fact->kind == TW_AT_MOST)
            tw_put(text,
                   "`%s` is %" PRId64 ", and the kernel is made for at most %" PRId64
                   "\nhelp: at_most or assert in the kernel bounds it: choose larger constants there, or smaller tensors",
                   fact->name, value, fact->number);
        else
            tw_put(text,
                   "`%s` is %" PRId64 ", and the kernel is made for at least %" PRId64
                   "\nhelp: at_least or assert in the kernel bounds it: choose a smaller bound there, or larger tensors",
                   fact->name, value, fact->number);
        break;
    case TW_ALIGNED:
        tw_put(text, "`%s` does not begin at a multiple of %" PRId64 " bytes, but %" PRId64 " bytes past one", fact->name,
               fact->number, value);
        break;
    default:
        tw_put(text, "offsets into `%s`, rounded up to whole tiles, need 64 bits", fact->name);
        break;
    }
}

/* A binary that the device runs, or 0. */
static const tw_image *tw_binary(const tw_variant *variant, uint32_t arch) {
    const tw_image *best = 0;
    int at;
    for (at = 0; at < variant->images; ++at) {
        const tw_image *image = &variant->image[at];
        int runs = image->arch == arch || (!image->exact && image->arch < arch && (image->ptx || image->arch / 10 == arch / 10));
        if (runs && (!best || (best->ptx && !image->ptx) || (best->ptx == image->ptx && best->arch < image->arch))) best = image;
    }
    return best;
}

/* Bytes of memory of a launch. */
static tw_count tw_bytes(const tw_memory *memory, const tw_bound *sizes) {
    tw_count bytes = memory->bytes;
    int at;
    for (at = 0; at < memory->factors; ++at) {
        int64_t value = 0;
        (void)tw_value(memory->factor[at], sizes, &value);
        bytes = tw_times(bytes, value > 0 ? (tw_count)value : 0);
    }
    return bytes;
}

/* Bytes of what blocks of an alternative pass to each other. */
static tw_count tw_workspace(const tw_variant *variant, const tw_bound *sizes) {
    tw_count bytes = 0;
    int at;
    for (at = 0; at < variant->parameters; ++at)
        if (variant->parameter[at].memory) bytes = tw_plus(bytes, tw_bytes(variant->parameter[at].memory, sizes));
    return bytes;
}

/* Why a device cannot run an alternative, if it cannot. */
static int tw_unsupported(const tw_variant *variant, const tw_limits *limits, const tw_bound *sizes, tw_text *text) {
    if (variant->arch > limits->arch || (variant->exact && variant->arch != limits->arch))
        tw_put(text, "it is made for compute capability %u.%u%s, and the device has %u.%u", variant->arch / 10, variant->arch % 10,
               variant->exact ? " and no other" : " or newer", limits->arch / 10, limits->arch % 10);
    else if (variant->shared_bytes > limits->shared_bytes)
        tw_put(text, "a block takes %u bytes of shared memory, and the device gives it %u at most", variant->shared_bytes,
               limits->shared_bytes);
    else if (variant->threads > limits->threads)
        tw_put(text, "a block has %u threads, and %u is the device's most", variant->threads, limits->threads);
    else if (tw_workspace(variant, sizes) > TW_MOST_WORKSPACE)
        tw_put(text, "the sums that its blocks pass to each other need more than 256 MB of memory for these sizes");
    else if (!tw_binary(variant, limits->arch))
        tw_put(text, "there is no binary for compute capability %u.%u\nhelp: export it for sm_%u too", limits->arch / 10,
               limits->arch % 10, limits->arch);
    else
        return 0;
    return 1;
}

static int tw_grid(const tw_variant *variant, const tw_limits *limits, const tw_bound *sizes,
                   uint32_t grid[3], tw_text *error) {
    static const char axes[] = "xyz";
    tw_wide tiles = 1;
    int axis, at;
    for (axis = 0; axis < 3; ++axis) {
        tw_wide blocks = 1;
        for (at = 0; at < variant->factors[axis]; ++at) {
            int64_t count;
            if (!tw_value(variant->grid[axis][at], sizes, &count))
                return TW_REFUSE(error, "the grid's size `%s` does not follow from the arguments", variant->grid_text[axis]);
            blocks *= count;
            tiles = tiles > INT64_MAX ? tiles : tiles * count;
        }
        grid[axis] = (uint32_t)blocks;
        if (variant->persistent) continue;
        if (blocks < 0 || blocks > limits->grid[axis])
            return TW_REFUSE(error,
                             "the grid would have %" PRId64 " blocks along %c, and %" PRIu32
                             " is the most\nhelp: use larger tiles, or launch over parts of the tensors",
                             (int64_t)blocks, axes[axis], limits->grid[axis]);
        if (grid[axis] % (variant->cluster[axis] ? variant->cluster[axis] : 1) != 0)
            return TW_REFUSE(error,
                             "the number of blocks along %c is %" PRIu32 ", and clusters take %" PRIu32
                             " at a time\nhelp: launch more blocks, as in `walk(max(%" PRIu32 " * ceil_div(N, %" PRIu32
                             " * W), ceil_div(N, W)), block.x)` before tiles of W elements",
                             axes[axis], grid[axis], variant->cluster[axis], variant->cluster[axis],
                             variant->cluster[axis]);
    }
    if (variant->persistent) {
        uint32_t cluster = variant->cluster[0] * variant->cluster[1] * variant->cluster[2], clusters;
        tw_wide most = (tw_wide)INT32_MAX - (tw_wide)limits->multiprocessors * 64;
        if (!cluster) cluster = 1;
        if (tiles > most)
            return TW_REFUSE(error,
                             "the grid would have %" PRId64 " blocks along x, and %" PRId64
                             " is the most\nhelp: use larger tiles, or launch over parts of the tensors",
                             (int64_t)(tiles > INT64_MAX ? INT64_MAX : tiles), (int64_t)most);
        clusters = tw_clusters(limits, cluster, variant->blocks_per_sm);
        if (tiles < (tw_wide)clusters) clusters = tiles < 0 ? 0 : (uint32_t)tiles;
        grid[0] = clusters * cluster;
        grid[1] = grid[2] = 1;
    }
    return 0;
}

/* The grid of a variant, or the variant with all blocks along x if the grid is too long along y or z. */
static int tw_grid_of(const tw_variant **variant, const tw_limits *limits, const tw_bound *sizes, uint32_t grid[3],
                      tw_text *error) {
    int axis, at;
    for (axis = 1; axis < 3 && !(*variant)->persistent && (*variant)->folded; ++axis) {
        tw_wide blocks = 1;
        for (at = 0; at < (*variant)->factors[axis]; ++at) {
            int64_t count;
            blocks = tw_value((*variant)->grid[axis][at], sizes, &count) ? blocks * count : 0;
        }
        if (blocks > limits->grid[axis]) *variant = (*variant)->folded;
    }
    return tw_grid(*variant, limits, sizes, grid, error);
}

static int tw_planned(tw_packing *packing, tw_chosen *chosen, int *copies);

/* Bytes of the reason why an alternative cannot run. */
#define TW_REASON 512

/* Plans the copy of an argument. */
static void tw_plan_copy(tw_packing *packing, int which) {
    const tw_pack *pack = &packing->launch->kernel->pack[which];
    const tilewright_tensor *from = packing->launch->tensors[pack->arg];
    tw_copy *copy = &packing->copies[which];
    tilewright_tensor given[2];
    const tilewright_tensor *tensors[2];
    char unused[64];
    tw_text text;
    tw_launch own;
    tw_packing inner;
    tw_wide length = 1;
    int place, mode, copies, empty = 0;
    copy->state = 2;
    copy->copy = *from;
    for (place = 0; place < pack->rank; ++place) {
        int64_t extent;
        mode = pack->modes[place];
        /* Strides are at least 1, also of a tensor without elements. */
        extent = from->extents[mode];
        if (!extent) extent = empty = 1;
        copy->copy.strides[mode] = (int64_t)length;
        if (place == 0) extent = (extent + pack->multiple - 1) / pack->multiple * pack->multiple;
        length *= extent;
        if (length > INT64_MAX) return;
    }
    if (empty) length = 0;
    if (length * tw_types[from->type].bytes >= (tw_wide)TW_ELSEWHERE) return;
    copy->copy.elements = (uint64_t)length;
    copy->copy.address = 0;
    given[0] = *from;
    given[1] = copy->copy;
    for (place = 0; place < pack->rank; ++place) {
        mode = pack->modes[place];
        given[0].extents[place] = from->extents[mode];
        given[0].strides[place] = from->strides[mode];
        given[1].extents[place] = copy->copy.extents[mode];
        given[1].strides[place] = copy->copy.strides[mode];
    }
    if (given[1].extents[0] > 0) given[1].extents[0] = given[1].strides[1];
    given[1].address = TW_ELSEWHERE;
    tensors[0] = &given[0];
    tensors[1] = &given[1];
    text.at = unused;
    text.left = sizeof unused;
    own.kernel = pack->kernel;
    own.tensors = tensors;
    own.error = &text;
    inner.launch = &own;
    inner.limits = packing->limits;
    if (tw_planned(&inner, &copy->chosen, &copies) == 0) copy->state = 1;
}

/* The arguments with copies of these packs, as a class reads them: the number of operands, or -1. */
static int tw_operands_of(tw_packing *packing, int of_class, int packs, const int *pack) {
    const tw_launch *launch = packing->launch;
    const tw_kernel *kernel = launch->kernel;
    int form = kernel->of_class[of_class].form, at, place;
    const tilewright_tensor *tensors[TW_PARAMS];
    tw_operands *operands;
    char unused[64];
    tw_text text;
    tw_launch own = *launch;
    for (at = 0; at < packing->count; ++at) {
        tw_operands *known = &packing->operands[at];
        if (known->packs == packs && (!packs || known->form == form) &&
            memcmp(known->pack, pack, sizeof(int) * (size_t)packs) == 0)
            return at;
    }
    for (place = 0; place < kernel->params; ++place) tensors[place] = launch->tensors[place];
    for (place = 0; place < packs; ++place) {
        tw_copy *copy = &packing->copies[pack[place]];
        if (!copy->state) tw_plan_copy(packing, pack[place]);
        if (copy->state != 1) return -1;
        tensors[kernel->pack[pack[place]].arg] = &copy->copy;
    }
    if (packing->count == TW_OPERANDS) return -1;
    operands = &packing->operands[packing->count];
    text.at = unused;
    text.left = sizeof unused;
    own.tensors = tensors;
    own.error = &text;
    if (tw_bind(&own, form, operands->sizes)) return -1;
    operands->form = form;
    operands->packs = packs;
    if (packs) memcpy(operands->pack, pack, sizeof(int) * (size_t)packs);
    tw_judge(&own, operands);
    return packing->count++;
}

/* The first pack of a class that reads rows along another mode than the argument has, or -1. */
static int tw_rows_of(const tw_kernel *kernel, int of_class) {
    const tw_class *of = &kernel->of_class[of_class];
    int at;
    for (at = 0; at < of->packs; ++at)
        if (kernel->pack[of->pack[at]].transposes) return of->pack[at];
    return -1;
}

/* Operands with copies for a class, or -1: rows along another mode, and what makes more facts hold; where the class can run on
   the arguments themselves, copies of those whose rows begin in the middle of a sector. */
static int tw_copies(tw_packing *packing, int of_class) {
    const tw_kernel *kernel = packing->launch->kernel;
    const tw_class *of = &kernel->of_class[of_class];
    int chosen[TW_PACKS], count = 0, at, operands, pass;
    if (packing->of_class[of_class] != -2) return packing->of_class[of_class];
    packing->of_class[of_class] = -1;
    if (tw_rows_of(kernel, of_class) < 0 && tw_unmet(kernel, of_class, &packing->operands[0]) < 0) {
        for (at = 0; at < of->packs; ++at) {
            const tilewright_tensor *tensor = packing->launch->tensors[kernel->pack[of->pack[at]].arg];
            int mode, cuts = 0;
            for (mode = 0; mode < tensor->rank; ++mode) {
                int64_t stride = tensor->strides[mode];
                cuts |= stride != 1 && (uint64_t)(stride < 0 ? -stride : stride) * tw_types[tensor->type].bytes % TW_SECTOR != 0;
            }
            if (cuts) chosen[count++] = of->pack[at];
        }
        if (!count) return -1;
        operands = tw_operands_of(packing, of_class, count, chosen);
    } else {
        for (at = 0; at < of->packs; ++at)
            if (kernel->pack[of->pack[at]].transposes) chosen[count++] = of->pack[at];
        operands = tw_operands_of(packing, of_class, count, chosen);
        if (operands < 0) return -1;
        for (pass = 0; pass < of->packs; ++pass) {
            int other;
            if (kernel->pack[of->pack[pass]].transposes) continue;
            chosen[count++] = of->pack[pass];
            other = tw_operands_of(packing, of_class, count, chosen);
            if (other >= 0 && tw_broken(kernel, of_class, &packing->operands[other]) <
                                  tw_broken(kernel, of_class, &packing->operands[operands]))
                operands = other;
            else
                --count;
        }
        if (operands == 0) return -1;
    }
    if (operands < 0 || tw_unmet(kernel, of_class, &packing->operands[operands]) >= 0) return -1;
    packing->of_class[of_class] = operands;
    return operands;
}

/* The clocks of an alternative on some operands, copies included. */
static int tw_clocks(const tw_packing *packing, const tw_variant *variant, int operands, tw_count *clocks) {
    const tw_operands *of = &packing->operands[operands];
    int at;
    if (!variant->estimate) return 0;
    *clocks = variant->estimate(variant->own, of, packing->limits);
    for (at = 0; at < of->packs; ++at) {
        const tw_chosen *copy = &packing->copies[of->pack[at]].chosen;
        tw_count own = copy->estimated ? copy->clocks : 0;
        /* Copies after the first run beside it, on devices whose launches overlap. */
        if (at && packing->launch->kernel->pack[of->pack[at]].beside && packing->limits->arch >= 90 && own)
            own = tw_minus(own, copy->variant->launch_clocks);
        *clocks = tw_plus(*clocks, own);
    }
    return 1;
}

/* Why an alternative cannot run, and what to do instead, or 0. */
static const char *tw_why_not(const tw_packing *packing, int at, char reason[TW_REASON]) {
    const tw_kernel *kernel = packing->launch->kernel;
    const tw_variant *variant = &kernel->variant[at];
    int rows = tw_rows_of(kernel, variant->of_class);
    int fact = tw_unmet(kernel, variant->of_class, &packing->operands[0]);
    char *help;
    tw_text text;
    text.at = reason;
    text.left = TW_REASON;
    reason[0] = 0;
    if (rows >= 0)
        tw_put(&text, "`%s` is contiguous along mode %d, and this variant reads it along mode %d",
               kernel->param[kernel->pack[rows].arg].name, kernel->pack[rows].modes[1], kernel->pack[rows].modes[0]);
    else if (!tw_unsupported(variant, packing->limits, packing->operands[0].sizes, &text) && fact >= 0)
        tw_say_fact(&text, &kernel->fact[fact], &packing->operands[0], fact);
    help = strstr(reason, "\nhelp: ");
    if (!help) return 0;
    *help = 0;
    return help + strlen("\nhelp: ");
}

static int tw_same_reason(const tw_packing *packing, int at, const char *reason) {
    char own[TW_REASON];
    tw_why_not(packing, at, own);
    return strcmp(own, reason) == 0;
}

/* Why no alternative can run: each reason once, then what to do instead. */
static void tw_none_fits(const tw_packing *packing) {
    tw_text *error = packing->launch->error;
    int count = packing->launch->kernel->variants, at, other, alone = 1;
    char reason[TW_REASON], before[TW_REASON];
    tw_why_not(packing, 0, reason);
    for (at = 1; at < count && alone; ++at) alone = tw_same_reason(packing, at, reason);
    if (alone) tw_put(error, "%s", reason);
    else tw_put(error, "no variant of the kernel can run here");
    for (at = 0; at < count && !alone; ++at) {
        const char *between = " ";
        int several = 0;
        tw_why_not(packing, at, reason);
        for (other = 0; other < at; ++other)
            if (tw_same_reason(packing, other, reason)) break;
        if (other < at) continue;
        for (other = at + 1; other < count && !several; ++other) several = tw_same_reason(packing, other, reason);
        tw_put(error, "\n  variant%s", several ? "s" : "");
        for (other = at; other < count; ++other) {
            int from = other;
            if (!tw_same_reason(packing, other, reason)) continue;
            while (other + 1 < count && tw_same_reason(packing, other + 1, reason)) ++other;
            tw_put(error, "%s%d", between, from + 1);
            if (other > from) tw_put(error, " to %d", other + 1);
            between = ", ";
        }
        tw_put(error, ": %s", reason);
    }
    for (at = 0; at < count; ++at) {
        const char *help = tw_why_not(packing, at, reason);
        for (other = 0; help && other < at; ++other) {
            const char *known = tw_why_not(packing, other, before);
            if (known && strcmp(known, help) == 0) help = 0;
        }
        if (help) tw_put(error, "\nhelp: %s", help);
    }
}

/* Chooses among the alternatives, for arguments whose sizes are the first operands'. `*operands` is what the chosen one reads. */
static int tw_among(tw_packing *packing, tw_chosen *chosen, int *operands) {
    const tw_launch *launch = packing->launch;
    const tw_kernel *kernel = launch->kernel;
    uint32_t newest = 0;
    int at, place, any_empty = 0, first = -1, best = -1, best_operands = 0, best_known = 0;
    tw_count best_clocks = 0;
    const tw_class *limiting = &kernel->of_class[kernel->variant[0].of_class];
    /* Limits that all alternatives have are reported once. */
    for (place = 0; place < limiting->facts; ++place) {
        int fact = limiting->fact[place], all = 1, other, own;
        if (kernel->fact[fact].kind != TW_AT_MOST && kernel->fact[fact].kind != TW_AT_LEAST) continue;
        if (!packing->operands[0].broken[fact]) continue;
        for (other = 0; other < kernel->classes && all; ++other) {
            all = 0;
            for (own = 0; own < kernel->of_class[other].facts; ++own) all |= kernel->of_class[other].fact[own] == fact;
        }
        if (!all) continue;
        tw_say_fact(launch->error, &kernel->fact[fact], &packing->operands[0], fact);
        return TILEWRIGHT_REFUSED;
    }
    for (at = 0; at < kernel->variants; ++at) {
        const tw_variant *variant = &kernel->variant[at];
        char unused[64];
        tw_text text;
        int read = 0, unfit, known;
        tw_count clocks = 0;
        text.at = unused;
        text.left = sizeof unused;
        if (first >= 0 && variant->arch < newest) break;
        if (tw_unsupported(variant, packing->limits, packing->operands[0].sizes, &text)) continue;
        unfit = tw_rows_of(kernel, variant->of_class) >= 0 || tw_unmet(kernel, variant->of_class, &packing->operands[0]) >= 0;
        if (unfit) {
            read = tw_copies(packing, variant->of_class);
            if (read < 0) continue;
        }
        known = tw_clocks(packing, variant, read, &clocks);
        if (!unfit && variant->cuts) {
            int other = tw_copies(packing, variant->of_class);
            tw_count packed;
            int estimated = other >= 0 && tw_clocks(packing, variant, other, &packed);
            if (other >= 0 && ((!estimated && known) || (estimated && known && packed < clocks))) {
                read = other;
                known = estimated;
                clocks = estimated ? packed : 0;
            }
        }
        if (first < 0) {
            first = at;
            newest = variant->arch;
            best = at;
            best_operands = read;
            best_known = known;
            best_clocks = clocks;
            if (!variant->competes) best_known = 0;
        } else if (best_known && known && variant->competes && clocks < best_clocks) {
            best = at;
            best_operands = read;
            best_clocks = clocks;
        }
        if (!variant->competes) break;
    }
    if (first < 0) {
        tw_none_fits(packing);
        return TILEWRIGHT_REFUSED;
    }
    chosen->variant = &kernel->variant[best];
    chosen->estimated = tw_clocks(packing, chosen->variant, best_operands, &chosen->clocks);
    memcpy(chosen->sizes, packing->operands[best_operands].sizes, sizeof chosen->sizes);
    *operands = best_operands;
    for (at = 0; at < kernel->params; ++at)
        if (kernel->param[at].tensor && kernel->param[at].used) any_empty |= tw_empty(launch->tensors[at]);
    chosen->grid[0] = chosen->grid[1] = chosen->grid[2] = 0;
    if (any_empty) return 0;
    return tw_grid_of(&chosen->variant, packing->limits, chosen->sizes, chosen->grid, launch->error);
}

/* Checks the arguments and chooses. */
static int tw_planned(tw_packing *packing, tw_chosen *chosen, int *operands) {
    const tw_launch *launch = packing->launch;
    const tw_kernel *kernel = launch->kernel;
    tw_operands *own = &packing->operands[0];
    int empty_loops, at, status = tw_check(launch, own->sizes, &empty_loops);
    if (status) return status;
    packing->count = 1;
    own->form = 0;
    own->packs = 0;
    for (at = 0; at < kernel->packs; ++at) packing->copies[at].state = 0;
    for (at = 0; at < kernel->classes; ++at) packing->of_class[at] = -2;
    if (empty_loops >= 0) {
        /* The kernel without loops: its sizes by their names. */
        const tw_empty_loops *of = &kernel->empty_loops[empty_loops];
        tw_bound sizes[TW_SIZES];
        tw_launch other = *launch;
        int fact;
        memset(sizes, 0, sizeof sizes);
        for (at = 0; at < of->kernel->sizes; ++at)
            if (of->sizes[at] >= 0) sizes[at] = own->sizes[of->sizes[at]];
        memcpy(own->sizes, sizes, sizeof sizes);
        other.kernel = of->kernel;
        tw_judge(&other, own);
        chosen->variant = &of->kernel->variant[0];
        chosen->estimated = 0;
        *operands = 0;
        if (tw_unsupported(chosen->variant, packing->limits, sizes, launch->error)) return TILEWRIGHT_REFUSED;
        fact = tw_unmet(of->kernel, chosen->variant->of_class, own);
        if (fact >= 0) {
            tw_say_fact(launch->error, &of->kernel->fact[fact], own, fact);
            return TILEWRIGHT_REFUSED;
        }
        memcpy(chosen->sizes, sizes, sizeof sizes);
        return tw_grid(chosen->variant, packing->limits, sizes, chosen->grid, launch->error);
    }
    tw_judge(launch, own);
    return tw_among(packing, chosen, operands);
}
