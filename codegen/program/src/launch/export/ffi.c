
/* The kernel as a function of TVM's FFI, which PyTorch, JAX and others call. A program that loads it has loaded libtvm_ffi. */
#ifdef TILEWRIGHT_TVM_FFI

#define TW_DEVICES 64 /* of a program, at most */
#define TW_PLANS 16   /* that a thread keeps */

/* DLTensor of DLPack. */
typedef struct {
    void *data;
    int32_t device_type, device, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *extents, *strides;
    uint64_t offset;
} tw_dltensor;

/* TVMFFIAny, and its types. An object has a header of TW_ANY_HEADER bytes. */
typedef struct {
    int32_t type;
    uint32_t zero;
    union {
        int64_t integer;
        double number;
        void *pointer;
    } value;
} tw_any;

enum { TW_ANY_NONE, TW_ANY_INT, TW_ANY_BOOL, TW_ANY_FLOAT, TW_ANY_DLTENSOR = 7, TW_ANY_TENSOR = 70, TW_ANY_BIG_INT = 78, TW_ANY_HEADER = 24 };
enum { TW_DLPACK_CPU = 1, TW_DLPACK_CUDA = 2, TW_DLPACK_SIGNED = 0, TW_DLPACK_UNSIGNED = 1, TW_DLPACK_BOOL = 6 };

#ifdef __cplusplus
extern "C" {
#endif
void *TVMFFIEnvGetStream(int32_t device_type, int32_t device);
int TVMFFIEnvTensorAlloc(tw_dltensor *like, void **tensor);
int TVMFFIObjectDecRef(void *object);
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
#ifdef _WIN32
__declspec(dllexport)
#endif
int TW_FFI_NAME(void *self, const tw_any *arguments, int32_t count, tw_any *result);
#ifdef __cplusplus
}
#endif

/* What functions below return for an argument of another type. */
#define TW_TYPE (-2)

/* The arguments of a call. */
typedef struct {
    tilewright_tensor tensor[TW_PARAMS];
    const tilewright_tensor *tensors[TW_PARAMS];
    uint64_t numbers[TW_PARAMS];
    int device; /* -1: of no tensor yet */
} tw_given;

/* The launches of a thread. */
typedef struct {
    tilewright_plan plan[TW_PLANS];
    int last, next;
} tw_calls;

static int tw_refuse_type(const tw_param *param, const tw_any *any, const char *wanted, tw_text *error) {
    static const char *const kinds[] = {"None", "an integer", "a bool", "a float"};
    const char *given = any->type == TW_ANY_DLTENSOR || any->type == TW_ANY_TENSOR ? "a tensor"
                        : any->type == TW_ANY_BIG_INT                             ? "an integer of more than 64 bits"
                        : any->type >= 0 && any->type <= TW_ANY_FLOAT             ? kinds[any->type]
                                                                                  : "an object";
    tw_put(error, "argument `%s`: the kernel takes %s, and %s was given", param->name, wanted, given);
    if (any->type == TW_ANY_NONE)
        tw_put(error, "\nhelp: pass it; an optional argument is left out by a constant when the kernel is exported");
    return TW_TYPE;
}

static int tw_read_number(const tw_param *param, const tw_any *any, uint64_t *word, tw_text *error) {
    int is_float = param->type == TILEWRIGHT_F64 || param->type == TILEWRIGHT_F32, is_signed;
    int64_t value = any->value.integer, most;
    uint32_t bits = tw_types[param->type].bytes * 8;
    if (any->type != TW_ANY_INT && any->type != TW_ANY_BOOL && !(is_float && any->type == TW_ANY_FLOAT))
        return tw_refuse_type(param, any, is_float ? "a number" : "an integer", error);
    if (is_float) {
        double number = any->type == TW_ANY_FLOAT ? any->value.number : (double)value;
        float single = (float)number;
        if (param->type == TILEWRIGHT_F64) memcpy(word, &number, sizeof number);
        else memcpy(word, &single, sizeof single);
        return 0;
    }
    if (param->type == TILEWRIGHT_BOOL) value = value != 0;
    is_signed = tw_types[param->type].dlpack == TW_DLPACK_SIGNED;
    most = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - (uint32_t)is_signed)) - 1;
    if (value > most || value < (is_signed ? -most - 1 : 0))
        return TW_REFUSE(error, "argument `%s`: %" PRId64 " is out of range for %s", param->name, value, tw_types[param->type].name);
    memcpy(word, &value, sizeof value);
    return 0;
}

static int tw_has_type(const tw_dltensor *tensor, int type) {
    return tensor->code == tw_types[type].dlpack && tensor->bits == tw_types[type].bytes * 8 && tensor->lanes == 1;
}

static int tw_read_tensor(const tw_param *param, const tw_any *any, tw_given *given, tilewright_tensor *tensor, tw_text *error) {
    const tw_dltensor *from = (const tw_dltensor *)any->value.pointer;
    int mode, type = param->type;
    int64_t next = 1;
    if (any->type == TW_ANY_TENSOR) from = (const tw_dltensor *)(const void *)((const char *)any->value.pointer + TW_ANY_HEADER);
    else if (any->type != TW_ANY_DLTENSOR) return tw_refuse_type(param, any, "a tensor", error);
    if (from->device_type != TW_DLPACK_CUDA || from->device < 0 || from->device >= TW_DEVICES)
        return TW_REFUSE(error, "argument `%s`: it is on %s, and the kernel runs on a GPU\nhelp: copy it there first", param->name,
                         from->device_type == TW_DLPACK_CPU ? "the CPU" : "another kind of device");
    if (given->device >= 0 && given->device != from->device)
        return TW_REFUSE(error, "argument `%s`: it is on device %d, and others are on device %d\nhelp: copy it there first",
                         param->name, from->device, given->device);
    given->device = from->device;
    if (!tw_has_type(from, type)) {
        const int types = (int)(sizeof tw_types / sizeof tw_types[0]);
        for (type = 0; type < types && !tw_has_type(from, type); ++type) continue;
    }
    tensor->address = (uint64_t)(uintptr_t)from->data + from->offset;
    tensor->type = type;
    tensor->rank = from->rank;
    if (from->rank != param->rank) return 0; /* which planning refuses */
    for (mode = param->rank - 1; mode >= 0; --mode) {
        tensor->extents[mode] = from->extents[mode];
        tensor->strides[mode] = from->strides ? from->strides[mode] : next;
        next *= from->extents[mode];
    }
    tensor->elements = tw_empty(tensor) ? 0 : (uint64_t)(tw_last(tensor) + 1);
    return 0;
}

static int tw_read(const tw_kernel *kernel, const tw_any *arguments, int count, tw_given *given, tw_text *error) {
    int at, status = 0;
    given->device = -1;
    if (count != kernel->params) {
        tw_put(error, "`%s` takes %d arguments, and %d were given\nhelp: pass", kernel->name, kernel->params, count);
        for (at = 0; at < kernel->params; ++at) tw_put(error, "%s `%s`", at ? "," : "", kernel->param[at].name);
        return TW_TYPE;
    }
    for (at = 0; at < count && !status; ++at) {
        const tw_param *param = &kernel->param[at];
        given->tensors[at] = param->tensor ? &given->tensor[at] : 0;
        given->numbers[at] = 0;
        status = param->tensor ? tw_read_tensor(param, &arguments[at], given, &given->tensor[at], error)
                               : tw_read_number(param, &arguments[at], &given->numbers[at], error);
    }
    return status;
}

static char tw_is_busy;

/* Opens the kernel in the primary context of a device, for all threads. */
static int tw_open_device(tilewright_context *context, int device, tw_text *error) {
    tilewright_context opened;
    void *primary = 0;
    int status;
    if (__atomic_load_n(&context->context, __ATOMIC_ACQUIRE)) return 0;
    status = tw_failed(error, "asking for the device's context", cuDevicePrimaryCtxRetain(&primary, device));
    if (!status) status = tw_failed(error, "setting the context", cuCtxSetCurrent(primary));
    if (!status) status = tw_open(&opened, error);
    if (status) return status;
    opened.context = 0;
    *context = opened;
    __atomic_store_n(&context->context, primary, __ATOMIC_RELEASE);
    return 0;
}

/* Makes the context of a device current. `*before` is the one that was. */
static int tw_enter(tilewright_context *context, int device, void **before, tw_text *error) {
    void *own = __atomic_load_n(&context->context, __ATOMIC_ACQUIRE);
    int status = own ? 0 : tw_driver(error);
    if (!status && !own) status = tw_failed(error, "starting", cuInit(0));
    if (!status) status = tw_failed(error, "asking for the context", cuCtxGetCurrent(before));
    if (status || (own && own == *before)) return status;
    if (!own) {
        while (__atomic_test_and_set(&tw_is_busy, __ATOMIC_ACQUIRE)) continue;
        status = tw_open_device(context, device, error);
        __atomic_clear(&tw_is_busy, __ATOMIC_RELEASE);
    }
    return status ? status : tw_failed(error, "setting the context", cuCtxSetCurrent(context->context));
}

/* The plan of a call: one that the thread has for these extents and strides, or else a new one, since loading is for one thread. */
static int tw_plan_call(const tw_launch *launch, tilewright_context *context, tilewright_function *functions, tw_calls *calls,
                        const uint64_t *numbers, tilewright_plan **plan) {
    int at, status;
    for (at = 0; at < TW_PLANS; ++at) {
        int which = (calls->last + TW_PLANS - at) % TW_PLANS;
        *plan = &calls->plan[which];
        if (!tw_same(*plan, launch, context)) continue;
        if (launch->kernel->apart(launch->tensors, launch->error)) return TILEWRIGHT_REFUSED;
        calls->last = which;
        return tw_update(launch, *plan, numbers, launch->error);
    }
    calls->last = calls->next;
    calls->next = (calls->next + 1) % TW_PLANS;
    *plan = &calls->plan[calls->last];
    while (__atomic_test_and_set(&tw_is_busy, __ATOMIC_ACQUIRE)) continue;
    status = tw_plan(launch->kernel, context, functions, *plan, launch->tensors, numbers);
    __atomic_clear(&tw_is_busy, __ATOMIC_RELEASE);
    if (status) tw_put(launch->error, "%s", (*plan)->error);
    return status;
}

/* Launches on the stream of the environment, whose memory it uses. */
static int tw_run_call(tilewright_plan *plan, int device, int *is_raised, tw_text *error) {
    uint64_t workspace = 0;
    void *memory = 0;
    int status;
    if (plan->workspace) {
        int64_t bytes = (int64_t)plan->workspace;
        tw_dltensor like = {0, TW_DLPACK_CUDA, device, 1, TW_DLPACK_UNSIGNED, 8, 1, &bytes, 0, 0};
        *is_raised = TVMFFIEnvTensorAlloc(&like, &memory);
        if (*is_raised) return *is_raised;
        workspace = (uint64_t)(uintptr_t)((const tw_dltensor *)(const void *)((const char *)memory + TW_ANY_HEADER))->data;
    }
    status = tw_run(TVMFFIEnvGetStream(TW_DLPACK_CUDA, device), plan, workspace);
    if (status) tw_put(error, "%s", plan->error);
    /* The stream's later work may use the memory. */
    if (memory) (void)TVMFFIObjectDecRef(memory);
    return status;
}

/* A call. `functions` begins with the first device, and has `all` for each. */
static int tw_call(const tw_kernel *kernel, tilewright_context *contexts, tilewright_function *functions, int all, tw_calls *calls,
                   const tw_any *arguments, int count) {
    char message[TILEWRIGHT_ERROR];
    tw_given given;
    tw_text error;
    tw_launch launch;
    tilewright_plan *plan;
    void *before = 0;
    int status, is_raised = 0;
    error.at = message;
    error.left = sizeof message;
    launch.kernel = kernel;
    launch.tensors = given.tensors;
    launch.error = &error;
    status = tw_read(kernel, arguments, count, &given, &error);
    if (!status && given.device < 0) given.device = 0;
    if (!status) {
        tilewright_context *context = &contexts[given.device];
        status = tw_enter(context, given.device, &before, &error);
        if (!status) status = tw_plan_call(&launch, context, functions + given.device * all, calls, given.numbers, &plan);
        if (!status) status = tw_run_call(plan, given.device, &is_raised, &error);
        if (before != context->context) (void)cuCtxSetCurrent(before);
    }
    if (status && !is_raised)
        TVMFFIErrorSetRaisedFromCStr(status == TW_TYPE ? "TypeError" : status < 0 ? "ValueError" : "RuntimeError", message);
    return status ? -1 : 0;
}
#endif
