// What generated kernels stand on: vectors, elementwise mathematics, the kernel of all products, threads over batch rows.
// `real` is float or double (-DREAL=...). Axes: B batch rows, T steps, H units; rows of a batch row are H apart.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#ifdef _OPENMP
#include <omp.h>
#endif

using real = REAL;

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64, REGISTERS = 28;  // of 32: the rest holds weights and a broadcast input
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32, REGISTERS = 12;
#else
constexpr int VECTOR_BYTES = 16, REGISTERS = 12;
#endif
constexpr int V = VECTOR_BYTES / sizeof(real);

typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
using mask = decltype(vec{} < vec{});
using whole = mask;  // integers of the same width
using integer = decltype(+mask{}[0]);

static inline vec all(real value) { return vec{} + value; }

// A vector of `count` units; only the last block of a row is not full.
template <bool full>
static inline vec load(const real* from, int count) {
    vec v = {};
    if (full) std::memcpy(&v, from, sizeof v);
    else std::memcpy(&v, from, count * sizeof(real));
    return v;
}
template <bool full>
static inline void store(real* to, vec v, int count) {
    if (full) std::memcpy(to, &v, sizeof v);
    else std::memcpy(to, &v, count * sizeof(real));
}
template <bool full>
static inline void add(real* to, vec v, int count) { store<full>(to, load<full>(to, count) + v, count); }
static inline real sum(vec v, int count) {
    real total = 0;
    for (int i = 0; i < count; ++i) total += v[i];
    return total;
}

// ---- elementwise mathematics -------------------------------------------------------------------------------------
static inline vec select(mask which, vec a, vec b) { return which ? a : b; }
static inline vec minimum(vec a, vec b) { return (a < b) | (a != a) ? a : b; }
static inline vec maximum(vec a, vec b) { return (a > b) | (a != a) ? a : b; }
static inline vec clamp(vec v, vec low, vec high) { return v < low ? low : (v > high ? high : v); }
static inline vec relu(vec v) { return v < 0 ? vec{} : v; }
static inline vec absolute(vec v) { return v < 0 ? -v : v; }
static inline vec sign(vec v) { return select(v > 0, all(1), select(v < 0, all(-1), vec{})); }

constexpr bool SINGLE = sizeof(real) == 4;
constexpr int MANTISSA = SINGLE ? 23 : 52;
constexpr integer BIAS = SINGLE ? 127 : 1023;
static inline vec power_of_two(whole n) {
    whole bits = (n + BIAS) << MANTISSA;
    vec result;
    std::memcpy(&result, &bits, sizeof result);
    return result;
}

// exp(x) - 1 = 2^n (e^r - 1) + (2^n - 1) with |r| <= ln 2 / 2 and the Taylor series of e^r - 1: no cancellation near 0.
struct Reduced { vec p; whole n; };
static inline Reduced reduce(vec x) {
    const real magic = SINGLE ? real(12582912.0) : real(6755399441055744.0);  // 1.5 * 2^mantissa: adding it rounds
    vec n = (x * real(1.4426950408889634) + magic) - magic;
    vec r = x - n * (SINGLE ? real(0.693359375) : real(0.693145751953125));
    r = r - n * (SINGLE ? real(-2.12194440054690581e-4) : real(1.42860682030941723e-6));
    vec p = all(real(SINGLE ? 1.0 / 5040 : 1.0 / 6227020800.0));
    if (!SINGLE) {
        for (double c : {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040})
            p = p * r + real(c);
    }
    for (double c : {1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5}) p = p * r + real(c);
    return {r + r * r * p, __builtin_convertvector(n, whole)};
}
static inline vec exp(vec x) {
    x = clamp(x, all(SINGLE ? -104 : -746), all(SINGLE ? real(89) : real(710)));
    Reduced e = reduce(x);
    whole half = e.n >> 1;  // two factors: 2^n alone overflows before exp does
    return (e.p + 1) * power_of_two(half) * power_of_two(e.n - half);
}
static inline vec sigmoid(vec x) {
    Reduced e = reduce(clamp(-x, all(SINGLE ? -87 : -708), all(SINGLE ? 87 : 708)));  // 2^n is one factor within this range
    vec s = power_of_two(e.n);
    return 1 / (1 + (e.p * s + s));
}
static inline vec tanh(vec x) {
    Reduced e = reduce(2 * clamp(x, all(-20), all(20)));  // 1 - tanh(20) is below rounding
    vec s = power_of_two(e.n), t = e.p * s + (s - 1);
    return t / (t + 2);
}
#define BY_UNIT(name, expression)                 \
    static inline vec name(vec v) {               \
        vec y;                                    \
        for (int i = 0; i < V; ++i) {             \
            const real x = v[i];                  \
            y[i] = expression;                    \
        }                                         \
        return y;                                 \
    }
BY_UNIT(log, std::log(x))
BY_UNIT(log1p, std::log1p(x))
BY_UNIT(sqrt, std::sqrt(x))
BY_UNIT(floor, std::floor(x))
BY_UNIT(sin, std::sin(x))
BY_UNIT(cos, std::cos(x))
BY_UNIT(erf, std::erf(x))
static inline vec softplus(vec v) { return maximum(v, vec{}) + log1p(exp(-absolute(v))); }
static inline vec power(vec a, vec b) {
    vec y;
    for (int i = 0; i < V; ++i) y[i] = std::pow(a[i], b[i]);
    return y;
}
static inline vec remainder(vec a, vec b) {  // the sign of b, as in Python and torch
    vec y;
    for (int i = 0; i < V; ++i) {
        real r = std::fmod(a[i], b[i]);
        y[i] = r != 0 && (r < 0) != (b[i] < 0) ? r + b[i] : r;
    }
    return y;
}

// ---- products ----------------------------------------------------------------------------------------------------
// tile[m][n] = sum over k of rows[m][k] * panel[k][n]: M batch rows by N vectors of outputs, all sums in registers.
template <int M, int N>
static inline void multiply(const real* rows, long stride, long K, const real* panel, vec* tile) {
    vec sums[M][N] = {};
    for (long k = 0; k < K; ++k, panel += N * V) {
        vec w[N];
        for (int n = 0; n < N; ++n) w[n] = *reinterpret_cast<const vec*>(panel + n * V);
        for (int m = 0; m < M; ++m)
            for (int n = 0; n < N; ++n) sums[m][n] += w[n] * rows[m * stride + k];
    }
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) tile[m * N + n] = sums[m][n];
}
template <int M, int N>
static inline void multiply_rows(int m, const real* rows, long stride, long K, const real* panel, vec* tile) {
    if constexpr (M > 0) {
        if (m == M) multiply<M, N>(rows, stride, K, panel, tile);
        else multiply_rows<M - 1, N>(m, rows, stride, K, panel, tile);
    }
}
template <int N>
constexpr int rows_at_once() { return REGISTERS / N > 8 ? 8 : REGISTERS / N > 0 ? REGISTERS / N : 1; }
// Batch rows are cut into blocks of nearly equal size, so that none is left alone with its loads.
static inline long block_of(long batch, int most) {
    long blocks = (batch + most - 1) / most;
    return blocks ? (batch + blocks - 1) / blocks : 1;
}

// ---- threads -----------------------------------------------------------------------------------------------------
// Batch rows are independent, so each thread takes its share of them through all of time: no waiting within a step.
template <typename Body>
static inline void share_batch(long threads, long B, Body body) {
#ifdef _OPENMP
    if (threads > 1) {
#pragma omp parallel num_threads(threads)
        {
            // the system may give fewer threads than were asked for; each share has a workspace of its own all the same
            for (long id = omp_get_thread_num(); id < threads; id += omp_get_num_threads())
                if (id * B / threads < (id + 1) * B / threads) body(id, id * B / threads, (id + 1) * B / threads);
        }
        return;
    }
#endif
    body(0, 0, B);
}
