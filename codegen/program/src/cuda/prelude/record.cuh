// ==== Records of an instrumented kernel ====

// The first record has the number of the others in its first word. The host sets the address of the records, the number
// of the kernel, and the block whose warps have a timeline: 21 bits for each axis.
struct KernelRecord {
    enum { MOST = 1 << 14, MARKS = 1 << 12 };
    unsigned probe, kernel, block[3], thread;
    unsigned long long values[5];
};
extern "C" {
__constant__ unsigned long long tilewright_records[3];
}

__device__ void write_record(unsigned probe, unsigned long long a, unsigned long long b = 0, unsigned long long c = 0,
                             unsigned long long d = 0, unsigned long long e = 0) {
    volatile KernelRecord* all = (volatile KernelRecord*)tilewright_records[0];
    const unsigned at = atomicAdd((unsigned*)&all->probe, 1u) + 1;
    if (at >= KernelRecord::MOST) return;
    all[at].kernel = (unsigned)tilewright_records[1];
    all[at].block[0] = blockIdx.x;
    all[at].block[1] = blockIdx.y;
    all[at].block[2] = blockIdx.z;
    all[at].thread = threadIdx.x;
    all[at].values[0] = a;
    all[at].values[1] = b;
    all[at].values[2] = c;
    all[at].values[3] = d;
    all[at].values[4] = e;
    __threadfence_system();
    all[at].probe = probe + 1;
}

// The first lane of each warp of one block notes the clock. The marks of a warp are after all records.
__device__ __forceinline__ void note_clock(unsigned& marks, unsigned site) {
    const unsigned long long block =
        blockIdx.x | (unsigned long long)blockIdx.y << 21 | (unsigned long long)blockIdx.z << 42;
    if (threadIdx.x % 32 == 0 && marks < KernelRecord::MARKS && block == tilewright_records[2]) {
        volatile ulonglong2* all = (volatile ulonglong2*)((KernelRecord*)tilewright_records[0] + KernelRecord::MOST);
        volatile ulonglong2& own = all[threadIdx.x / 32 * KernelRecord::MARKS + marks++];
        own.y = clock64();
        own.x = (unsigned long long)tilewright_records[1] << 32 | (site + 1);
    }
}
