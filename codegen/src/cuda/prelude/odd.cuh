// Towards zero, with a last bit that remembers what was cut off: rounded again to fewer bits, it is as if rounded once.
__device__ __forceinline__ float float_to_odd(double x) {
    const float y = __double2float_rz(x);
    return (double)y == x || x != x ? y : __uint_as_float(__float_as_uint(y) | 1);
}
