// What generated kernels stand on: vectors, elementwise mathematics, the kernel of all products, threads over batch rows.
// `real` is float or double (-DREAL=...). Axes: B batch rows, T steps, H units; rows of a batch row are H apart.
#pragma once
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <pthread.h>
#include <semaphore.h>
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
    else if (count == 1) v[0] = *from;  // without a call: a row of one unit is nothing else
    else std::memcpy(&v, from, count * sizeof(real));
    return v;
}
template <bool full>
static inline void store(real* to, vec v, int count) {
    if (full) std::memcpy(to, &v, sizeof v);
    else if (count == 1) *to = v[0];
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
// tile[m][n] = sum over k of rows[m][k] * panel[k][n]: M batch rows by N vectors of outputs, all sums in registers. Weights that
// are not packed are added to the tile; those of one input lie `line` after those of the one before, and `across` vectors of the tile
// are a row's.
//
// Every product sums over its inputs in their order, wherever its weights lie and however many rows it takes at once. So a batch
// row has the same bits beside any others, in one call or in several, which sessions of a server rely on.
template <int M, int N, bool packed>
static inline void multiply(const real* rows, long stride, long K, const real* panel, vec* tile, long line, int across) {
    vec sums[M][N] = {};
    if (packed) line = N * V, across = N;
    else
        for (int m = 0; m < M; ++m)
            for (int n = 0; n < N; ++n) sums[m][n] = tile[m * across + n];
    for (long k = 0; k < K; ++k, panel += line) {
        vec w[N];
        for (int n = 0; n < N; ++n) w[n] = packed ? *reinterpret_cast<const vec*>(panel + n * V) : load<true>(panel + n * V, V);
        for (int m = 0; m < M; ++m)
            for (int n = 0; n < N; ++n) sums[m][n] += w[n] * rows[m * stride + k];
    }
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) tile[m * across + n] = sums[m][n];
}
template <int M, int N, bool packed = true>
static inline void multiply_rows(
    int m, const real* rows, long stride, long K, const real* panel, vec* tile, long line = 0, int across = 0) {
    if constexpr (M > 0) {
        if (m == M) multiply<M, N, packed>(rows, stride, K, panel, tile, line, across);
        else multiply_rows<M - 1, N, packed>(m, rows, stride, K, panel, tile, line, across);
    }
}
template <int N>
constexpr int rows_at_once() { return REGISTERS / N > 8 ? 8 : REGISTERS / N > 0 ? REGISTERS / N : 1; }

// Weights of one output lie beside each other, and a product takes one input of V outputs: squares of V by V numbers are
// transposed in registers. Pairs of rows exchange halves, then quarters, and so on.
template <int part, int... j>
static inline void exchange(vec& a, vec& b, std::integer_sequence<int, j...>) {
#ifdef __clang__
    const vec first = __builtin_shufflevector(a, b, (j & part ? V + (j ^ part) : j)...);
    b = __builtin_shufflevector(a, b, (j & part ? V + j : j ^ part)...);
#else
    constexpr whole low = {(j & part ? V + (j ^ part) : j)...}, high = {(j & part ? V + j : j ^ part)...};
    const vec first = __builtin_shuffle(a, b, low);
    b = __builtin_shuffle(a, b, high);
#endif
    a = first;
}
template <int part>
static inline void transpose(vec* square) {
    if constexpr (part > 0) {
#pragma GCC unroll 16
        for (int i = 0; i < V; ++i)
            if (!(i & part)) exchange<part>(square[i], square[i | part], std::make_integer_sequence<int, V>());
        transpose<part / 2>(square);
    }
}
// Of V outputs `line` apart and V inputs: square[k] holds input k of each output.
typedef real half __attribute__((vector_size(VECTOR_BYTES / 2)));
template <int... j>
static inline vec join(const real* low, const real* high, std::integer_sequence<int, j...>) {
    half a, b;
    std::memcpy(&a, low, sizeof a), std::memcpy(&b, high, sizeof b);
    return __builtin_shufflevector(a, b, j...);
}
static inline void load_columns(const real* weights, long line, vec* square) {
#if defined(__clang__) || __GNUC__ >= 12  // halves are exchanged as they are loaded
#pragma GCC unroll 8
    for (int i = 0; i < V / 2; ++i) {
        const real *a = weights + i * line, *b = a + V / 2 * line;
        square[i] = join(a, b, std::make_integer_sequence<int, V>());
        square[i + V / 2] = join(a + V / 2, b + V / 2, std::make_integer_sequence<int, V>());
    }
    transpose<V / 4>(square);
#else
#pragma GCC unroll 16
    for (int i = 0; i < V; ++i) square[i] = load<true>(weights + i * line, V);
    transpose<V / 2>(square);
#endif
}
// tile[m][n] = sum over k of rows[m][k] * weights[n][output][k] for N times V outputs, without packed weights; K is whole vectors.
// Functions of their own: inlined, a square would take registers from the products around it. Of few rows each addition waits for
// the one before it, so two squares are on their way at once.
template <int M>
static __attribute__((noinline)) void multiply_square(int m, const real* rows, long stride, long K, const real* weights, long line, vec* tile, int across) {
    if constexpr (M > 0) {
        if (m < M) return multiply_square<M - 1>(m, rows, stride, K, weights, line, tile, across);
        vec sums[M] = {};
        for (long k = 0; k < K; k += V) {
            vec square[V];
            load_columns(weights + k, line, square);
#pragma GCC unroll 16
            for (int i = 0; i < V; ++i)
#pragma GCC unroll 8
                for (int r = 0; r < M; ++r) sums[r] += square[i] * rows[r * stride + k + i];
        }
        for (int r = 0; r < M; ++r) tile[r * across] = sums[r];
    }
}
template <int M>
static __attribute__((noinline)) void multiply_two(
    int m, const real* rows, long stride, long K, const real* weights, const real* others, long line, vec* tile, int across) {
    if constexpr (M > 0) {
        if (m < M) return multiply_two<M - 1>(m, rows, stride, K, weights, others, line, tile, across);
        vec sums[M] = {}, other_sums[M] = {};
        for (long k = 0; k < K; k += V) {
            vec square[V];
            load_columns(weights + k, line, square);
#pragma GCC unroll 16
            for (int i = 0; i < V; ++i)
#pragma GCC unroll 8
                for (int r = 0; r < M; ++r) sums[r] += square[i] * rows[r * stride + k + i];
            load_columns(others + k, line, square);
#pragma GCC unroll 16
            for (int i = 0; i < V; ++i)
#pragma GCC unroll 8
                for (int r = 0; r < M; ++r) other_sums[r] += square[i] * rows[r * stride + k + i];
        }
        for (int r = 0; r < M; ++r) tile[r * across] = sums[r], tile[r * across + 1] = other_sums[r];
    }
}
constexpr int COLUMN_ROWS = REGISTERS >= 28 ? 8 : 4;  // that share a square; the square takes V registers itself
// Of V outputs, or of twice as many where `others` is not null.
static inline void multiply_columns(
    int m, const real* rows, long stride, long K, const real* weights, const real* others, long line, vec* tile, int across) {
    for (; m > 0; m -= COLUMN_ROWS, rows += COLUMN_ROWS * stride, tile += COLUMN_ROWS * across) {
        const int taken = m < COLUMN_ROWS ? m : COLUMN_ROWS;
        if (others && taken <= 2) {
            multiply_two<2>(taken, rows, stride, K, weights, others, line, tile, across);
            continue;
        }
        multiply_square<COLUMN_ROWS>(taken, rows, stride, K, weights, line, tile, across);
        if (others) multiply_square<COLUMN_ROWS>(taken, rows, stride, K, others, line, tile + 1, across);
    }
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
// OpenMP's threads that wait for work spin for milliseconds, in regions of torch's own too. GCC's library gives that up at once while
// it has more threads than there are cores: so, beside busy processes, it is given some that sleep.
struct Sleepers {
    std::atomic<sem_t*> leave{nullptr};
    void come() {
        if (leave.load(std::memory_order_relaxed)) return;
        sem_t* const own = new sem_t;  // the thread's to delete: it may outlive what is static here
        sem_t* none = nullptr;
        pthread_t thread;
        sem_init(own, 0, 0);
        if (!leave.compare_exchange_strong(none, own)) return void(delete own);
        if (pthread_create(&thread, nullptr, sleep, own) == 0) {
            pthread_detach(thread);
        } else {
            leave.store(nullptr);
            delete own;
        }
    }
    void go() {
        if (!leave.load(std::memory_order_relaxed)) return;
        if (sem_t* const own = leave.exchange(nullptr)) sem_post(own);
    }
    static void* sleep(void* leave) {
#ifdef _OPENMP
#pragma omp parallel num_threads(omp_get_num_procs() + 1)
        { asm volatile("" ::: "memory"); }  // they stay, asleep, until this thread ends
#endif
        sem_t* const own = static_cast<sem_t*>(leave);
        while (sem_wait(own)) continue;  // a signal
        delete own;
        return nullptr;
    }
};
struct Crowd {
    static constexpr double SHORTEST = 0.02, LONGEST = 1.0;  // seconds
    Sleepers sleepers;
    std::atomic<double> until{0}, pause{SHORTEST};
    bool is_here(double now) const { return now < until.load(std::memory_order_relaxed); }
    // A region that took `wall` seconds, `lost` of them without a core.
    void learn(double now, double wall, double lost) {
        const double last = pause.load(std::memory_order_relaxed);
        if (lost < 0.2 * wall + 1e-4) {  // waking a thread takes part of that
            if (now - until.load(std::memory_order_relaxed) > LONGEST) sleepers.go();
            pause.store(SHORTEST, std::memory_order_relaxed);
        } else {
            sleepers.come();
            until.store(now + last, std::memory_order_relaxed);
            pause.store(last < LONGEST ? 2 * last : last, std::memory_order_relaxed);
        }
    }
};
inline Crowd crowd;  // one for all kernels of a process: GCC marks inline variables as unique, whichever library they are in
extern "C" int is_crowded() { return crowd.is_here(seconds(CLOCK_MONOTONIC)); }
extern "C" void learn(double now, double wall, double lost) { crowd.learn(now, wall, lost); }

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
