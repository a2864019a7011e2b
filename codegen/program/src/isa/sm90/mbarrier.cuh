__device__ __forceinline__ void mbarrier_init(unsigned long long* bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(bar)), "r"(count) : "memory");
}

// Makes initialised mbarriers visible to the other blocks of the cluster and to bulk copies.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(unsigned long long* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(bar)) : "memory");
}

// Arrives, and expects this number of transaction bytes from bulk copies.
__device__ __forceinline__ void mbarrier_arrive_expect_bytes(unsigned long long* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(bar)), "r"(bytes) : "memory");
}

// Arrives at another block's mbarrier. Orders asynchronous copies and products, which have been waited for,
// but no ordinary loads and stores.
__device__ __forceinline__ void mbarrier_arrive_at_peer(unsigned long long* bar, int rank) {
    asm volatile(
        "{\n"
        "    .reg .b32 there;\n"
        "    mapa.shared::cluster.u32 there, %0, %1;\n"
        "    mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}"
        :: "r"(shared_address(bar)), "r"(rank) : "memory");
}

// Arrives at another block's mbarrier with release semantics: orders ordinary loads and stores too.
__device__ __forceinline__ void mbarrier_arrive_at_peer_release(unsigned long long* bar, int rank) {
    asm volatile(
        "{\n"
        "    .reg .b32 there;\n"
        "    mapa.shared::cluster.u32 there, %0, %1;\n"
        "    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
        "}"
        :: "r"(shared_address(bar)), "r"(rank) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive_expect_bytes_at_peer(unsigned long long* bar, int bytes, int rank) {
    asm volatile(
        "{\n"
        "    .reg .b32 there;\n"
        "    mapa.shared::cluster.u32 there, %0, %2;\n"
        "    mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [there], %1;\n"
        "}"
        :: "r"(shared_address(bar)), "r"(bytes), "r"(rank) : "memory");
}

// Waits until the phase of this parity is complete.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* bar, int parity) {
    asm volatile(
        "{\n"
        "    .reg .pred done;\n"
        "again%=:\n"
        "    mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "    @!done bra again%=;\n"
        "}"
        :: "r"(shared_address(bar)), "r"(parity) : "memory");
}

// Waits with acquire semantics for the cluster, where other blocks arrive too.
__device__ __forceinline__ void mbarrier_wait_cluster(unsigned long long* bar, int parity) {
    asm volatile(
        "{\n"
        "    .reg .pred done;\n"
        "again%=:\n"
        "    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "    @!done bra again%=;\n"
        "}"
        :: "r"(shared_address(bar)), "r"(parity) : "memory");
}
