// Products with weights: those of a step on packed weights, and the large ones over all of time around the recurrence: drives
// before it, gradients of inputs and weights after it. All on one kernel, which keeps its sums in registers.
#pragma once
#include <algorithm>
#include <cstdlib>
#include "runtime.hpp"

constexpr long round_up(long n, long to) { return (n + to - 1) / to * to; }

// How many threads, of at most `most`, share a number of multiplications that can be cut into `parts`. A further one is woken
// for half a million.
static inline long threads_for(long most, double work, long parts) {
    return std::max(1L, std::min({most, parts, long(std::min(work / 500000, 1e6))}));
}

// Memory of a thread, kept from call to call: fresh pages from the system cost as much as small products.
static inline real* scratch(long numbers) {
    struct Kept {
        real* at = nullptr;
        long size = 0;
        ~Kept() { std::free(at); }
    };
    thread_local Kept kept;
    if (kept.size < numbers) {
        std::free(kept.at);
        kept.size = round_up(numbers, 16);
        kept.at = static_cast<real*>(std::aligned_alloc(64, kept.size * sizeof(real)));
    }
    return kept.at;
}

// Parts of a piece of memory, each at a whole vector.
struct Parts {
    real* memory;
    long size = 0;
    real* take(long numbers) {
        real* const at = memory + size;
        size += round_up(numbers, 16);
        return at;
    }
};

// ---- packed weights ----------------------------------------------------------------------------------------------
// Panels of `width` units: unit u and input k, found at from[u * unit + k * input], goes to
// to[u / width * panel + k * line + u % width]. Units past H are zero.
static inline void pack(const real* from, long unit, long input, long H, long K, real* to, long width, long line, long panel) {
    for (long first = 0; first < H; first += width, to += panel) {
        const long units = first + width <= H ? width : H - first;
        const real* corner = from + first * unit;
        if (units < width)
            for (long k = 0; k < K; ++k) std::memset(to + k * line + units, 0, (width - units) * sizeof(real));
        if (unit == 1) {
            for (long k = 0; k < K; ++k) std::memcpy(to + k * line, corner + k * input, units * sizeof(real));
            continue;
        }
        for (long k0 = 0; k0 < K; k0 += V) {
            const long ks = K - k0 < V ? K - k0 : V;
            long u = 0;
            for (; input == 1 && ks == V && u + V <= units; u += V) {
                vec square[V];
                load_columns(corner + u * unit + k0, unit, square);
#pragma GCC unroll 16
                for (int k = 0; k < V; ++k) store<true>(to + (k0 + k) * line + u, square[k], V);
            }
            for (; u < units; ++u) {
                const real* row = corner + u * unit + k0 * input;
                real* column = to + k0 * line + u;
                for (long k = 0; k < ks; ++k) column[k * line] = row[k * input];
            }
        }
    }
}

// Of the matrices of U ([.., H], rows `row` apart) those that are multiplied together, for a pass that takes Q vectors at once:
// forward by output units, so that the products of one unit with all of them lie together; backward by input units.
using Matrices = std::initializer_list<long>;
static inline long packed_size(long matrices, long Q, long H) { return round_up(H, Q * V) * H * matrices; }
static inline void pack_forward(const real* U, long row, Matrices matrices, long Q, long H, real* to) {
    const long width = Q * V, line = long(matrices.size()) * width;
    for (long m : matrices) pack(U + m * H * row, row, 1, H, H, to, width, line, H * line), to += width;
}
static inline void pack_backward(const real* U, long row, Matrices matrices, long Q, long H, real* to) {
    const long width = Q * V, panel = long(matrices.size()) * H * width;
    for (long m : matrices) pack(U + m * H * row, 1, row, H, H, to, width, width, panel), to += H * width;
}

// The products of a pass on weights as they lie in U: m batch rows with Q vectors of units of each matrix, and transposed, where
// an argument has a block of H numbers for each matrix. H is whole vectors.
template <int Q>
static inline void multiply_direct(
    int m, const real* rows, long stride, const real* U, long row, Matrices matrices, long H, long first_unit, vec* tile) {
    const int across = int(matrices.size()) * Q;
    const auto weights = [&](int n) -> const real* {
        const long u = first_unit + n % Q * V;
        return n < across ? U + (matrices.begin()[n / Q] * H + (u < H ? u : 0)) * row : nullptr;  // past H nobody reads the tile
    };
    for (int n = 0; n < across; n += 2) multiply_columns(m, rows, stride, H, weights(n), weights(n + 1), row, tile + n, across);
}
template <int M, int Q>
static inline void combine_direct(
    int m, const real* rows, long stride, const real* U, long row, Matrices matrices, long H, long first_unit, vec* tile) {
    for (int i = 0; i < m * Q; ++i) tile[i] = vec{};
    for (long matrix : matrices) {
        const real* from = U + matrix * H * row + first_unit;
        if (first_unit + Q * V <= H) multiply_rows<M, Q, false>(m, rows, stride, H, from, tile, row, Q);
        else
            for (int q = 0; first_unit + q * V < H; ++q)
                multiply_rows<M, 1, false>(m, rows, stride, H, from + q * V, tile + q, row, Q);
        rows += H;
    }
}

// ---- over all of time --------------------------------------------------------------------------------------------
constexpr int PANEL = 4;  // vectors of outputs at once
constexpr long WIDTH = PANEL * V;

static inline void put(real* to, const vec* tile, long columns, bool adds) {
    for (int n = 0; n < PANEL; ++n, to += V, columns -= V) {
        if (columns >= V) adds ? add<true>(to, tile[n], V) : store<true>(to, tile[n], V);
        else if (columns > 0) adds ? add<false>(to, tile[n], int(columns)) : store<false>(to, tile[n], int(columns));
    }
}

// Where the numbers of each step and batch row lie, as a caller says it: two distances.
struct Rows {
    real* at;
    long step, row;
};
// The same with their number: T steps of B batch rows, numbered by step and then by batch row.
struct Block {
    Rows rows;
    long T, B;
    Block batch(long first, long last) const { return {{rows.at + first * rows.row, rows.step, rows.row}, T, last - first}; }
    bool regular() const { return T == 1 || B == 1 || rows.step == B * rows.row; }
    long distance() const { return B > 1 ? rows.row : rows.step; }  // from each row to the next, if they are regular
};
// Row after row from row r on: without the division that finding each by its number takes.
struct Cursor {
    const Block& block;
    real* step;
    long b;
    Cursor(const Block& block, long r) : block(block), step(block.rows.at + r / block.B * block.rows.step), b(r % block.B) {}
    real* next() {
        real* const row = step + b * block.rows.row;
        if (++b == block.B) b = 0, step += block.rows.step;
        return row;
    }
};

// Rows one after the other; zeros where there are none.
static inline void copy_rows(const Block& from, long K, real* to) {
    if (!from.rows.at) return void(std::memset(to, 0, from.T * from.B * K * sizeof(real)));
    Cursor rows(from, 0);
    for (long r = 0; r < from.T * from.B; ++r) std::memcpy(to + r * K, rows.next(), K * sizeof(real));
}
// Of the K + T values of each batch row the last K before its end.
static inline void copy_last(const real* values, long K, long T, long B, long H, const long* lengths, real* to) {
    if (!lengths) {
        std::memcpy(to, values + T * B * H, K * B * H * sizeof(real));
        return;
    }
    for (long k = 0; k < K; ++k)
        for (long b = 0; b < B; ++b, to += H) std::memcpy(to, values + ((lengths[b] + k) * B + b) * H, H * sizeof(real));
}
// What further threads summed is added to what the first one did: A numbers in each of their parts.
static inline void add_parts(real* to, long A, const real* parts, long distance, long count) {
    for (long k = 0; k < count; ++k, parts += distance)
        for (long i = 0; i < A; ++i) to[i] += parts[i];
}

static inline long packed_size(long outputs, long K) { return round_up(outputs, WIDTH) * K; }
static inline void pack_outputs(const real* from, long unit, long input, long outputs, long K, real* to) {
    pack(from, unit, input, outputs, K, to, WIDTH, WIDTH, K * WIDTH);
}

// out[r][o] = sum over k of from[r][k] * weights[o][k] for the rows first to last, weights packed by pack_outputs.
static inline void times(const Block& from, long K, const real* packed, const Block& to, long outputs, long first, long last) {
    constexpr int M = rows_at_once<PANEL>();
    constexpr long CHUNK = 8 * M;  // rows that stay in the cache while all weights pass by
    const bool regular = from.regular();
    const long width = regular ? from.distance() : K + 16;  // copies lie a line apart: rows a power of two apart share cache sets
    real* copy = regular ? nullptr : scratch(CHUNK * width);
    for (long begin = first; begin < last; begin += CHUNK) {
        const long end = begin + CHUNK < last ? begin + CHUNK : last;
        Cursor in(from, begin);
        const real* chunk = regular ? in.next() : copy;
        if (!regular)
            for (long r = begin; r < end; ++r) std::memcpy(copy + (r - begin) * width, in.next(), K * sizeof(real));
        for (long o = 0; o < outputs; o += WIDTH) {
            Cursor out(to, begin);
            for (long r = begin; r < end; r += M) {
                const int m = int(r + M < end ? M : end - r);
                vec tile[M * PANEL];
                multiply_rows<M, PANEL>(m, chunk + (r - begin) * width, width, K, packed + o * K, tile);
                for (int i = 0; i < m; ++i) put(out.next() + o, tile + i * PANEL, outputs - o, false);
            }
        }
    }
}
static inline void times(const Block& from, long K, const real* packed, const Block& to, long outputs) {
    times(from, K, packed, to, outputs, 0, from.T * from.B);
}
// Rows that lie at one distance from each other: all of them, or else those of one step after the other.
template <typename Body>
static inline void by_regular_rows(const Block& from, const Block& to, Body body) {
    const long blocks = from.regular() && to.regular() ? 1 : from.T, rows = from.T * from.B / blocks;
    for (long t = 0; t < blocks; ++t) {
        const long distance = blocks == 1 ? from.distance() : from.rows.row, to_next = blocks == 1 ? to.distance() : to.rows.row;
        body(from.rows.at + t * from.rows.step, distance, to.rows.at + t * to.rows.step, to_next, rows);
    }
}
// The same on weights as they lie: `outputs` and K are whole vectors.
static inline void times_direct(const Block& from, long K, const real* W, long line, const Block& to, long outputs) {
    by_regular_rows(from, to, [&](const real* in, long distance, real* out, long to_next, long rows) {
        const long block = block_of(rows, COLUMN_ROWS);
        for (long o = 0; o < outputs; o += 2 * V)
            for (long r = 0; r < rows; r += block) {
                const int m = int(std::min(block, rows - r));
                const bool two = o + V < outputs;
                const real* const first = W + o * line;
                vec tile[COLUMN_ROWS * 2];
                multiply_columns(m, in + r * distance, distance, K, first, two ? first + V * line : nullptr, line, tile, 2);
                for (int i = 0; i < m; ++i)
                    for (int n = 0; n <= two; ++n) store<true>(out + (r + i) * to_next + o + n * V, tile[i * 2 + n], V);
            }
    });
}
// out[r][o] = sum over k of from[r][k] * W[k][o].
static inline void times_transposed(const Block& from, long K, const real* W, long line, const Block& to, long outputs) {
    constexpr int M = rows_at_once<PANEL>();
    by_regular_rows(from, to, [&](const real* in, long distance, real* out, long to_next, long rows) {
        const long block = block_of(rows, M);
        for (long o = 0; o < outputs; o += WIDTH)
            for (long r = 0; r < rows; r += block) {
                const int m = int(std::min(block, rows - r));
                const real* from = in + r * distance;
                vec tile[M * PANEL] = {};
                if (o + WIDTH <= outputs) multiply_rows<M, PANEL, false>(m, from, distance, K, W + o, tile, line, PANEL);
                else
                    for (int n = 0; o + n * V < outputs; ++n)
                        multiply_rows<M, 1, false>(m, from, distance, K, W + o + n * V, tile + n, line, PANEL);
                for (int i = 0; i < m; ++i) put(out + (r + i) * to_next + o, tile + i * PANEL, outputs - o, false);
            }
    });
}
// The same for all rows, by threads that share them step by step: where there are fewer batch rows than threads.
static inline void times_by_rows(const Block& from, long K, const real* packed, const Block& to, long outputs, long most) {
    const long R = from.T * from.B;
    share_batch(threads_for(most, double(R) * K * outputs, R), R, [&](long, long first, long last) {
        times(from, K, packed, to, outputs, first, last);
    });
}

// tile[m][n] = sum over k of left[k][m] * right[k][n], both in panels.
template <int ROWS>
static inline void gather_tile(const real* left, const real* right, long K, vec* tile) {
    vec sums[ROWS][PANEL] = {};
    for (long k = 0; k < K; ++k, left += ROWS, right += WIDTH) {
        vec w[PANEL];
        for (int n = 0; n < PANEL; ++n) w[n] = *reinterpret_cast<const vec*>(right + n * V);
        for (int m = 0; m < ROWS; ++m)
            for (int n = 0; n < PANEL; ++n) sums[m][n] += w[n] * left[m];
    }
    for (int m = 0; m < ROWS; ++m)
        for (int n = 0; n < PANEL; ++n) tile[m * PANEL + n] = sums[m][n];
}

// Of a gradient of weights: out[a][c] (+)= sum over rows r of left[r][a] * right[r][c].
struct Gathered {
    Block right;
    long C;
    real* out;  // null: not wanted
    bool adds;
};
// Several of them that have the same left side.
static inline void gather(const Block& left, long A, std::initializer_list<Gathered> all) {
    constexpr int ROWS = REGISTERS >= 28 ? 8 : rows_at_once<PANEL>();
    const long panels = (A + ROWS - 1) / ROWS, R = left.T * left.B;
    const long fitting = std::clamp(65536 / (A + 1) / 8 * 8, 32L, 256L), chunk = std::min(fitting, R);  // panels stay in the cache
    const long panel = chunk * ROWS + 16;  // a line more: panels a power of two apart share cache sets
    long widest = 0;
    for (const Gathered& one : all)
        if (one.out) widest = std::max(widest, round_up(one.C, WIDTH));
    if (!widest) return;
    real* packed_right = scratch(chunk * widest + panels * panel);
    real* packed_left = packed_right + chunk * widest;
    for (long r = 0; r < R; r += chunk) {
        const long K = r + chunk < R ? chunk : R - r;
        Cursor columns(left, r);
        for (long k = 0; k < K; ++k) {
            const real* column = columns.next();
            real* to = packed_left + k * ROWS;
            long a = 0;
            for (; a + ROWS <= A; a += ROWS, to += panel) std::memcpy(to, column + a, ROWS * sizeof(real));
            if (a < A) std::memcpy(to, column + a, (A - a) * sizeof(real));
        }
        for (const auto& [right, C, out, adds] : all) {
            if (!out) continue;
            Cursor rows(right, r);
            for (long k = 0; k < K; ++k) {
                const real* row = rows.next();
                real* to = packed_right + k * WIDTH;
                long c = 0;
                for (; c + WIDTH <= C; c += WIDTH, to += chunk * WIDTH) std::memcpy(to, row + c, WIDTH * sizeof(real));
                if (c < C) std::memcpy(to, row + c, (C - c) * sizeof(real));
            }
            for (long a = 0; a < A; a += ROWS) {
                const int m = int(A - a < ROWS ? A - a : ROWS);
                for (long c = 0; c < C; c += WIDTH) {
                    vec tile[ROWS * PANEL];
                    gather_tile<ROWS>(packed_left + a / ROWS * panel, packed_right + c * chunk, K, tile);
                    for (int i = 0; i < m; ++i) put(out + (a + i) * C + c, tile + i * PANEL, C - c, adds || r > 0);
                }
            }
        }
    }
}
