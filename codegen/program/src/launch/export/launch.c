
/* The driver: devices, binaries, tensor maps, launches. */

enum {
    TW_ATTRIBUTE_MAJOR = 75, TW_ATTRIBUTE_MINOR = 76, TW_ATTRIBUTE_SHARED = 97, TW_ATTRIBUTE_THREADS = 1,
    TW_ATTRIBUTE_GRID_X = 5, TW_ATTRIBUTE_MULTIPROCESSORS = 16, TW_FUNCTION_THREADS = 0, TW_FUNCTION_SHARED = 8,
    TW_FUNCTION_CLUSTERS = 14, TW_POINTER_DEVICE = 9, TW_LAUNCH_CLUSTER = 4, TW_LAUNCH_OVERLAPS = 6, TW_NO_DEVICE = 100
};

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct {
    int id;
    char pad[4];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int overlaps;
    } value;
} tw_attribute;

typedef struct {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void *stream;
    tw_attribute *attributes;
    unsigned count;
} tw_config;

static int tw_failed(tw_text *error, const char *doing, int status) {
    const char *name = "", *text = "";
    if (!status) return 0;
    (void)cuGetErrorName(status, &name);
    (void)cuGetErrorString(status, &text);
    tw_put(error, "the driver failed while %s: %s (%s)", doing, text ? text : "", name ? name : "");
    return status;
}

static void tw_begin(tilewright_plan *plan, tw_text *error) {
    plan->error[0] = 0;
    error->at = plan->error;
    error->left = sizeof plan->error;
}

static int tw_open(tilewright_context *context, tw_text *error) {
    static const int attributes[] = {TW_ATTRIBUTE_MAJOR,  TW_ATTRIBUTE_MINOR,      TW_ATTRIBUTE_SHARED,    TW_ATTRIBUTE_THREADS,
                                     TW_ATTRIBUTE_GRID_X, TW_ATTRIBUTE_GRID_X + 1, TW_ATTRIBUTE_GRID_X + 2, TW_ATTRIBUTE_MULTIPROCESSORS};
    int values[8], at, status = tw_driver(error);
    char name[256] = "";
    if (status) return status;
    status = cuInit(0);
    if (status == TW_NO_DEVICE)
        return TW_REFUSE(error, "the NVIDIA driver sees no device\nhelp: see whether `nvidia-smi` lists one, and whether "
                                "CUDA_VISIBLE_DEVICES hides it");
    status = tw_failed(error, "starting", status);
    if (!status) status = tw_failed(error, "asking for the context", cuCtxGetCurrent(&context->context));
    if (status) return status;
    if (!context->context)
        return TW_REFUSE(error, "no context is current\nhelp: call cuCtxSetCurrent, or cudaSetDevice and a function that uses it");
    status = tw_failed(error, "asking for the device", cuCtxGetDevice(&context->device));
    for (at = 0; at < 8 && !status; ++at)
        status = tw_failed(error, "asking for the device", cuDeviceGetAttribute(&values[at], attributes[at], context->device));
    if (!status) status = tw_failed(error, "asking for the device's name", cuDeviceGetName(name, sizeof name, context->device));
    if (status) return status;
    context->model = UINT64_C(0xcbf29ce484222325);
    for (at = 0; name[at]; ++at) context->model = (context->model ^ (unsigned char)name[at]) * UINT64_C(0x100000001b3);
    context->arch = (uint32_t)(values[0] * 10 + values[1]);
    context->shared_bytes = (uint32_t)values[2];
    context->threads = (uint32_t)values[3];
    for (at = 0; at < 3; ++at) context->grid[at] = (uint32_t)values[4 + at];
    context->multiprocessors = (uint32_t)values[7];
    return 0;
}

/* A length of a block of LZ4: what its token has of it, and what follows. */
static size_t tw_length(size_t length, const unsigned char **from) {
    if (length == 15) {
        do length += **from;
        while (*(*from)++ == 255);
    }
    return length;
}

/* Unpacks a block of LZ4. */
static void tw_unpack(const unsigned char *from, size_t packed, unsigned char *to) {
    const unsigned char *end = from + packed;
    for (;;) {
        unsigned token = *from++;
        size_t length = tw_length(token >> 4, &from), distance;
        memcpy(to, from, length);
        to += length;
        from += length;
        if (from == end) return;
        distance = from[0] | (size_t)from[1] << 8;
        from += 2;
        for (length = tw_length(token & 15, &from) + 4; length; --length, ++to) *to = *(to - distance);
    }
}

/* Loads a binary, which the driver copies. */
static int tw_module(const tw_image *image, void **module, tw_text *error) {
    unsigned char *bytes = (unsigned char *)malloc(image->size);
    int status;
    if (!bytes) return TW_REFUSE(error, "there is no memory to unpack a kernel of %" PRIu64 " bytes", (uint64_t)image->size);
    tw_unpack(image->block, image->packed, bytes);
    status = tw_failed(error, "loading a kernel", cuModuleLoadData(module, bytes));
    free(bytes);
    return status;
}

/* The function of an alternative, loaded when it is first needed. */
static int tw_load(const tw_variant *variant, tilewright_context *context, tilewright_function *functions, void **function,
                   tw_text *error) {
    static const char doing[] = "loading a kernel";
    tilewright_function *own = &functions[variant->function];
    const tw_image *image = tw_binary(variant, context->arch);
    int threads = 0, status;
    if (!own->function) {
        void *made = 0;
        status = tw_module(image, &own->module, error);
        if (!status) status = tw_failed(error, doing, cuModuleGetFunction(&made, own->module, variant->entry));
        if (!status && variant->shared_bytes > TW_STATIC_SHARED)
            status = tw_failed(error, doing, cuFuncSetAttribute(made, TW_FUNCTION_SHARED, (int)variant->shared_bytes));
        if (!status && variant->cluster[0] * variant->cluster[1] * variant->cluster[2] > 8)
            status = tw_failed(error, doing, cuFuncSetAttribute(made, TW_FUNCTION_CLUSTERS, 1));
        if (!status) status = tw_failed(error, doing, cuFuncGetAttribute(&threads, TW_FUNCTION_THREADS, made));
        if (!status && threads < (int)variant->threads)
            status = TW_REFUSE(error, "a block has %" PRIu32 " threads, and as compiled at most %d have enough registers",
                               variant->threads, threads);
        if (status) {
            if (own->module) (void)cuModuleUnload(own->module);
            own->module = 0;
            return status;
        }
        own->function = made;
    }
    *function = own->function;
    return 0;
}

/* Encodes a tensor map at an address, unless it is encoded for that. */
static int tw_encode(tilewright_map *map, uint64_t address, tw_text *error) {
    static const int types[] = {8, 7, 6, 9, 4, 2, 0, 0, 11, 0, 0};
    int swizzle = map->swizzle == 32 ? 1 : map->swizzle == 64 ? 2 : map->swizzle == 128 ? 3 : 0;
    int status;
    if (map->address == address) return 0;
    status = tw_failed(error, "describing a tensor for bulk copies",
                       cuTensorMapEncodeTiled(map->encoded, types[map->type], map->modes, (void *)(uintptr_t)address, map->extents,
                                              map->strides, map->box, map->steps, 0, swizzle, 2, 0));
    map->address = status ? 0 : address;
    return status;
}

/* Fills in a map, and says why the encoder would refuse, if it would. */
static int tw_describe(const tw_map *of, const tw_bound *sizes, tilewright_map *map, uint64_t address, tw_text *error) {
    int mode;
    uint32_t row = of->box[0] * of->bytes;
    map->address = 0;
    map->type = of->type;
    map->modes = (uint32_t)of->modes;
    map->swizzle = of->swizzle;
    if (address % 16 != 0)
        return TW_REFUSE(error, "argument `%s`: it is copied in bulk, and begins %u bytes past a multiple of 16", of->name,
                         (unsigned)(address % 16));
    for (mode = 0; mode < of->modes; ++mode) {
        int64_t extent = 0, stride = 0;
        (void)tw_value(of->extents[mode], sizes, &extent);
        map->extents[mode] = (uint64_t)extent;
        map->box[mode] = of->box[mode];
        map->steps[mode] = of->steps[mode];
        if (extent < 1 || extent > (int64_t)1 << 32)
            return TW_REFUSE(error, "argument `%s`: its extent %d is %" PRId64 ", and bulk copies take 1 to 4294967296", of->name,
                             mode, extent);
        if (mode == 0) continue;
        (void)tw_value(of->strides[mode], sizes, &stride);
        stride = extent == 1 ? 16 : stride * (int64_t)of->bytes;
        if (stride % 16 != 0 || stride >= (int64_t)1 << 40 || stride < 0)
            return TW_REFUSE(error,
                             "argument `%s`: it is copied in bulk, and the stride of its mode %d is %" PRId64
                             " bytes: multiples of 16 below 2^40 can be",
                             of->name, mode, stride);
        map->strides[mode - 1] = (uint64_t)stride;
    }
    if (row % 16 != 0 || (of->swizzle && row > of->swizzle))
        return TW_REFUSE(error, "argument `%s`: a bulk copy's rows are %u bytes: multiples of 16, at most %u, can be", of->name,
                         row, of->swizzle ? of->swizzle : UINT32_MAX);
    return 0;
}

/* Where an argument of a step is: an argument of the launch, or a copy in the workspace. */
typedef struct {
    int workspace;
    int arg;
    uint64_t address;
} tw_source;

static uint64_t tw_aligned(uint64_t bytes) { return (bytes + TW_COPY_ALIGNED - 1) / TW_COPY_ALIGNED * TW_COPY_ALIGNED; }

static int tw_step(tilewright_plan *plan, const tw_chosen *chosen, void *function, const tw_source *sources, uint32_t arch,
                   tw_text *error) {
    const tw_variant *variant = chosen->variant;
    tilewright_step *step = &plan->step[plan->steps++];
    int at, status;
    step->function = function;
    memcpy(step->grid, chosen->grid, sizeof step->grid);
    for (at = 0; at < 3; ++at) step->cluster[at] = variant->cluster[at] ? variant->cluster[at] : 1;
    step->threads = variant->threads;
    step->shared_bytes = variant->shared_bytes > TW_STATIC_SHARED ? variant->shared_bytes : 0;
    step->overlaps = variant->overlaps && arch >= 90;
    step->first = plan->parameters;
    step->count = variant->parameters;
    for (at = 0; at < variant->parameters; ++at) {
        const tw_parameter *of = &variant->parameter[at];
        tilewright_parameter *parameter = &plan->parameter[plan->parameters++];
        const tw_source *source = &sources[of->arg];
        int64_t value = 0;
        parameter->arg = source->arg;
        parameter->map = -1;
        parameter->word = 0;
        switch (of->kind) {
        case TW_TENSOR:
            parameter->kind = source->workspace ? TILEWRIGHT_WORKSPACE : TILEWRIGHT_ADDRESS;
            parameter->word = source->address;
            break;
        case TW_WORKSPACE:
        case TW_ZEROED:
            parameter->kind = TILEWRIGHT_WORKSPACE;
            break;
        case TW_SCALAR:
            parameter->kind = TILEWRIGHT_NUMBER;
            break;
        case TW_INT:
            (void)tw_value(of->value, chosen->sizes, &value);
            parameter->kind = TILEWRIGHT_SIZE;
            parameter->word = (uint64_t)value;
            break;
        default:
            parameter->kind = source->workspace ? TILEWRIGHT_WORKSPACE : TILEWRIGHT_ADDRESS;
            parameter->word = source->address;
            parameter->map = plan->maps++;
            /* The encoder takes addresses, and a workspace begins at a multiple of 256 bytes. */
            status = tw_describe(of->map, chosen->sizes, &plan->map[parameter->map], source->address, error);
            if (!status && !source->workspace) status = tw_encode(&plan->map[parameter->map], source->address, error);
            if (status) return status;
            break;
        }
    }
    return 0;
}

/* The memory that blocks of the last step pass sums to each other in, after the copies; then the memory that must be 0. */
static void tw_memories(tilewright_plan *plan, const tw_chosen *chosen) {
    const tw_variant *variant = chosen->variant;
    int kind, at;
    for (kind = TW_WORKSPACE; kind <= TW_ZEROED; ++kind) {
        for (at = 0; at < variant->parameters; ++at) {
            uint64_t from = tw_aligned(plan->workspace);
            if (variant->parameter[at].kind != kind) continue;
            if (kind == TW_ZEROED && !plan->zeroed) plan->zeros = from;
            plan->parameter[plan->step[plan->steps - 1].first + at].word = from;
            plan->workspace = from + tw_bytes(variant->parameter[at].memory, chosen->sizes);
            if (kind == TW_ZEROED) plan->zeroed = plan->workspace - plan->zeros;
        }
    }
}

/* Everything that a plan depends on, but for numbers, and addresses up to their remainders. */
static int tw_same(const tilewright_plan *plan, const tw_launch *launch, const tilewright_context *context) {
    int at, mode;
    if (plan->made != 1 || plan->context != context->context) return 0;
    for (at = 0; at < launch->kernel->params; ++at) {
        const tilewright_tensor *now = launch->tensors[at], *then = &plan->tensor[at];
        if (!now) continue;
        if (now->rank != then->rank || now->type != then->type || (now->address ^ then->address) >> 63) return 0;
        if (now->address % launch->kernel->alignment != then->address % launch->kernel->alignment) return 0;
        for (mode = 0; mode < now->rank; ++mode)
            if (now->extents[mode] != then->extents[mode] || now->strides[mode] != then->strides[mode]) return 0;
        if (!tw_empty(now) && tw_last(now) + 1 > (tw_wide)now->elements) return 0;
    }
    return 1;
}

/* Binaries are loaded into the current context. */
static int tw_current(const tilewright_context *context, tw_text *error) {
    void *current = 0;
    int status = tw_failed(error, "asking for the context", cuCtxGetCurrent(&current));
    if (status || current == context->context) return status;
    return TW_REFUSE(error, "the kernel was opened in another context than the current one\nhelp: call cuCtxSetCurrent, or open it "
                            "once in each context");
}

/* Tensors are on the context's device. Of those whose addresses a plan has, this is known. */
static int tw_devices(const tw_launch *launch, const tilewright_context *context, const tilewright_plan *known) {
    int at, device;
    for (at = 0; at < launch->kernel->params; ++at) {
        const tilewright_tensor *tensor = launch->tensors[at];
        if (!tensor || tw_empty(tensor) || (known && known->tensor[at].address == tensor->address)) continue;
        /* Memory that the driver does not know is not asked about: a program may have it from elsewhere. */
        if (cuPointerGetAttribute(&device, TW_POINTER_DEVICE, tensor->address) != 0 || device == context->device) continue;
        return TW_REFUSE(launch->error, "argument `%s`: it is on device %d, and the context is on device %d\nhelp: copy it there first",
                         launch->kernel->param[at].name, device, context->device);
    }
    return 0;
}

/* Takes over addresses and numbers, where everything else is as planned. */
static int tw_update(const tw_launch *launch, tilewright_plan *plan, const uint64_t *numbers, tw_text *error) {
    int at;
    for (at = 0; at < launch->kernel->params; ++at)
        if (launch->tensors[at]) plan->tensor[at].address = launch->tensors[at]->address;
    for (at = 0; at < plan->parameters; ++at) {
        tilewright_parameter *parameter = &plan->parameter[at];
        if (parameter->kind == TILEWRIGHT_NUMBER) parameter->word = numbers[parameter->arg];
        if (parameter->kind != TILEWRIGHT_ADDRESS || parameter->word == launch->tensors[parameter->arg]->address) continue;
        parameter->word = launch->tensors[parameter->arg]->address;
        if (parameter->map >= 0) {
            int status = tw_encode(&plan->map[parameter->map], parameter->word, error);
            if (status) {
                plan->made = 0;
                return status;
            }
        }
    }
    return 0;
}

static int tw_plan(const tw_kernel *kernel, tilewright_context *context, tilewright_function *functions, tilewright_plan *plan,
                   const tilewright_tensor *const *tensors, const uint64_t *numbers) {
    tw_text error;
    tw_launch launch;
    tw_limits limits;
    tw_packing packing;
    tw_chosen chosen;
    tw_source sources[TW_PARAMS];
    void *function = 0;
    uint64_t next = 0;
    int at, status;
    tw_begin(plan, &error);
    launch.kernel = kernel;
    launch.tensors = tensors;
    launch.error = &error;
    if (!context->context) return TW_REFUSE(&error, "the kernel is not open\nhelp: call `%s_open` first", kernel->name);
    if (tw_same(plan, &launch, context) && kernel->apart(tensors, &error) == 0) {
        status = tw_devices(&launch, context, plan);
        if (!status) return tw_update(&launch, plan, numbers, &error);
        plan->made = 0;
        return status;
    }
    tw_begin(plan, &error);
    plan->made = plan->steps = plan->parameters = plan->maps = 0;
    plan->workspace = plan->zeroed = 0;
    plan->variant = -1;
    limits.arch = context->arch;
    limits.shared_bytes = context->shared_bytes;
    limits.threads = context->threads;
    limits.multiprocessors = context->multiprocessors;
    limits.model = context->model;
    memcpy(limits.grid, context->grid, sizeof limits.grid);
    packing.launch = &launch;
    packing.limits = &limits;
    status = tw_current(context, &error);
    if (!status) status = tw_planned(&packing, &chosen);
    if (!status) status = tw_devices(&launch, context, 0);
    if (status) return status;
    memcpy(plan->grid, chosen.grid, sizeof plan->grid);
    plan->context = context->context;
    for (at = 0; at < kernel->params; ++at) {
        sources[at].workspace = 0;
        sources[at].arg = at;
        sources[at].address = tensors[at] ? tensors[at]->address : 0;
        if (tensors[at]) plan->tensor[at] = *tensors[at];
    }
    if (chosen.grid[0] && chosen.grid[1] && chosen.grid[2]) {
        plan->variant = (int)(chosen.variant - kernel->variant);
        if (plan->variant < 0 || plan->variant >= kernel->variants) plan->variant = kernel->variants;
        for (at = 0; at < kernel->packs; ++at) {
            const tw_pack *pack = &kernel->pack[at];
            tw_copy *copy = &packing.copies[at];
            tw_source own[2];
            if (!(chosen.copies >> at & 1)) continue;
            own[0] = sources[pack->arg];
            own[1].workspace = 1;
            own[1].arg = pack->arg;
            own[1].address = next;
            next += copy->copy.elements * tw_types[copy->copy.type].bytes;
            plan->workspace = next;
            next = tw_aligned(next);
            if (chosen.copies & (chosen.copies - 1)) copy->chosen.variant += (own[1].address ? 2 : 1) * pack->beside;
            status = tw_load(copy->chosen.variant, context, functions, &function, &error);
            if (!status) status = tw_step(plan, &copy->chosen, function, own, context->arch, &error);
            if (status) return status;
            sources[pack->arg] = own[1];
        }
        status = tw_load(chosen.variant, context, functions, &function, &error);
        if (!status) status = tw_step(plan, &chosen, function, sources, context->arch, &error);
        if (status) return status;
        tw_memories(plan, &chosen);
        for (at = 0; at < plan->parameters; ++at)
            if (plan->parameter[at].kind == TILEWRIGHT_NUMBER) plan->parameter[at].word = numbers[plan->parameter[at].arg];
    }
    /* A launch without loops is planned anew: what it needs of addresses is its own. */
    plan->made = plan->variant == kernel->variants ? 2 : 1;
    return 0;
}

static int tw_submit(tilewright_plan *plan, const tilewright_step *step, void *stream, int overlaps, uint64_t workspace,
                     tw_text *error) {
    void *pointers[TILEWRIGHT_PARAMETERS];
    uint64_t words[TILEWRIGHT_PARAMETERS];
    tw_attribute attributes[2];
    unsigned count = 0;
    int at;
    for (at = 0; at < step->count; ++at) {
        tilewright_parameter *parameter = &plan->parameter[step->first + at];
        words[at] = parameter->word + (parameter->kind == TILEWRIGHT_WORKSPACE ? workspace : 0);
        pointers[at] = &words[at];
        if (parameter->map >= 0) {
            tilewright_map *map = &plan->map[parameter->map];
            if (parameter->kind == TILEWRIGHT_WORKSPACE) {
                int status = tw_encode(map, words[at], error);
                if (status) return status;
            }
            pointers[at] = map->encoded;
        }
    }
    memset(attributes, 0, sizeof attributes);
    if (step->cluster[0] * step->cluster[1] * step->cluster[2] > 1) {
        attributes[count].id = TW_LAUNCH_CLUSTER;
        attributes[count].value.cluster.x = step->cluster[0];
        attributes[count].value.cluster.y = step->cluster[1];
        attributes[count++].value.cluster.z = step->cluster[2];
    }
    if (step->overlaps && overlaps) {
        attributes[count].id = TW_LAUNCH_OVERLAPS;
        attributes[count++].value.overlaps = 1;
    }
    if (count) {
        tw_config config;
        memset(&config, 0, sizeof config);
        config.grid_x = step->grid[0];
        config.grid_y = step->grid[1];
        config.grid_z = step->grid[2];
        config.block_x = step->threads;
        config.block_y = config.block_z = 1;
        config.shared_bytes = step->shared_bytes;
        config.stream = stream;
        config.attributes = attributes;
        config.count = count;
        return tw_failed(error, "launching a kernel", cuLaunchKernelEx(&config, step->function, pointers, 0));
    }
    return tw_failed(error, "launching a kernel",
                     cuLaunchKernel(step->function, step->grid[0], step->grid[1], step->grid[2], step->threads, 1, 1,
                                    step->shared_bytes, stream, pointers, 0));
}

static int tw_run(void *stream, tilewright_plan *plan, uint64_t workspace) {
    tw_text error;
    void *context = 0;
    int at, status, captured = 0;
    tw_begin(plan, &error);
    if (!plan->made) return TW_REFUSE(&error, "the launch is not planned\nhelp: plan it first, and see what that returns");
    if (!plan->steps) return 0;
    status = tw_failed(&error, "asking for the stream's context", cuStreamGetCtx(stream, &context));
    if (status) return status;
    if (context != plan->context)
        return TW_REFUSE(&error, "the stream is of another context than the kernel\nhelp: open the kernel in the stream's context");
    if (plan->workspace && (!workspace || workspace % TW_COPY_ALIGNED))
        return TW_REFUSE(&error,
                         "the launch needs memory\nhelp: give it a workspace of %" PRIu64
                         " bytes that begins at a multiple of %d",
                         plan->workspace, TW_COPY_ALIGNED);
    for (at = 0; at < plan->steps && !plan->step[at].overlaps; ++at) continue;
    if (at < plan->steps) status = tw_failed(&error, "asking about the stream", cuStreamIsCapturing(stream, &captured));
    if (plan->zeroed && !status)
        status = tw_failed(&error, "clearing memory", cuMemsetD8Async(workspace + plan->zeros, 0, plan->zeroed, stream));
    /* A kernel does not wait by itself for what is no kernel. */
    for (at = 0; at < plan->steps && !status; ++at)
        status = tw_submit(plan, &plan->step[at], stream, !captured && (at || !plan->zeroed), workspace, &error);
    return status;
}

static void tw_close(tilewright_function *functions, int count) {
    int at;
    for (at = 0; at < count; ++at) {
        if (functions[at].module) (void)cuModuleUnload(functions[at].module);
        functions[at].module = functions[at].function = 0;
    }
}
