// Programmatic dependent launch: waits until the previous kernel has ended and its writes are visible.
__device__ __forceinline__ void await_previous_kernel() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets blocks of the next kernel start, where there is room for them, before this kernel's blocks have ended.
__device__ __forceinline__ void start_next_kernel() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Elects one thread of the warp.
__device__ __forceinline__ bool elect_one() {
    unsigned elected;
    asm volatile(
        "{\n"
        "    .reg .pred p;\n"
        "    elect.sync _|p, 0xffffffff;\n"
        "    selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(elected));
    return elected;
}

// The lanes with the same byte: eight ballots are faster than a match of 32 bits, whose time grows with the number of values.
// In PTX, because predicates of all bits then come from one instruction (R2P) instead of four for each bit.
__device__ __forceinline__ unsigned match_byte(unsigned n) {
    unsigned same = 0xffffffff;
    #pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
        asm volatile(
            "{\n"
            "    .reg .pred p;\n"
            "    .reg .b32 lanes;\n"
            "    and.b32 lanes, %1, %2;\n"
            "    setp.ne.u32 p, lanes, 0;\n"
            "    vote.sync.ballot.b32 lanes, p, 0xffffffff;\n"
            "    @!p not.b32 lanes, lanes;\n"
            "    and.b32 %0, %0, lanes;\n"
            "}"
            : "+r"(same) : "r"(n), "r"(1u << bit));
    }
    return same;
}

// A named barrier of some warps.
__device__ __forceinline__ void bar_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Waits until all blocks of the cluster run and have initialised their mbarriers. The arrival waits for no access to
// memory, as one with release semantics would.
__device__ __forceinline__ void cluster_start() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void fence_cluster() {
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
}

// Increases the registers of each thread of the warpgroup.
template <int registers>
__device__ __forceinline__ void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(registers));
}

// Decreases the registers of each thread of the warpgroup.
template <int registers>
__device__ __forceinline__ void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(registers));
}
