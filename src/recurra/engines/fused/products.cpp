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

// The rows of a [T, B, ...] tensor, numbered by step and then by lane, wherever they lie in memory.
struct Rows {
    real* at;
    long step, lane, B;
    real* operator()(long r) const { return at + r / B * step + r % B * lane; }
    bool regular() const { return step == B * lane; }  // then row r + 1 follows row r at the distance `lane`
};

// out[r][o] = sum over k of rows[r][k] * weights[o][k], weights packed by pack_matrix. Threads share the lanes, as they do in
// the recurrence, so that what a thread writes here is in its own cache there.
extern "C" void multiply_rows(real* from, long from_step, long from_lane, real* to, long to_step, long to_lane, long B, long R,
                              long K, const real* packed, long outputs, long threads) {
    constexpr long CHUNK = 8 * M;  // rows that stay in the cache while all weights pass by
    const bool by_lane = B >= threads;
    share_lanes(threads, by_lane ? B : R, [&](long, long first, long last) {
        const long own = by_lane ? last - first : B, skipped = by_lane ? first : 0;
        const Rows rows{from + skipped * from_lane, from_step, from_lane, own}, out{to + skipped * to_lane, to_step, to_lane, own};
        if (by_lane) last = R / B * own, first = 0;
        const bool regular = rows.regular();
        const long width = regular ? rows.lane : K + 16;  // copies lie a line apart: rows a power of two apart share cache sets
        real* copy = regular ? nullptr : static_cast<real*>(std::malloc(CHUNK * width * sizeof(real)));
        for (long begin = first; begin < last; begin += CHUNK) {
            const long end = begin + CHUNK < last ? begin + CHUNK : last;
            if (!regular)
                for (long r = begin; r < end; ++r) std::memcpy(copy + (r - begin) * width, rows(r), K * sizeof(real));
            const real* chunk = regular ? rows(begin) : copy;
            for (long o = 0; o < outputs; o += WIDTH) {
                for (long r = begin; r < end; r += M) {
                    const int m = int(r + M < end ? M : end - r);
                    vec tile[M * N];
                    multiply_lanes<M, N>(m, chunk + (r - begin) * width, width, K, packed + o * K, tile);
                    for (int i = 0; i < m; ++i) put(out(r + i) + o, tile + i * N, outputs - o, false);
                }
            }
        }
        std::free(copy);
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

// out[thread][a][c] = sum over the thread's lanes r of left[r][a] * right[r][c]: each thread gathers what it computed itself.
extern "C" void multiply_transposed(real* left_at, long left_step, long left_lane, long A, real* right_at, long right_step,
                                    long right_lane, long C, long T, long B, real* out, long threads) {
    constexpr int ROWS = REGISTERS >= 28 ? 8 : M;
    const long most = 65536 / (A + 1) / 8 * 8, chunk = most < 32 ? 32 : most > 256 ? 256 : most;  // panels stay in the cache
    const long panel = chunk * ROWS + 16;  // a line more: panels a power of two apart share cache sets
    share_lanes(threads, B, [&](long thread, long first, long last) {
        const long own = last - first, R = T * own;
        const Rows left{left_at + first * left_lane, left_step, left_lane, own};
        const Rows right{right_at + first * right_lane, right_step, right_lane, own};
        const long blocks = (C + WIDTH - 1) / WIDTH, panels = (A + ROWS - 1) / ROWS;
        real* packed_left = static_cast<real*>(std::calloc(panels * panel, sizeof(real)));
        real* packed_right = static_cast<real*>(std::aligned_alloc(64, blocks * chunk * WIDTH * sizeof(real)));
        std::memset(packed_right, 0, blocks * chunk * WIDTH * sizeof(real));
        real* total = out + thread * A * C;
        for (long r = 0; r < R; r += chunk) {
            const long K = r + chunk < R ? chunk : R - r;
            for (long k = 0; k < K; ++k) {
                const real *row = right(r + k), *column = left(r + k);
                for (long b = 0; b < blocks; ++b) {
                    const long columns = C - b * WIDTH < WIDTH ? C - b * WIDTH : WIDTH;
                    real* to = packed_right + (b * chunk + k) * WIDTH;
                    if (columns == WIDTH) std::memcpy(to, row + b * WIDTH, WIDTH * sizeof(real));
                    else std::memcpy(to, row + b * WIDTH, columns * sizeof(real));
                }
                real* to = packed_left + k * ROWS;
                long a = 0;
                for (; a + ROWS <= A; a += ROWS, to += panel) std::memcpy(to, column + a, ROWS * sizeof(real));
                if (a < A) std::memcpy(to, column + a, (A - a) * sizeof(real));
            }
            for (long p = 0; p < panels; ++p) {
                const long a = p * ROWS;
                const int m = int(A - a < ROWS ? A - a : ROWS);
                for (long b = 0; b < blocks; ++b) {
                    vec tile[ROWS * N];
                    gather<ROWS>(packed_left + p * panel, packed_right + b * chunk * WIDTH, K, tile);
                    for (int i = 0; i < m; ++i) put(total + (a + i) * C + b * WIDTH, tile + i * N, C - b * WIDTH, r > 0);
                }
            }
        }
        std::free(packed_left);
        std::free(packed_right);
    });
}
