/* What an exported kernel refuses on a GPU: contexts, streams and devices that are not its own. */
#include "check.h"

static int wrong;

static void expect(const char *what, int status, const char *message, const char *wanted) {
    int right = status && strstr(message, wanted);
    wrong |= !right;
    printf("%s: %s%s\n", what, status ? message : "launched", right ? "" : "  WRONG");
}

int main(void) {
    struct CUstream_st *stream = opened(), *other_stream;
    void *own, *other;
    address x, y;
    int device, count = 0;
    DO(cuDeviceGet(&device, 0));
    DO(cuDevicePrimaryCtxRetain(&own, device));
    DO(cuMemAlloc_v2(&x, 4096 * 1000 * 4));
    DO(cuMemAlloc_v2(&y, 4096 * 1000 * 4));
    arguments.x = matrix(x, TILEWRIGHT_F32, 4096, 1000, 1);
    arguments.y = matrix(y, TILEWRIGHT_F32, 4096, 1000, 1);
    (void)launched(stream);

    /* Makes it current. */
    DO(cuCtxCreate_v2(&other, 0, device));
    DO(cuStreamCreate(&other_stream, 1));
    expect("a stream of another context", LAUNCH(other_stream, &plan, 0), plan.error, "the stream is of another context");
    memset(&plan, 0, sizeof plan);
    expect("another context is current", PLAN(&kernel, &arguments, &plan), plan.error, "opened in another context");
    expect("not planned", LAUNCH(stream, &plan, 0), plan.error, "not planned");
    /* Each takes one from the thread's stack of contexts. */
    do {
        DO(cuCtxSetCurrent(0));
        DO(cuCtxGetCurrent(&other));
    } while (other);
    {
        static JOIN(KERNEL, _kernel) none;
        expect("no context", OPEN(&none), none.error, "no context is current");
    }
    DO(cuCtxSetCurrent(own));
    DO(cuDeviceGetCount(&count));
    if (count > 1) {
        void *second;
        int two;
        DO(cuDeviceGet(&two, 1));
        DO(cuDevicePrimaryCtxRetain(&second, two));
        DO(cuCtxSetCurrent(second));
        DO(cuMemAlloc_v2(&y, 4096 * 1000 * 4));
        DO(cuCtxSetCurrent(own));
        for (address here = arguments.y.address, repeat = 0; repeat < 2; ++repeat) {
            /* The second time there is a plan for these shapes. */
            if (repeat) {
                arguments.y.address = here;
                DO(PLAN(&kernel, &arguments, &plan));
            }
            arguments.y.address = y;
            expect("memory of another device", PLAN(&kernel, &arguments, &plan), plan.error, "it is on device 1, and the context is on device 0");
        }
    } else
        printf("memory of another device: not tried, there is one device\n");
    arguments.y.address = x;
    expect("shared memory", PLAN(&kernel, &arguments, &plan), plan.error, "shares memory");
    arguments.y.extents[1] = 999;
    expect("extents", PLAN(&kernel, &arguments, &plan), plan.error, "its extent 1 is 999");
    arguments.y.extents[1] = 1000;
    arguments.y.type = TILEWRIGHT_F16;
    expect("types", PLAN(&kernel, &arguments, &plan), plan.error, "its elements are f32");
    /* What was refused has left nothing behind. */
    DO(cuMemAlloc_v2(&y, 4096 * 1000 * 4));
    arguments.y = matrix(y, TILEWRIGHT_F32, 4096, 1000, 1);
    (void)launched(stream);
    printf("then a launch succeeds\n");
    return wrong;
}
