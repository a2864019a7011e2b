__device__ __forceinline__ unsigned shared_address(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

// A coordinate, or one of the first if it is out of bounds, at most the last at which a vector fits. No thread uses elements that
// are out of bounds, but blocks that all read the same row instead would wait for one slice of the L2 cache.
template <typename T>
__device__ __forceinline__ T wrapped(T at, T end, T last) {
    return at < end ? at : min(at - end, last);
}

// An address in the shared memory of another block of the cluster.
template <typename T>
__device__ __forceinline__ T* in_peer(T* p, int rank) {
    T* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
    return there;
}
