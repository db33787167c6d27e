// The values of generated CUDA kernels: two units at once, their mathematics, and how they lie in memory.
//
// Before this file stand NUMBER and PARAMETER, the types in memory of sequences and of what belongs to a unit; SINGLE: a thread
// has one unit instead of two, since rows begin where two cannot be read at once; EXACT: float32 is as good as on a CPU; and
// THREADS, of a thread block.

#include <machine.cuh>

using number = NUMBER;
using parameter = PARAMETER;
using whole = long long;

// -- two units at once ------------------------------------------------------------------------------------------------

struct two {
    float x, y;
    DEVICE two(float v = 0.0f) : x(v), y(v) {}
    DEVICE two(float x, float y) : x(x), y(y) {}
};
struct both {
    bool x, y;
};
#define OPERATOR(RESULT, TYPE, SIGN) \
    DEVICE RESULT operator SIGN(const TYPE& a, const TYPE& b) { return {a.x SIGN b.x, a.y SIGN b.y}; }
OPERATOR(two, two, +)
OPERATOR(two, two, -)
OPERATOR(two, two, *)
OPERATOR(both, two, <)
OPERATOR(both, two, <=)
OPERATOR(both, two, ==)
OPERATOR(both, both, &)
OPERATOR(both, both, |)
DEVICE float divided(float a, float b) { return sizeof(number) == 4 ? a / b : quotient(a, b); }
DEVICE two operator/(const two& a, const two& b) { return {divided(a.x, b.x), divided(a.y, b.y)}; }
DEVICE two operator-(const two& v) { return {-v.x, -v.y}; }
DEVICE both operator!(const both& v) { return {!v.x, !v.y}; }
DEVICE two& operator+=(two& a, const two& b) { return a = a + b; }
DEVICE two select(const both& c, const two& a, const two& b) { return {c.x ? a.x : b.x, c.y ? a.y : b.y}; }

#define FUNCTION(NAME, ...) \
    DEVICE float NAME##_of(float v) { return __VA_ARGS__; } \
    DEVICE two NAME(const two& v) { return {NAME##_of(v.x), NAME##_of(v.y)}; }
#define FUNCTION_OF_TWO(NAME, ...) \
    DEVICE float NAME##_of(float a, float b) { return __VA_ARGS__; } \
    DEVICE two NAME(const two& a, const two& b) { return {NAME##_of(a.x, b.x), NAME##_of(a.y, b.y)}; }

// To the last digits of float32, which networks that amplify ask for.
constexpr bool FINE = EXACT && sizeof(number) == 4;
template <class> constexpr bool is_coarse = false;
template <> constexpr bool is_coarse<bfloat16> = true;

DEVICE float small_tanh(float v) {  // the first terms of its series
    const float square = v * v;
    return v * (1.0f + square * (-1.0f / 3.0f + square * (2.0f / 15.0f - square * (17.0f / 315.0f))));
}
DEVICE float exact_tanh(float v) {  // 1 − 2 / (e²ᵛ + 1), which loses digits near zero
    const float large = 1.0f - quotient(2.0f, exponential(2.0f * v) + 1.0f), small = small_tanh(v);
    return fabsf(v) < 0.1f ? small : large;
}
FUNCTION(exp, FINE ? expf(v) : exponential(v))
FUNCTION(sigmoid, FINE ? 1.0f / (1.0f + expf(-v)) : quotient(1.0f, 1.0f + exponential(-v)))
FUNCTION(tanh, FINE ? tanhf(v) : is_coarse<number> ? coarse_tanh(v) : exact_tanh(v))
FUNCTION(relu, v < 0.0f ? 0.0f : v)
FUNCTION(softplus, (v > 0.0f ? v : 0.0f) + log1pf(FINE ? expf(-fabsf(v)) : exponential(-fabsf(v))))
FUNCTION(sign, v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : v)
FUNCTION(absolute, fabsf(v))
FUNCTION(cos, cosf(v))
FUNCTION(sin, sinf(v))
FUNCTION(erf, erff(v))
FUNCTION(floor, floorf(v))
FUNCTION(log, logf(v))
FUNCTION(sqrt, sqrtf(v))
FUNCTION_OF_TWO(minimum, a < b || a != a ? a : b)
FUNCTION_OF_TWO(maximum, a > b || a != a ? a : b)
FUNCTION_OF_TWO(remainder, a - b * floorf(a / b))
FUNCTION_OF_TWO(power, powf(a, b))
DEVICE two clamp(const two& v, const two& low, const two& high) { return minimum(maximum(v, low), high); }

// -- memory -----------------------------------------------------------------------------------------------------------

// Two numbers as they lie in memory.
template <class kind>
struct alignas(2 * sizeof(kind)) Stored {
    kind low, high;
};
template <class kind>
DEVICE Stored<kind> load(const kind* at) {
    if (SINGLE) return {*at, *at};
    return *reinterpret_cast<const Stored<kind>*>(at);
}
template <class kind>
DEVICE two wide(const Stored<kind>& v) { return {wide(v.low), wide(v.high)}; }
// Store, in one piece, what others may wait for.
DEVICE void put_low(void* at, unsigned v) { *static_cast<unsigned short*>(at) = v; }
DEVICE void put_low(void* at, uint2 v) { *static_cast<unsigned*>(at) = v.x; }
template <class kind>
DEVICE void put(kind* at, const two& v) {
    if (SINGLE) put_low(at, narrow(v.x, v.x, kind()));
    else put_word(at, narrow(v.x, v.y, kind()));
}
