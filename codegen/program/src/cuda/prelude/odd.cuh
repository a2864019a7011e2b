// Round to odd, towards zero with a sticky last bit: rounding again to fewer bits gives the result of a
// single rounding.
__device__ __forceinline__ float float_to_odd(double x) {
    const float y = __double2float_rz(x);
    return (double)y == x || x != x ? y : __uint_as_float(__float_as_uint(y) | 1);
}

__device__ __forceinline__ double long_to_odd(long long x) {
    const double y = __ll2double_rz(x);
    return (long long)y == x ? y : __longlong_as_double(__double_as_longlong(y) | 1);
}

__device__ __forceinline__ double long_to_odd(unsigned long long x) {
    const double y = __ull2double_rz(x);
    return (unsigned long long)y == x ? y : __longlong_as_double(__double_as_longlong(y) | 1);
}
