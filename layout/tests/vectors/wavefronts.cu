// Counts the wavefronts of single shared-memory instructions, for `wavefronts.txt` beside it.
//
//   nvcc -arch=sm_90 -o wavefronts wavefronts.cu
//   ncu --csv --metrics l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum,l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum
//       ./wavefronts wavefronts.txt
//
// Each line of the file is one access and becomes one kernel launch, in order:
//   kind|bytes per lane|active lanes (hex)|byte address of every lane, `-` where inactive|wavefronts that were counted
// Loads and `ldmatrix` are counted by the first metric, stores by the second. The numbers in the file were counted on an
// H100.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct Access {
    uint32_t active;
    uint32_t address[32];
};

enum { LOAD1, LOAD2, LOAD4, LOAD8, LOAD16, STORE1, STORE2, STORE4, STORE8, STORE16, MATRIX1, MATRIX2, MATRIX4 };

template <int KIND>
__device__ uint32_t perform(uint32_t at) {
    uint32_t x = 0, y = 0, z = 0, w = 0;
    if (KIND == LOAD1) asm volatile("ld.volatile.shared.u8 %0, [%1];" : "=r"(x) : "r"(at));
    if (KIND == LOAD2) asm volatile("{ .reg .u16 h; ld.volatile.shared.u16 h, [%1]; cvt.u32.u16 %0, h; }" : "=r"(x) : "r"(at));
    if (KIND == LOAD4) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(x) : "r"(at));
    if (KIND == LOAD8) asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(at));
    if (KIND == LOAD16)
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                     : "r"(at));
    if (KIND == STORE1) asm volatile("st.volatile.shared.u8 [%0], %0;" ::"r"(at));
    if (KIND == STORE2) asm volatile("st.volatile.shared.u16 [%0], %1;" ::"r"(at), "h"((unsigned short)at));
    if (KIND == STORE4) asm volatile("st.volatile.shared.u32 [%0], %0;" ::"r"(at));
    if (KIND == STORE8) asm volatile("st.volatile.shared.v2.u32 [%0], {%0, %0};" ::"r"(at));
    if (KIND == STORE16) asm volatile("st.volatile.shared.v4.u32 [%0], {%0, %0, %0, %0};" ::"r"(at));
    if (KIND == MATRIX1)
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(at));
    if (KIND == MATRIX2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(at));
    if (KIND == MATRIX4)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                     : "r"(at));
    return x + y + z + w;
}

extern __shared__ uint4 shared[];

template <int KIND>
__global__ void once(Access access, uint32_t *sink) {
    uint32_t at = (uint32_t)__cvta_generic_to_shared(shared) + access.address[threadIdx.x];
    // all lanes take part in a matrix instruction, whether they supply a row address or not
    if (KIND >= MATRIX1 || access.active >> threadIdx.x & 1) {
        uint32_t read = perform<KIND>(at);
        if (sink) sink[threadIdx.x] = read;
    }
}

int main(int count, char **args) {
    FILE *file = count > 1 ? fopen(args[1], "r") : nullptr;
    if (!file) return fprintf(stderr, "usage: wavefronts FILE\n"), 1;
    uint32_t *sink;
    cudaMalloc(&sink, 128);
    char line[1024];
    while (fgets(line, sizeof line, file)) {
        Access access = {};
        char kind[8];
        int bytes, at;
        if (sscanf(line, "%7[a-z]|%d|%x|%n", kind, &bytes, &access.active, &at) != 3) return 1;
        char *field = strtok(line + at, " |");
        for (int lane = 0; lane < 32; lane++, field = strtok(nullptr, " |"))
            access.address[lane] = *field == '-' ? 0 : atoi(field);
        int width = bytes == 16 ? 4 : bytes == 8 ? 3 : bytes == 4 ? 2 : bytes - 1;
        int which = *kind == 'l' ? LOAD1 + width : *kind == 's' ? STORE1 + width
                    : access.active == 0xff ? MATRIX1 : access.active == 0xffff ? MATRIX2 : MATRIX4;
#define CASE(KIND) \
    case KIND: once<KIND><<<1, 32, 32768>>>(access, sink); break;
        switch (which) {
            CASE(LOAD1) CASE(LOAD2) CASE(LOAD4) CASE(LOAD8) CASE(LOAD16) CASE(STORE1) CASE(STORE2)
            CASE(STORE4) CASE(STORE8) CASE(STORE16) CASE(MATRIX1) CASE(MATRIX2) CASE(MATRIX4)
        }
    }
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
