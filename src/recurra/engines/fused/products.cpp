// The large products over all of time, around the recurrence: drives before it, gradients of inputs and weights after it.
// Built on the same kernel as the recurrent products, which keeps all sums in registers.
#include <cstdlib>
#include "runtime.hpp"

constexpr int N = PANEL;
constexpr int M = lanes_at_once<N>();
constexpr long WIDTH = N * V;

extern "C" long panel_width() { return WIDTH; }

extern "C" void pack_matrix(const real* from, long unit, long input, long outputs, long K, real* to) {
    pack(from, 0, unit, input, 1, N, outputs, K, to);
}

// The rows of a [T, B, ...] tensor in any order in memory: `inner` of them `step` apart, `outer` times, `jump` apart.
struct Rows {
    real* at;
    long step, jump;
    real* row(long outer, long inner) const { return at + outer * jump + inner * step; }
};

// out[r][o] = sum over k of rows[r][k] * weights[o][k], weights packed by pack_matrix. Threads share the rows.
extern "C" void multiply_rows(real* from, long from_step, long from_jump, real* to, long to_step, long to_jump, long inner,
                              long outer, long K, const real* packed, long outputs, long threads) {
    const Rows rows{from, from_step, from_jump}, out{to, to_step, to_jump};
    constexpr long CHUNK = 8 * M;  // rows that stay in the cache while all weights pass by
    const long chunks = (inner + CHUNK - 1) / CHUNK;
    share_lanes(threads, outer * chunks, [&](long, long first, long last) {
        for (long chunk = first; chunk < last; ++chunk) {
            const long side = chunk / chunks, begin = chunk % chunks * CHUNK, end = begin + CHUNK < inner ? begin + CHUNK : inner;
            for (long o = 0; o < outputs; o += WIDTH) {
                for (long r = begin; r < end; r += M) {
                    const int m = int(r + M < end ? M : end - r);
                    vec tile[M * N];
                    multiply_lanes<M, N>(m, rows.row(side, r), rows.step, K, packed + o * K, tile);
                    for (int i = 0; i < m; ++i) put(out.row(side, r + i) + o, tile + i * N, outputs - o, false);
                }
            }
        }
    });
}

// tile[m][n] = sum over k of left[k][m] * right[k][n], both in panels: the product that gathers gradients of weights.
template <int ROWS>
static inline void gather(const real* left, const real* right, long K, vec* tile) {
    vec sums[ROWS][N] = {};
    for (long k = 0; k < K; ++k, left += ROWS, right += WIDTH) {
        vec w[N];
        for (int n = 0; n < N; ++n) w[n] = *reinterpret_cast<const vec*>(right + n * V);
        for (int m = 0; m < ROWS; ++m)
            for (int n = 0; n < N; ++n) sums[m][n] += w[n] * left[m];
    }
    for (int m = 0; m < ROWS; ++m)
        for (int n = 0; n < N; ++n) tile[m * N + n] = sums[m][n];
}

// out[a][b] = sum over r of left[r][a] * right[r][b]: threads share the rows of out, each passes over all r in chunks.
extern "C" void multiply_transposed(real* left_at, long left_step, long left_jump, long A, real* right_at, long right_step,
                                    long right_jump, long C, long inner, long outer, real* out, long threads) {
    constexpr int ROWS = REGISTERS >= 28 ? 8 : M;
    const Rows left{left_at, left_step, left_jump}, right{right_at, right_step, right_jump};
    share_lanes(threads, (A + ROWS - 1) / ROWS, [&](long, long first, long last) {
        constexpr long CHUNK = 256;
        const long blocks = (C + WIDTH - 1) / WIDTH;
        real* packed_left = static_cast<real*>(std::aligned_alloc(64, (CHUNK * ROWS * sizeof(real) + 63) / 64 * 64));
        real* packed_right = static_cast<real*>(std::aligned_alloc(64, blocks * CHUNK * WIDTH * sizeof(real)));
        bool begun = false;
        for (long side = 0; side < outer; ++side) {
            for (long r = 0; r < inner; r += CHUNK, begun = true) {
                const long K = r + CHUNK < inner ? CHUNK : inner - r;
                for (long b = 0; b < blocks; ++b) {
                    const long columns = C - b * WIDTH < WIDTH ? C - b * WIDTH : WIDTH;
                    for (long k = 0; k < K; ++k) {
                        real* to = packed_right + (b * CHUNK + k) * WIDTH;
                        std::memcpy(to, right.row(side, r + k) + b * WIDTH, columns * sizeof(real));
                        std::memset(to + columns, 0, (WIDTH - columns) * sizeof(real));
                    }
                }
                for (long block = first; block < last; ++block) {
                    const long a = block * ROWS;
                    const int m = int(A - a < ROWS ? A - a : ROWS);
                    for (long k = 0; k < K; ++k) {
                        const real* from = left.row(side, r + k) + a;
                        if (m == ROWS) std::memcpy(packed_left + k * ROWS, from, ROWS * sizeof(real));
                        else
                            for (int i = 0; i < ROWS; ++i) packed_left[k * ROWS + i] = i < m ? from[i] : 0;
                    }
                    for (long b = 0; b < blocks; ++b) {
                        vec tile[ROWS * N];
                        gather<ROWS>(packed_left, packed_right + b * CHUNK * WIDTH, K, tile);
                        for (int i = 0; i < m; ++i) put(out + (a + i) * C + b * WIDTH, tile + i * N, C - b * WIDTH, begun);
                    }
                }
            }
        }
        std::free(packed_left);
        std::free(packed_right);
    });
}
