
/* Checks of arguments, and the values of sizes. */

typedef struct {
    const tw_kernel *kernel;
    const tilewright_tensor *const *tensors; /* by argument; 0 for numbers */
    tw_text *error;
} tw_launch;

static void tw_list(tw_text *text, const int64_t *values, int count) {
    int place;
    tw_put(text, "(");
    for (place = 0; place < count; ++place) tw_put(text, "%s%" PRId64, place ? ", " : "", values[place]);
    tw_put(text, ")");
}

/* `extent 0`, `stride 1`. */
static void tw_what(tw_text *text, int stride, int mode) { tw_put(text, "%s %d", stride ? "stride" : "extent", mode); }

static void tw_named(tw_text *text, const tw_kernel *kernel, tw_size size) {
    if (size.of == -1) tw_put(text, "%" PRId64, size.times);
    else if (size.of == -2) tw_put(text, "?");
    else {
        if (size.times != 1) tw_put(text, "%" PRId64 "*", size.times);
        if (size.over != 1) tw_put(text, "ceil(%s/%" PRIu32 ")", kernel->size[size.of], size.over);
        else tw_put(text, "%s", kernel->size[size.of]);
    }
}

/* Distinct coordinates of a written tensor have distinct addresses. */
static int tw_injective(const char *name, const tilewright_tensor *tensor, tw_text *error) {
    int order[TILEWRIGHT_MODES], count = 0, mode, place;
    tw_wide reach = 0;
    for (mode = 0; mode < tensor->rank; ++mode) {
        if (tensor->extents[mode] <= 1) continue;
        for (place = count; place > 0; --place) {
            int before = order[place - 1];
            if (tensor->strides[before] < tensor->strides[mode] ||
                (tensor->strides[before] == tensor->strides[mode] && tensor->extents[before] <= tensor->extents[mode]))
                break;
            order[place] = before;
        }
        order[place] = mode;
        ++count;
    }
    for (place = 0; place < count; ++place) {
        mode = order[place];
        if (tensor->strides[mode] <= reach)
            return TW_REFUSE(error,
                             "argument `%s`: it is written, and its stride %d is %" PRId64 ", not greater than the %" PRId64
                             " elements that its other modes span\nhelp: give each element its own offset: pass a contiguous "
                             "tensor; a tensor that repeats elements can only be read",
                             name, mode, tensor->strides[mode], (int64_t)(reach + 1));
        reach += (tw_wide)(tensor->extents[mode] - 1) * tensor->strides[mode];
    }
    return 0;
}

/* Checks of one tensor alone. */
static int tw_itself(const tw_param *param, const tilewright_tensor *tensor, tw_text *error) {
    const char *name = param->name;
    const char *type = tw_types[param->type].name;
    uint32_t bytes = tw_types[param->type].bytes;
    tw_wide needed;
    int mode;
    if (tensor->type != param->type) {
        const char *given = tensor->type >= 0 && tensor->type < (int)(sizeof tw_types / sizeof tw_types[0])
                                ? tw_types[tensor->type].name
                                : "of no type";
        return TW_REFUSE(error,
                         "argument `%s`: its elements are %s, and %s were given\nhelp: convert them, or make the kernel for %s",
                         name, type, given, given);
    }
    if (tensor->rank != param->rank)
        return TW_REFUSE(error, "argument `%s`: it has %d mode%s, and a tensor of %d was given", name, param->rank,
                         param->rank == 1 ? "" : "s", tensor->rank);
    for (mode = 0; mode < tensor->rank; ++mode) {
        int64_t extent = tensor->extents[mode], stride = tensor->strides[mode];
        if (extent < 0) return TW_REFUSE(error, "argument `%s`: its extent %d is %" PRId64, name, mode, extent);
        if (extent > TW_MOST)
            return TW_REFUSE(error,
                             "argument `%s`: its extent %d is %" PRId64 ", and the limit is %d: coordinates have 32 bits", name,
                             mode, extent, TW_MOST);
        if (extent > 1 && (stride < 0 || stride > TW_MOST))
            return TW_REFUSE(error, "argument `%s`: its stride %d is %" PRId64 ", and strides go from 0 to %d", name, mode,
                             stride, TW_MOST);
    }
    if (tw_empty(tensor)) return 0;
    if (tensor->address % bytes != 0)
        return TW_REFUSE(error,
                         "argument `%s`: it begins at address %#" PRIx64 ", and %s is %" PRIu32
                         " bytes wide\nhelp: begin at a multiple of %" PRIu32 " bytes",
                         name, tensor->address, type, bytes, bytes);
    needed = tw_last(tensor) + 1;
    if (needed > (tw_wide)tensor->elements) {
        tw_put(error, "argument `%s`: extents ", name);
        tw_list(error, tensor->extents, tensor->rank);
        tw_put(error, " with strides ");
        tw_list(error, tensor->strides, tensor->rank);
        return TW_REFUSE(error, " span %" PRId64 " elements, and the buffer has %" PRIu64
                                "\nhelp: give a longer buffer, or smaller extents",
                         (int64_t)needed, tensor->elements);
    }
    return param->writes ? tw_injective(name, tensor, error) : 0;
}

/* Determines a size, or compares it with what is known. */
static int tw_match(const tw_launch *launch, int arg, int plain, int stride, int mode, tw_size wanted, int64_t given,
                    tw_bound *sizes) {
    const tw_kernel *kernel = launch->kernel;
    tw_text *error = launch->error;
    const char *name = kernel->param[arg].name;
    int64_t expected;
    if (tw_plain(wanted)) {
        tw_bound *known = &sizes[wanted.of];
        if (!known->known) {
            known->known = 1;
            known->value = given;
            known->arg = arg;
            known->stride = stride;
            known->mode = mode;
            return 0;
        }
        if (known->value == given) return 0;
        tw_put(error, "argument `%s`: its ", name);
        tw_what(error, stride, mode);
        tw_put(error, " is %" PRId64 ", and `%s` is %" PRId64 ", the ", given, kernel->size[wanted.of], known->value);
        tw_what(error, known->stride, known->mode);
        return TW_REFUSE(error, " of `%s`", kernel->param[known->arg].name);
    }
    if (plain) return 0;
    if (!tw_value(wanted, sizes, &expected)) {
        tw_put(error, "argument `%s`: its ", name);
        tw_what(error, stride, mode);
        tw_put(error, " is `");
        tw_named(error, kernel, wanted);
        return TW_REFUSE(error, "`, which no argument determines");
    }
    if (expected == given) return 0;
    tw_put(error, "argument `%s`: its ", name);
    tw_what(error, stride, mode);
    if (wanted.of == -1)
        return TW_REFUSE(error, " is %" PRId64 ", and the kernel is made for %" PRId64, given, expected);
    tw_put(error, " is %" PRId64 ", and `", given);
    tw_named(error, kernel, wanted);
    return TW_REFUSE(error, "` is %" PRId64, expected);
}

static int tw_modes(const tw_launch *launch, const tw_shape *shape, int plain, tw_bound *sizes) {
    const tilewright_tensor *tensor = launch->tensors[shape->arg];
    int mode, status;
    for (mode = 0; mode < shape->rank; ++mode) {
        status = tw_match(launch, shape->arg, plain, 0, mode, shape->extents[mode], tensor->extents[mode], sizes);
        if (status) return status;
    }
    for (mode = 0; mode < shape->rank; ++mode) {
        tw_size wanted = shape->strides[mode];
        int64_t given = tensor->strides[mode];
        if (tensor->extents[mode] <= 1 || tw_empty(tensor)) continue;
        if (given == 0 && wanted.of >= 0)
            return TW_REFUSE(launch->error,
                             "argument `%s`: its stride %d is 0, and the kernel takes it for at least 1\nhelp: pass a contiguous "
                             "tensor; a kernel that reads repeated elements has the stride `_0` for mode %d in the type of this "
                             "argument",
                             launch->kernel->param[shape->arg].name, mode, mode);
        status = tw_match(launch, shape->arg, plain, 1, mode, wanted, given, sizes);
        if (status && wanted.of == -1 && wanted.times == 1) {
            int64_t compact[TILEWRIGHT_MODES], next = tensor->extents[mode] > 1 ? tensor->extents[mode] : 1;
            int other;
            compact[mode] = 1;
            for (other = 0; other < tensor->rank; ++other) {
                if (other == mode) continue;
                compact[other] = next;
                next *= tensor->extents[other] > 1 ? tensor->extents[other] : 1;
            }
            tw_put(launch->error, "\nhelp: mode %d must be contiguous: give it strides such as ", mode);
            tw_list(launch->error, compact, tensor->rank);
        }
        if (status) return status;
    }
    return 0;
}

/* An integer, or a condition as 0 or 1, in exact arithmetic. Returns 1 where 64 bits overflow, 2 where it divides by `*value`. */
static int tw_eval(const tw_node *nodes, int at, const tw_bound *sizes, int64_t *value) {
    const tw_node *node = &nodes[at];
    int64_t a = 0, b = 0;
    tw_wide wide;
    int status;
    switch (node->op) {
    case TW_NUMBER:
        *value = node->n;
        return 0;
    case TW_VALUE:
        return !tw_value(node->size, sizes, value);
    case TW_UNDEFINED:
        return 1;
    case TW_FALSE:
        *value = 0;
        return 0;
    case TW_NOT:
    case TW_BOTH:
    case TW_EITHER:
        status = tw_eval(nodes, node->a, sizes, &a);
        if (status) {
            *value = a;
            return status;
        }
        if (node->op == TW_NOT) {
            *value = !a;
            return 0;
        }
        if ((node->op == TW_BOTH) == (a == 0)) {
            *value = a;
            return 0;
        }
        return tw_eval(nodes, node->b, sizes, value);
    default:
        break;
    }
    status = tw_eval(nodes, node->a, sizes, &a);
    if (status) {
        *value = a;
        return status;
    }
    if (node->op != TW_DIGIT) status = tw_eval(nodes, node->b, sizes, &b);
    if (status) {
        *value = b;
        return status;
    }
    switch (node->op) {
    case TW_TERM:
        wide = (tw_wide)b * node->n;
        if (wide > INT64_MAX || wide < INT64_MIN) return 1;
        wide += a;
        break;
    case TW_DIGIT:
        wide = a >= 0 ? a / node->n : -((-(tw_wide)a + node->n - 1) / node->n);
        if (node->m) wide = ((wide % node->m) + node->m) % node->m;
        break;
    case TW_MUL:
        wide = (tw_wide)a * b;
        break;
    case TW_DIV:
    case TW_REM:
        if (b <= 0) {
            *value = b;
            return 2;
        }
        wide = a >= 0 ? a / b : -((-(tw_wide)a + b - 1) / b);
        if (node->op == TW_REM) wide = a - wide * b;
        break;
    case TW_MIN:
        wide = a < b ? a : b;
        break;
    case TW_MAX:
        wide = a > b ? a : b;
        break;
    case TW_LESS:
        wide = a < b;
        break;
    default:
        wide = a == b;
        break;
    }
    if (wide > INT64_MAX || wide < INT64_MIN) return 1;
    *value = (int64_t)wide;
    return 0;
}

static int tw_about(const tw_require *require, int size) {
    int place;
    for (place = 0; place < require->sizes; ++place)
        if (require->size[place] == size) return 1;
    return 0;
}

/* Do all requirements about a size hold if it has this value? */
static int tw_holds(const tw_kernel *kernel, int size, int64_t value, tw_bound *sizes) {
    int64_t before = sizes[size].value, truth = 0;
    int at, holds = 1;
    if (value < 1 || value > TW_MOST) return 0;
    sizes[size].value = value;
    for (at = 0; at < kernel->requires_ && holds; ++at)
        if (tw_about(&kernel->require[at], size))
            holds = !tw_eval(kernel->node, kernel->require[at].test, sizes, &truth) && truth;
    sizes[size].value = before;
    return holds;
}

static int64_t tw_lcm(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x ? a / x * b : 0;
}

/* Strides of modes with one element are not used: they get values with which the author's requirements hold. */
static void tw_unused(const tw_launch *launch, const tw_form *form, tw_bound *sizes) {
    const tw_kernel *kernel = launch->kernel;
    int open[TW_SIZES], count = 0, at, mode, other;
    int64_t rows[TW_SIZES];
    for (at = 0; at < form->count; ++at) {
        const tw_shape *shape = &form->shapes[at];
        const tilewright_tensor *tensor = launch->tensors[shape->arg];
        for (mode = 0; mode < shape->rank; ++mode) {
            tw_size wanted = shape->strides[mode];
            tw_bound *bound;
            tw_wide row = 1;
            int64_t given = tensor->strides[mode];
            if (!tw_plain(wanted) || sizes[wanted.of].known) continue;
            for (other = 0; other < tensor->rank; ++other)
                if (other != mode && row <= TW_MOST) row *= tensor->extents[other] > 1 ? tensor->extents[other] : 1;
            open[count] = wanted.of;
            rows[count++] = row < TW_MOST ? (int64_t)row : TW_MOST;
            bound = &sizes[wanted.of];
            bound->known = 1;
            bound->value = given >= 1 && given <= TW_MOST ? given : 1;
            bound->arg = shape->arg;
            bound->stride = 1;
            bound->mode = mode;
        }
    }
    for (at = 0; at < count; ++at) {
        int size = open[at], require, place;
        int64_t first = sizes[size].value, multiple = 1, rounded, choice = first;
        for (require = 0; require < kernel->requires_; ++require) {
            const tw_require *of = &kernel->require[require];
            if (tw_about(of, size) && of->divides && tw_plain(of->divided) && of->divided.of == size)
                multiple = tw_lcm(multiple, of->divisor);
        }
        rounded = (rows[at] + multiple - 1) / multiple * multiple;
        if (tw_holds(kernel, size, first, sizes)) choice = first;
        else if (tw_holds(kernel, size, rows[at], sizes)) choice = rows[at];
        else if (tw_holds(kernel, size, rounded, sizes)) choice = rounded;
        else {
            int found = 0;
            for (require = 0; require < kernel->requires_ && !found; ++require) {
                const tw_require *of = &kernel->require[require];
                for (place = 0; place < of->equals && !found; ++place) {
                    int64_t value = 0;
                    if (of->equal[place].size != size) continue;
                    sizes[size].value = 1;
                    found = !tw_eval(kernel->node, of->equal[place].node, sizes, &value);
                    sizes[size].value = first;
                    found = found && tw_holds(kernel, size, value, sizes);
                    if (found) choice = value;
                }
            }
        }
        sizes[size].value = choice;
    }
}

/* The values of the sizes. */
/* Sizes of the grid that are computed from others. */
static void tw_compute(const tw_kernel *kernel, tw_bound *sizes) {
    int at;
    for (at = 0; at < kernel->requires_; ++at) {
        const tw_require *require = &kernel->require[at];
        int64_t value = 0;
        if (require->of < 0 || sizes[require->of].known) continue;
        if (tw_eval(kernel->node, require->computed, sizes, &value)) value = 0;
        sizes[require->of].known = 1;
        sizes[require->of].value = value < 0 ? 0 : value > TW_MOST ? TW_MOST : value;
        sizes[require->of].arg = -1;
    }
}

static int tw_bind(const tw_launch *launch, int form, tw_bound *sizes) {
    const tw_form *of = &launch->kernel->form[form];
    int plain, at, status;
    memset(sizes, 0, sizeof(tw_bound) * (size_t)launch->kernel->sizes);
    for (plain = 1; plain >= 0; --plain) {
        for (at = 0; at < of->count; ++at) {
            status = tw_modes(launch, &of->shapes[at], plain, sizes);
            if (status) return status;
        }
        if (plain) tw_unused(launch, of, sizes);
    }
    tw_compute(launch->kernel, sizes);
    return 0;
}

/* The author's requirements. */
static int tw_required(const tw_launch *launch, const tw_bound *sizes) {
    const tw_kernel *kernel = launch->kernel;
    tw_text *error = launch->error;
    int at, place, before;
    for (at = 0; at < kernel->requires_; ++at) {
        const tw_require *require = &kernel->require[at];
        char values_[TILEWRIGHT_ERROR], why[64] = "";
        tw_text values;
        int64_t value = 0, computed = 0;
        int status, some = 0, zero = -1;
        for (place = 0; place < require->sizes; ++place)
            if (!sizes[require->size[place]].known)
                return TW_REFUSE(error, "no argument determines the size `%s`", kernel->size[require->size[place]]);
        status = tw_eval(kernel->node, require->test, sizes, &value);
        if (!status && value) continue;
        if (status == 2) snprintf(why, sizeof why, "divides by %" PRId64, value);
        if (status == 1) snprintf(why, sizeof why, "overflows 64 bits");
        values.at = values_;
        values.left = sizeof values_;
        values_[0] = 0;
        for (place = 0; place < require->sizes; ++place) {
            int size = require->size[place], twice = 0;
            if (sizes[size].value == 0 && zero < 0) zero = size;
            if (size == require->of) continue;
            for (before = 0; before < place; ++before) twice |= require->size[before] == size;
            if (twice || sizes[size].arg < 0) continue;
            tw_put(&values, "%s`%s` is %" PRId64 ", the ", some++ ? ", " : "", kernel->size[size], sizes[size].value);
            tw_what(&values, sizes[size].stride, sizes[size].mode);
            tw_put(&values, " of `%s`", kernel->param[sizes[size].arg].name);
        }
        if (require->of >= 0 && sizes[require->of].known && sizes[require->of].arg >= 0) {
            const tw_bound *extent = &sizes[require->of];
            tw_put(error, "argument `%s`: its ", kernel->param[extent->arg].name);
            tw_what(error, extent->stride, extent->mode);
            if (!status && require->computed >= 0 && !tw_eval(kernel->node, require->computed, sizes, &computed))
                return TW_REFUSE(error, " is %" PRId64 ", and `%s` is %" PRId64, extent->value, require->text, computed);
            return TW_REFUSE(error, " is `%s`, which %s: %s", require->text, why, values_);
        }
        if (!status && require->computed >= 0 && !tw_eval(kernel->node, require->computed, sizes, &computed))
            return TW_REFUSE(error,
                             "an axis of the grid has `%s` blocks, which is %" PRId64 ", and 0 to %" PRId64 " are possible: %s",
                             require->text, computed, (int64_t)TW_MOST, values_);
        if (!status) return TW_REFUSE(error, "the kernel asserts `%s`: %s", require->text, values_);
        tw_put(error, "the kernel asserts `%s`, which %s: %s", require->text, why, values_);
        if (status == 2 && value == 0 && zero >= 0)
            tw_put(error, "\nhelp: where the kernel serves such launches, write assert(%s == 0 || %s)", kernel->size[zero],
                   require->text);
        return TILEWRIGHT_REFUSED;
    }
    return 0;
}

/* Memory of a tensor that has elements. */
static void tw_span(const tilewright_tensor *tensor, tw_wide *from, tw_wide *to) {
    *from = tensor->address;
    *to = *from + (tw_last(tensor) + 1) * tw_types[tensor->type].bytes;
}

/* A written argument overlaps no other. */
static int tw_overlaps(const tw_launch *launch) {
    const tw_kernel *kernel = launch->kernel;
    int one, other;
    for (one = 0; one < kernel->params; ++one) {
        for (other = one + 1; other < kernel->params; ++other) {
            const tilewright_tensor *a = launch->tensors[one], *b = launch->tensors[other];
            tw_wide from[2], to[2];
            int writes = kernel->param[one].writes;
            if (!a || !b || !(writes || kernel->param[other].writes) || tw_empty(a) || tw_empty(b)) continue;
            tw_span(a, &from[0], &to[0]);
            tw_span(b, &from[1], &to[1]);
            if (from[0] < to[1] && from[1] < to[0])
                return TW_REFUSE(launch->error,
                                 "argument `%s`: it is written, and overlaps `%s` in memory\nhelp: pass a buffer that does not overlap",
                                 kernel->param[writes ? one : other].name, kernel->param[writes ? other : one].name);
        }
    }
    return 0;
}

/* Checks all arguments. `*empty_loops` is the kernel without loops that serves the launch where no other does, or -1. */
static int tw_check(const tw_launch *launch, tw_bound *sizes, int *empty_loops) {
    const tw_kernel *kernel = launch->kernel;
    uint64_t empty = 0;
    int at, status, work = 0, blocks, first_empty = -1;
    *empty_loops = -1;
    for (at = 0; at < kernel->params; ++at) {
        if (!kernel->param[at].tensor) continue;
        status = tw_itself(&kernel->param[at], launch->tensors[at], launch->error);
        if (status) return status;
    }
    status = tw_bind(launch, kernel->of_class[kernel->variant[0].of_class].form, sizes);
    if (!status) status = tw_required(launch, sizes);
    if (status) return status;
    blocks = !kernel->has_no_blocks(sizes);
    for (at = 0; at < kernel->params; ++at) {
        if (!kernel->param[at].tensor) continue;
        if (tw_empty(launch->tensors[at]) && kernel->param[at].used) {
            empty |= (uint64_t)1 << at;
            if (first_empty < 0) first_empty = at;
        } else if (kernel->param[at].writes && !tw_empty(launch->tensors[at])) {
            work = 1;
        }
    }
    if (blocks && first_empty >= 0 && work) {
        for (at = 0; at < kernel->empty_loops_count && *empty_loops < 0; ++at) {
            const tw_empty_loops *of = &kernel->empty_loops[at];
            if (of->size >= 0 && sizes[of->size].known && sizes[of->size].value == 0 && !(empty & ~of->idle)) *empty_loops = at;
        }
        if (*empty_loops < 0)
            return TW_REFUSE(launch->error,
                             "argument `%s`: it has no elements, and a tensor that the kernel writes has some\nhelp: an "
                             "empty tensor may be read only in loops that then have no iteration, such as "
                             "`for k in 0..x.size(2)`; otherwise fill the result yourself",
                             kernel->param[first_empty].name);
    }
    return tw_overlaps(launch);
}
