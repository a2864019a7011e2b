// Stores of vectors whose elements another branch stores one by one: where both begin at the same address, the compiler would split
// the vector into words.
__device__ __forceinline__ void store_16(void* to, const unsigned* from) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]) : "memory");
}

__device__ __forceinline__ void store_8(void* to, const unsigned* from) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" :: "l"(to), "r"(from[0]), "r"(from[1]) : "memory");
}
