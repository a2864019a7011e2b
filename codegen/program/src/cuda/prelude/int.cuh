// A quotient rounded up, of numbers whose sum fits; as an expression, which compilers simplify before they inline functions.
#define CEIL_DIV(a, b) (((a) + ((b) - 1)) / (b))

// Quotients of any number by a positive number, rounded up and down, and the remainder of the latter.
__device__ __forceinline__ int ceil_div_signed(int a, int b) {
    return a / b + (a % b > 0);
}

__device__ __forceinline__ int floor_div(int a, int b) {
    return a / b - (a % b < 0);
}

__device__ __forceinline__ int floor_mod(int a, int b) {
    return a % b < 0 ? a % b + b : a % b;
}

// Integer arithmetic that wraps around: in C an overflow is undefined.
__device__ __forceinline__ int wrapping_add(int a, int b) {
    return (int)((unsigned)a + (unsigned)b);
}

__device__ __forceinline__ int wrapping_sub(int a, int b) {
    return (int)((unsigned)a - (unsigned)b);
}

__device__ __forceinline__ int wrapping_mul(int a, int b) {
    return (int)((unsigned)a * (unsigned)b);
}

// Not an expression, of which compilers make an absolute value where it is one: assemblers then leave out comparisons with 0,
// and the least number has no absolute value.
__device__ __forceinline__ int wrapping_neg(int a) {
    int negated;
    asm("neg.s32 %0, %1;" : "=r"(negated) : "r"(a));
    return negated;
}

__device__ __forceinline__ int wrapping_abs(int a) {
    return a < 0 ? wrapping_neg(a) : a;
}

// With `^`, `(x ^ (x >> 31)) - (x >> 31)` and the like would be absolute values; see `wrapping_neg`.
__device__ __forceinline__ int signed_xor(int a, int b) {
    int bits;
    asm("xor.b32 %0, %1, %2;" : "=r"(bits) : "r"(a), "r"(b));
    return bits;
}

// A quotient by 0 has all bits set, and its remainder is the dividend.
__device__ __forceinline__ int wrapping_div(int a, int b) {
    return b == 0 ? -1 : b == -1 ? wrapping_neg(a) : a / b;
}

__device__ __forceinline__ int wrapping_rem(int a, int b) {
    return b == 0 ? a : b == -1 ? 0 : a % b;
}

__device__ __forceinline__ unsigned unsigned_div(unsigned a, unsigned b) {
    return b == 0 ? ~0u : a / b;
}

__device__ __forceinline__ unsigned unsigned_rem(unsigned a, unsigned b) {
    return b == 0 ? a : a % b;
}

// Shifts of 32 bits and more, in which only the sign is left.
template <typename T>
__device__ __forceinline__ T shift_left(T a, int n) {
    return (unsigned)n < 32 ? (T)((unsigned)a << n) : 0;
}

template <typename T>
__device__ __forceinline__ T shift_right(T a, int n) {
    return (unsigned)n < 32 ? a >> n : a >> 31 >> 1;
}

// 64-bit integers.
__device__ __forceinline__ long long wrapping_add_64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}

__device__ __forceinline__ long long wrapping_sub_64(long long a, long long b) {
    return (long long)((unsigned long long)a - (unsigned long long)b);
}

__device__ __forceinline__ long long wrapping_mul_64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}

__device__ __forceinline__ long long wrapping_neg_64(long long a) {
    long long negated;
    asm("neg.s64 %0, %1;" : "=l"(negated) : "l"(a));
    return negated;
}

__device__ __forceinline__ long long wrapping_abs_64(long long a) {
    return a < 0 ? wrapping_neg_64(a) : a;
}

__device__ __forceinline__ long long signed_xor_64(long long a, long long b) {
    long long bits;
    asm("xor.b64 %0, %1, %2;" : "=l"(bits) : "l"(a), "l"(b));
    return bits;
}

__device__ __forceinline__ long long wrapping_div_64(long long a, long long b) {
    return b == 0 ? -1 : b == -1 ? wrapping_neg_64(a) : a / b;
}

__device__ __forceinline__ long long wrapping_rem_64(long long a, long long b) {
    return b == 0 ? a : b == -1 ? 0 : a % b;
}

__device__ __forceinline__ unsigned long long unsigned_div_64(unsigned long long a, unsigned long long b) {
    return b == 0 ? ~0ull : a / b;
}

__device__ __forceinline__ unsigned long long unsigned_rem_64(unsigned long long a, unsigned long long b) {
    return b == 0 ? a : a % b;
}

template <typename T>
__device__ __forceinline__ T shift_left_64(T a, unsigned long long n) {
    return n < 64 ? (T)((unsigned long long)a << n) : 0;
}

template <typename T>
__device__ __forceinline__ T shift_right_64(T a, unsigned long long n) {
    return n < 64 ? a >> n : a >> 63 >> 1;
}

// Fractions are truncated, numbers out of range are clamped, and not-a-number becomes 0.
__device__ __forceinline__ long long float_to_long(float x) {
    return x == x ? __float2ll_rz(x) : 0;
}

__device__ __forceinline__ long long double_to_long(double x) {
    return x == x ? __double2ll_rz(x) : 0;
}

__device__ __forceinline__ unsigned long long float_to_unsigned_long(float x) {
    return x == x ? __float2ull_rz(x) : 0;
}

__device__ __forceinline__ unsigned long long double_to_unsigned_long(double x) {
    return x == x ? __double2ull_rz(x) : 0;
}
