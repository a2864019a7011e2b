
/* Checks of arguments, and the values of sizes. */

typedef struct {
    const tw_kernel *kernel;
    const tilewright_tensor *const *tensors; /* by argument; 0 for numbers */
    tw_text *error;
} tw_launch;

/* Checks types and modes, which C alone does not, and then what a launch in Rust checks. `*empty_loops` is the number of the kernel
   without loops that serves the launch where no other does, from 1 on, or 0. */
static int tw_check(const tw_launch *launch, tw_bound *sizes, int *empty_loops) {
    const tw_kernel *kernel = launch->kernel;
    int at, status;
    for (at = 0; at < kernel->params; ++at) {
        const tw_param *param = &kernel->param[at];
        const tilewright_tensor *tensor = launch->tensors[at];
        const char *type = tw_types[param->type].name, *given = "others";
        if (!param->tensor) continue;
        if (tensor->type >= 0 && tensor->type < (int)(sizeof tw_types / sizeof tw_types[0])) given = tw_types[tensor->type].name;
        if (tensor->type != param->type)
            return TW_REFUSE(launch->error,
                             "argument `%s`: its elements are %s, and %s were given\nhelp: convert them, or make the kernel for %s",
                             param->name, type, given, given);
        if (tensor->rank != param->rank)
            return TW_REFUSE(launch->error, "argument `%s`: it has %d mode%s, and a tensor of %d was given", param->name,
                             param->rank, param->rank == 1 ? "" : "s", tensor->rank);
    }
    status = kernel->check(launch->tensors, sizes, empty_loops, launch->error);
    return status ? status : kernel->apart(launch->tensors, launch->error);
}
