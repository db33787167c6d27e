// What generated kernels of a linear recurrence call: all chunks of time side by side, and the states at the borders between
// them from the affine map of each chunk.
//
// Before this file stand NUMBER, PARAMETER and SINGLE (`values.cuh`), H and WARPS.

constexpr int THREADS = 32 * WARPS;
constexpr int RESIDENT = THREADS > 512 ? 1 : 640 / THREADS;  // thread blocks of a multiprocessor, at least
constexpr int NEIGHBOURS = SINGLE ? 1 : 2, PAIRS = H / NEIGHBOURS;
constexpr bool EXACT = true, KEPT = false;  // of products, which there are none of

#include <values.cuh>

// A thread has a pair of units of one batch row for one chunk of time: units are next to each other, then rows, then chunks.
DEVICE whole own_index() { return whole(blockIdx.x) * THREADS + threadIdx.x; }

// The states of a unit after a chunk, of N, as a function of those before it.
template <int N>
struct Map {
    float by[N][N], plus[N];

    DEVICE static Map none() {
        Map map;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            map.plus[i] = 0.0f;
#pragma unroll
            for (int j = 0; j < N; ++j) map.by[i][j] = i == j ? 1.0f : 0.0f;
        }
        return map;
    }
    // That of chunk number `chunk`, where it lies as [C, N, N, count] and [C, N, count]. Backward the matrix is transposed.
    template <bool BACKWARD>
    DEVICE void read(const float* matrix, const float* offset, whole chunk, whole count, whole element) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            plus[i] = offset[(chunk * N + i) * count + element];
#pragma unroll
            for (int j = 0; j < N; ++j) by[i][j] = matrix[((chunk * N + (BACKWARD ? j : i)) * N + (BACKWARD ? i : j)) * count + element];
        }
    }
    DEVICE void apply(float (&state)[N]) const {
        float next[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
            next[i] = plus[i];
#pragma unroll
            for (int j = 0; j < N; ++j) next[i] += by[i][j] * state[j];
        }
#pragma unroll
        for (int i = 0; i < N; ++i) state[i] = next[i];
    }
    // This map after an earlier one.
    DEVICE void follow(Map& earlier) const {
        Map made;
#pragma unroll
        for (int i = 0; i < N; ++i)
#pragma unroll
            for (int j = 0; j < N; ++j) {
                made.by[i][j] = 0.0f;
#pragma unroll
                for (int k = 0; k < N; ++k) made.by[i][j] += by[i][k] * earlier.by[k][j];
            }
        apply(earlier.plus);
#pragma unroll
        for (int i = 0; i < N; ++i)
#pragma unroll
            for (int j = 0; j < N; ++j) earlier.by[i][j] = made.by[i][j];
    }
};

// The states before each of C chunks (BACKWARD: what arrives at the end of each, from the last to the first), for each of
// `count` units of all rows by itself, from those before the first. A warp puts the maps of its share of chunks together; what
// comes out of the shares before its own is where its second walk starts.
template <int N, bool BACKWARD>
DEVICE void put_together(whole C, whole count, const float* matrix, const float* offset, float* borders, float (&state)[N]) {
    constexpr int AHEAD = N == 1 ? 8 : N == 2 ? 4 : 1, ROWS = N * (N + 1);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const whole element = whole(blockIdx.x) * 32 + lane;
    const bool here = element < count;
    const whole share = (C + WARPS - 1) / WARPS, begin = warp * share, end = here ? min(begin + share, C) : begin;
    const auto chunk = [&](whole k) { return BACKWARD ? C - 1 - k : k; };
    Map<N> total = Map<N>::none(), ahead[AHEAD];
    for (whole first = begin; first < end; first += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; ++k)
            ahead[k].template read<BACKWARD>(matrix, offset, chunk(min(first + k, end - 1)), count, element);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k)
            if (first + k < end) ahead[k].follow(total);
    }
    float* const memory = shared_memory() + lane;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        memory[(warp * ROWS + i) * 32] = total.plus[i];
#pragma unroll
        for (int j = 0; j < N; ++j) memory[(warp * ROWS + N + i * N + j) * 32] = total.by[i][j];
    }
    sync();
    for (int before = 0; before < warp; ++before) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            total.plus[i] = memory[(before * ROWS + i) * 32];
#pragma unroll
            for (int j = 0; j < N; ++j) total.by[i][j] = memory[(before * ROWS + N + i * N + j) * 32];
        }
        total.apply(state);
    }
    for (whole first = begin; first < end; first += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; ++k)
            ahead[k].template read<BACKWARD>(matrix, offset, chunk(min(first + k, end - 1)), count, element);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k)
            if (first + k < end) {
#pragma unroll
                for (int i = 0; i < N; ++i) borders[(chunk(first + k) * N + i) * count + element] = state[i];
                ahead[k].apply(state);
            }
    }
}
