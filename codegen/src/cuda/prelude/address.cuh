__device__ __forceinline__ unsigned shared_address(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

// The same address in another block of the cluster.
template <typename T>
__device__ __forceinline__ T* in_peer(T* p, int rank) {
    T* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
    return there;
}
