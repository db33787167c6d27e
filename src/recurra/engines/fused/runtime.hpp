// What generated kernels stand on: vectors, elementwise mathematics, the kernel of all products, threads over batch rows.
// `real` is float or double (-DREAL=...). Axes: B batch rows, T steps, H units; rows of a batch row are H apart.
#pragma once
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <time.h>
#include <utility>
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
// The same without packed weights, where too few rows would share the work of packing. `dots`: of one row with V rows of weights
// that lie `line` apart; each number is a sum over a vector, and V vectors are summed at once by halving pairs.
#ifdef __clang__
template <int half>
static inline void add_pairs(vec* sums) {
    if (half == V / 2)
        for (int i = 0; i < V; ++i) sums[0][i] = sum(vec(sums[i]), V);
}
#else
// Of each pair (i, i + half), in groups of 2 half numbers: the first halves of both beside each other, plus the second halves.
template <int half, int... j>
static inline vec add_pair(vec a, vec b, std::integer_sequence<int, j...>) {
    constexpr whole low = {(j & half ? V + (j & ~half) : j)...};
    constexpr whole high = {(j & half ? V + j : j | half)...};
    return __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);
}
template <int half>
static inline void add_pairs(vec* sums) {
    if constexpr (half > 0) {
#pragma GCC unroll 16
        for (int i = 0; i < half; ++i) sums[i] = add_pair<half>(sums[i], sums[i + half], std::make_integer_sequence<int, V>());
        add_pairs<half / 2>(sums);
    }
}
#endif
static inline vec dots(const real* row, long K, const real* weights, long line) {
    vec sums[V] = {};
    for (long k = 0; k < K; k += V) {
        const vec x = load<true>(row + k, V);
#pragma GCC unroll 16
        for (int i = 0; i < V; ++i) sums[i] += x * load<true>(weights + i * line + k, V);
    }
    add_pairs<V / 2>(sums);
    return sums[0];
}
// tile[n] += sum over k of row[k] * weights[k][n].
template <int N>
static inline void combine(const real* row, long K, const real* weights, long line, vec* tile) {
    for (long k = 0; k < K; ++k, weights += line)
        for (int n = 0; n < N; ++n) tile[n] += row[k] * load<true>(weights + n * V, V);
}
// Batch rows are cut into blocks of nearly equal size, so that none is left alone with its loads.
static inline long block_of(long batch, int most) {
    long blocks = (batch + most - 1) / most;
    return blocks ? (batch + blocks - 1) / blocks : 1;
}

// ---- threads -----------------------------------------------------------------------------------------------------
// Batch rows are independent, so each thread takes its share of them through all of time: no waiting within a step.
//
// Beside other busy processes several threads are slower than one: whichever loses its core is waited for, and waiting threads
// spin. Such a region shows itself: a thread was ready and had no core for a good part of it. Then one thread computes all
// shares for a while, before several are tried again; the pause doubles as long as that fails. Shares stay what they are, so
// sums are the same to the last bit, whoever computes them.
static inline double seconds(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}
struct Crowd {
    static constexpr double SHORTEST = 0.02, LONGEST = 1.0;  // seconds
    std::atomic<double> until{0}, pause{SHORTEST};
    bool is_here(double now) const { return now < until.load(std::memory_order_relaxed); }
    // A region that took `wall` seconds, `lost` of them without a core.
    void learn(double now, double wall, double lost) {
        const double last = pause.load(std::memory_order_relaxed);
        if (lost < 0.2 * wall + 1e-4)  // waking a thread takes part of that
            pause.store(SHORTEST, std::memory_order_relaxed);
        else {
            until.store(now + last, std::memory_order_relaxed);
            pause.store(last < LONGEST ? 2 * last : last, std::memory_order_relaxed);
        }
    }
};
static Crowd crowd;
extern "C" int is_crowded() { return crowd.is_here(seconds(CLOCK_MONOTONIC)); }

template <typename Body>
static inline void share_batch(long threads, long B, Body body) {
    const auto share = [&](long id) {
        if (id * B / threads < (id + 1) * B / threads) body(id, id * B / threads, (id + 1) * B / threads);
    };
#ifdef _OPENMP
    const double start = threads > 1 ? seconds(CLOCK_MONOTONIC) : 0;
    if (threads > 1 && !crowd.is_here(start)) {
        double lost = 0;
#pragma omp parallel num_threads(threads) reduction(max : lost)
        {
            const double before = seconds(CLOCK_THREAD_CPUTIME_ID);
            // the system may give fewer threads than were asked for; each share has a workspace of its own all the same
            for (long id = omp_get_thread_num(); id < threads; id += omp_get_num_threads()) share(id);
            lost = seconds(CLOCK_MONOTONIC) - start - (seconds(CLOCK_THREAD_CPUTIME_ID) - before);
        }
        const double end = seconds(CLOCK_MONOTONIC);
        crowd.learn(end, end - start, lost);
        return;
    }
#endif
    for (long id = 0; id < threads; ++id) share(id);
}
