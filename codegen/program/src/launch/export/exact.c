
/* Requirements of the author on sizes. */

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

/* How the evaluation of a node ends, as tw_eval returns it, and its value. */
static tw_count tw_status(const tw_kernel *kernel, int node, const tw_bound *sizes) {
    int64_t value = 0;
    return (tw_count)tw_eval(kernel->node, node, sizes, &value);
}

static tw_count tw_number(const tw_kernel *kernel, int node, const tw_bound *sizes) {
    int64_t value = 0;
    (void)tw_eval(kernel->node, node, sizes, &value);
    return (tw_count)value;
}
