
/* Which alternative a launch takes. What decides is recorded from the planner in Rust: the functions at the end. */

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
    tw_count recorded;             /* the number of the alternative of the nearest record, and its weight */
} tw_packing;

static tw_count tw_times(tw_count a, tw_count b) {
    tw_count product;
    return __builtin_mul_overflow(a, b, &product) ? ~(tw_count)0 : product;
}

/* The copies of arguments that alternatives cannot read, and clocks that are not known. Sets of copies are sums of 2^pack. */
#define TW_NONE (~(tw_count)0)

/* The best alternative so far. */
typedef struct {
    tw_count index, copies, clocks, weighted, arch;
    int is_settled;
} tw_best;

static void tw_consider(tw_packing *packing, const tw_variant *variant, int index, tw_best *best);
static tw_count tw_with_copy(tw_count clocks, tw_count copy, tw_count index, tw_count beside, tw_count launch, tw_count arch);

/* The first fact of a class that is false, or -1. */
static int tw_unmet(const tw_class *of, const tw_operands *operands) {
    int at;
    for (at = 0; at < of->facts; ++at)
        if (operands->broken[of->fact[at]]) return of->fact[at];
    return -1;
}

static int tw_say_fact(tw_text *text, const tw_kernel *kernel, const tw_operands *operands, int at) {
    const tw_fact *fact = &kernel->fact[at];
    if (fact->after) return TW_REFUSE(text, "%s%" PRIu64 "%s", fact->before, operands->value[at], fact->after);
    return TW_REFUSE(text, "%s", fact->before);
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

/* Refuses an alternative that the device cannot run. */
static int tw_runs(const tw_variant *variant, const tw_limits *limits, const tw_bound *sizes, tw_text *text) {
    int status = variant->supported(sizes, limits, text);
    if (status || tw_binary(variant, limits->arch)) return status;
    return TW_REFUSE(text, "there is no binary for compute capability %u.%u\nhelp: export it for sm_%u too", limits->arch / 10,
                     limits->arch % 10, limits->arch);
}

static int tw_planned(tw_packing *packing, tw_chosen *chosen);

/* Bytes of the reason why an alternative cannot run. */
#define TW_REASON 512

/* A text whose message is not shown. */
static tw_text tw_unseen(char *unused, size_t bytes) {
    tw_text text;
    text.at = unused;
    text.left = bytes;
    return text;
}

/* Plans the copy of an argument. */
static void tw_plan_copy(tw_packing *packing, int which) {
    const tw_pack *pack = &packing->launch->kernel->pack[which];
    tw_copy *copy = &packing->copies[which];
    tilewright_tensor given[2];
    const tilewright_tensor *tensors[2];
    char unused[64];
    tw_text text = tw_unseen(unused, sizeof unused);
    tw_launch own;
    tw_packing inner;
    copy->state = 2;
    given[0] = given[1] = copy->copy = *packing->launch->tensors[pack->arg];
    if (!pack->copied(&packing->launch->tensors[pack->arg], &copy->copy, given)) return;
    given[1].elements = copy->copy.elements;
    copy->copy.address = 0;
    given[1].address = TW_ELSEWHERE;
    tensors[0] = &given[0];
    tensors[1] = &given[1];
    own.kernel = pack->kernel;
    own.tensors = tensors;
    own.error = &text;
    inner.launch = &own;
    inner.limits = packing->limits;
    if (tw_planned(&inner, &copy->chosen) == 0) copy->state = 1;
}

/* The arguments with copies, as a form has them: the number of operands, or -1. */
static int tw_operands_of(tw_packing *packing, int of_class, tw_count copies) {
    const tw_kernel *kernel = packing->launch->kernel;
    const tilewright_tensor *tensors[TW_PARAMS];
    int form = kernel->of_class[of_class].form, at;
    char unused[64];
    tw_text text = tw_unseen(unused, sizeof unused);
    tw_operands *operands;
    for (at = 0; at < packing->count; ++at) {
        operands = &packing->operands[at];
        if (operands->copies == copies && (!copies || operands->form == form)) return at;
    }
    for (at = 0; at < kernel->params; ++at) tensors[at] = packing->launch->tensors[at];
    for (at = 0; at < kernel->packs; ++at) {
        tw_copy *copy = &packing->copies[at];
        if (!(copies >> at & 1)) continue;
        if (!copy->state) tw_plan_copy(packing, at);
        if (copy->state != 1) return -1;
        tensors[kernel->pack[at].arg] = &copy->copy;
    }
    if (packing->count == TW_OPERANDS) return -1;
    operands = &packing->operands[packing->count];
    if (kernel->form[form].bind(tensors, operands->sizes, &text)) return -1;
    operands->form = form;
    operands->copies = copies;
    kernel->derive(tensors, operands->sizes, operands);
    return packing->count++;
}

/* How many facts of a class are false with these copies. */
static tw_count tw_false_facts(tw_packing *packing, int of_class, tw_count copies) {
    const tw_class *of = &packing->launch->kernel->of_class[of_class];
    int operands = tw_operands_of(packing, of_class, copies), at;
    tw_count count = 0;
    if (operands < 0) return TW_NONE;
    for (at = 0; at < of->facts; ++at) count += packing->operands[operands].broken[of->fact[at]];
    return count;
}

/* Is a fact false that is true of no copy? */
static int tw_is_hopeless(const tw_packing *packing, int of_class) {
    const tw_class *of = &packing->launch->kernel->of_class[of_class];
    int at;
    for (at = 0; at < of->kept_facts; ++at)
        if (packing->operands[0].broken[of->kept_fact[at]]) return 1;
    return 0;
}

static int tw_is_fit(const tw_packing *packing, const tw_variant *variant) {
    const tw_class *of = &packing->launch->kernel->of_class[variant->of_class];
    return !of->rows && tw_unmet(of, &packing->operands[0]) < 0;
}

static int tw_is_supported(const tw_packing *packing, const tw_variant *variant) {
    char unused[64];
    tw_text text = tw_unseen(unused, sizeof unused);
    return tw_runs(variant, packing->limits, packing->operands[0].sizes, &text) == 0;
}

/* The copies that alternatives of a class read. */
static tw_count tw_copies(tw_packing *packing, int of_class) {
    if (!packing->is_known[of_class]) {
        packing->of_class[of_class] = packing->launch->kernel->of_class[of_class].copies(packing, of_class);
        packing->is_known[of_class] = 1;
    }
    return packing->of_class[of_class];
}

/* The clocks of an alternative with copies. */
static tw_count tw_clocks(tw_packing *packing, const tw_variant *variant, tw_count copies) {
    const tw_kernel *kernel = packing->launch->kernel;
    int operands = tw_operands_of(packing, variant->of_class, copies), at;
    tw_count clocks, index = 0;
    if (operands < 0 || !variant->estimate) return TW_NONE;
    clocks = variant->estimate(variant->constants, &packing->operands[operands], packing->limits);
    for (at = 0; at < kernel->packs; ++at) {
        const tw_chosen *copy = &packing->copies[at].chosen;
        if (!(copies >> at & 1)) continue;
        clocks = tw_with_copy(clocks, copy->clocks == TW_NONE ? 0 : copy->clocks, index++, (tw_count)kernel->pack[at].beside,
                              copy->variant->launch_clocks, packing->limits->arch);
    }
    return clocks;
}

/* Why an alternative cannot run, and what to do instead, or 0. */
static const char *tw_why_not(const tw_packing *packing, int at, char reason[TW_REASON]) {
    const tw_kernel *kernel = packing->launch->kernel;
    const tw_variant *variant = &kernel->variant[at];
    const tw_class *of = &kernel->of_class[variant->of_class];
    tw_text text = tw_unseen(reason, TW_REASON);
    int fact = tw_unmet(of, &packing->operands[0]);
    char *help;
    reason[0] = 0;
    if (of->rows) tw_put(&text, "%s", of->rows);
    else if (!tw_runs(variant, packing->limits, packing->operands[0].sizes, &text) && fact >= 0)
        tw_say_fact(&text, kernel, &packing->operands[0], fact);
    help = strstr(reason, "\nhelp: ");
    if (!help) return 0;
    *help = 0;
    return help + strlen("\nhelp: ");
}

/* Why no alternative can run: each reason once, then what to do instead. */
static int tw_none_fits(const tw_packing *packing) {
    tw_text *error = packing->launch->error;
    char reason[TW_REASON], before[TW_REASON];
    int variants = packing->launch->kernel->variants, remedies, at, other, known = 1;
    tw_why_not(packing, 0, reason);
    for (at = 1; at < variants && known; ++at) {
        tw_why_not(packing, at, before);
        known = strcmp(before, reason) == 0;
    }
    tw_put(error, "%s", known ? reason : "no variant of the kernel can run here");
    for (remedies = known; remedies < 2; ++remedies) {
        for (at = 0; at < variants; ++at) {
            const char *text = tw_why_not(packing, at, reason);
            if (!remedies) text = reason;
            for (other = known = 0; text && other < at && !known; ++other) {
                const char *earlier = tw_why_not(packing, other, before);
                if (!remedies) earlier = before;
                known = earlier && strcmp(earlier, text) == 0;
            }
            if (text && !known) tw_put(error, remedies ? "\nhelp: %s" : "\n  %s", text);
        }
    }
    return TILEWRIGHT_REFUSED;
}

/* The blocks of an alternative, or of the one with all blocks along x where the grid is too long. */
static int tw_grid(tw_chosen *chosen, const tw_limits *limits, tw_text *error) {
    if (chosen->variant->folded && chosen->variant->is_long(chosen->sizes, limits)) chosen->variant = chosen->variant->folded;
    return chosen->variant->blocks(chosen->sizes, limits, chosen->grid, error);
}

/* Chooses among the alternatives, for arguments whose sizes are the first operands'. */
static int tw_among(tw_packing *packing, tw_chosen *chosen) {
    const tw_launch *launch = packing->launch;
    const tw_kernel *kernel = launch->kernel;
    tw_best best;
    int at, mode, any_empty = 0;
    /* Limits that all alternatives have are reported once. */
    for (at = 0; at < kernel->limits; ++at)
        if (packing->operands[0].broken[kernel->limit[at]])
            return tw_say_fact(launch->error, kernel, &packing->operands[0], kernel->limit[at]);
    memset(&best, 0, sizeof best);
    best.index = best.clocks = best.weighted = TW_NONE;
    for (at = 0; at < kernel->variants && !best.is_settled; ++at) tw_consider(packing, &kernel->variant[at], at, &best);
    if (best.index == TW_NONE) return tw_none_fits(packing);
    chosen->variant = &kernel->variant[best.index];
    chosen->clocks = best.clocks;
    chosen->copies = best.copies;
    memcpy(chosen->sizes, packing->operands[tw_operands_of(packing, chosen->variant->of_class, best.copies)].sizes,
           sizeof chosen->sizes);
    for (at = 0; at < kernel->params; ++at)
        for (mode = 0; kernel->param[at].tensor && mode < kernel->param[at].rank; ++mode)
            any_empty |= kernel->param[at].nonzero >> mode & (launch->tensors[at]->extents[mode] == 0);
    return any_empty ? 0 : tw_grid(chosen, packing->limits, launch->error);
}

/* Checks the arguments and chooses. */
static int tw_planned(tw_packing *packing, tw_chosen *chosen) {
    const tw_launch *launch = packing->launch;
    const tw_kernel *kernel = launch->kernel;
    tw_operands *own = &packing->operands[0];
    int empty_loops, at, status = tw_check(launch, own->sizes, &empty_loops);
    if (status) return status;
    packing->count = 1;
    own->form = 0;
    own->copies = chosen->copies = 0;
    chosen->grid[0] = chosen->grid[1] = chosen->grid[2] = 0;
    for (at = 0; at < kernel->packs; ++at) packing->copies[at].state = 0;
    memset(packing->is_known, 0, sizeof packing->is_known);
    if (empty_loops) {
        /* The kernel without loops: its sizes by their names. */
        const tw_empty_loops *of = &kernel->empty_loops[empty_loops - 1];
        int fact;
        memset(chosen->sizes, 0, sizeof chosen->sizes);
        for (at = 0; at < of->kernel->sizes; ++at)
            if (of->sizes[at] >= 0) chosen->sizes[at] = own->sizes[of->sizes[at]];
        of->kernel->derive(launch->tensors, chosen->sizes, own);
        chosen->variant = &of->kernel->variant[0];
        chosen->clocks = TW_NONE;
        status = tw_runs(chosen->variant, packing->limits, chosen->sizes, launch->error);
        if (status) return status;
        fact = tw_unmet(&of->kernel->of_class[chosen->variant->of_class], own);
        if (fact >= 0) return tw_say_fact(launch->error, of->kernel, own, fact);
        return tw_grid(chosen, packing->limits, launch->error);
    }
    kernel->derive(launch->tensors, own->sizes, own);
    packing->recorded = kernel->recorded(own->sizes, packing->limits);
    return tw_among(packing, chosen);
}
