// What the steps of generated CUDA kernels are made of: values that thread blocks hand to one another, and products of them.
//
// A thread block owns a tile of UNITS units and ROWS batch rows; each of its warps keeps the weights of a part of the inputs in
// registers. Thread blocks wait for each other by spinning on a sentinel, a word with every bit set: gpu_kernel.py says why
// that is enough.
//
// Before this file stand NUMBER and PARAMETER (`values.cuh`); EXACT and KEPT, for products of floats; H, UNITS, ROWS and WARPS;
// and PATIENCE, the cycles before the first look at a row: many thread blocks that look too early are in contention with those
// that store.

constexpr int THREADS = 32 * WARPS;
constexpr int PAIRS = (ROWS * UNITS / 2 + THREADS - 1) / THREADS;  // of a thread: two neighbouring units of several rows

constexpr bool SINGLE = false;
constexpr int RESIDENT = 1;  // thread blocks of a multiprocessor

#include <values.cuh>

// -- whose a number is ------------------------------------------------------------------------------------------------

DEVICE int own_unit() { return blockIdx.x * UNITS + threadIdx.x % (UNITS / 2) * 2; }
DEVICE int row_within(int p) { return p * (THREADS / (UNITS / 2)) + threadIdx.x / (UNITS / 2); }
DEVICE int own_row(int p) { return blockIdx.y * ROWS + row_within(p); }
DEVICE bool owns(int p, whole B) { return row_within(p) < ROWS && own_row(p) < B && own_unit() < H; }

// -- products ---------------------------------------------------------------------------------------------------------

// Words are stored whole: one that is not there yet has all its bits set.
DEVICE bool is_unwritten(const uint4& v) { return max(max(v.x, v.y), max(v.z, v.w)) == 0xffffffffu; }

// A row of INPUTS numbers times the weights of OUTPUTS values for each unit, which lie as [OUTPUTS H, INPUTS], or
// TRANSPOSED as [INPUTS, H]. A warp takes BLOCKS blocks of inputs, AT_ONCE of them before it multiplies. Within a block a
// thread reads neighbours of a row, 16 bytes at once; that the matrix unit has its inputs in another order does not matter,
// if the weights are taken in the same.
template <int INPUTS, int OUTPUTS, bool TRANSPOSED, int AT_ONCE>
struct Product {
    static constexpr int NEIGHBOURS = 16 / sizeof(number), BLOCK = 4 * NEIGHBOURS;
    static constexpr int BLOCKS = (INPUTS + BLOCK * WARPS - 1) / (BLOCK * WARPS);
    static constexpr int TILES = OUTPUTS * UNITS / 8;
    static constexpr int WIDTH = (OUTPUTS * UNITS + 31) / 32 * 32 + UNITS;  // of a row's sums: no two threads in one bank

    unsigned weights[BLOCKS][TILES][4];
    unsigned nought;  // which the compiler does not know: what it is added to lies where the matrix unit wants it, once for all

    DEVICE static int first_input() { return threadIdx.x / 32 * BLOCKS * BLOCK + threadIdx.x % 4 * NEIGHBOURS; }
    DEVICE static bool exists(int block) {
        return block < BLOCKS && (INPUTS % (BLOCK * WARPS) == 0 || first_input() + BLOCK * block < INPUTS);
    }

    DEVICE void load(const number* from, whole T) {
        nought = unsigned(T >> 40);
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
                for (int word = 0; word < 4; ++word) {
                    const int column = tile * 8 + threadIdx.x % 32 / 4, output = column / UNITS;
                    const int unit = blockIdx.x * UNITS + column % UNITS;
                    unsigned bits = 0;
                    if (unit < H && exists(block))
#pragma unroll
                        for (int k = NEIGHBOURS / 4 - 1; k >= 0; --k) {
                            const int input = first_input() + BLOCK * block + word * (NEIGHBOURS / 4) + k;
                            bits = bits << 16 | bits_of(from[TRANSPOSED ? input * H + unit : (output * H + unit) * INPUTS + input]);
                        }
                    weights[block][tile][word] = bits;
                }
    }

    // Numbers of AT_ONCE blocks, of a row and of the eighth after it. For rows that do not exist the last one is read: their
    // sums go nowhere.
    struct Piece {
        const number *top, *low;
        int start;
        uint4 read[AT_ONCE][2];

        DEVICE void at(const number* from, int distance, int B, int row) {
            top = pinned(from + min(row, B - 1) * distance), low = pinned(from + min(row + 8, B - 1) * distance);
        }
        DEVICE uint4 look(int k, int half) const {
            if (!exists(start + k)) return {0, 0, 0, 0};
            return peek((half ? low : top) + first_input() + BLOCK * (start + k));
        }
        DEVICE void look(int from) {
            start = from;
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) read[k][0] = look(k, 0), read[k][1] = look(k, 1);
        }
        DEVICE void wait() {
            bool waiting;
            do {
                waiting = false;
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        if (is_unwritten(read[k][half])) read[k][half] = look(k, half), waiting = true;
            } while (any(waiting));
        }
    };

    DEVICE void add(float (&sum)[TILES][4], const Piece& piece, int start) const {
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k)
            if (start + k < BLOCKS) {
                const uint4 &a = piece.read[k][0], &b = piece.read[k][1];
                const unsigned left[4] = {a.x | nought, b.x | nought, a.y | nought, b.y | nought};
                const unsigned right[4] = {a.z | nought, b.z | nought, a.w | nought, b.w | nought};
#pragma unroll
                for (int tile = 0; tile < TILES; ++tile) {
                    const auto& w = weights[start + k < BLOCKS ? start + k : 0][tile];
                    multiply_add(sum[tile], left, w[0], w[1], number());
                    multiply_add(sum[tile], right, w[2], w[3], number());
                }
            }
    }

    // Wait for the rows of all rows, and leave each warp's part of the sums in shared memory. Where one row's numbers are
    // more than one piece, the next is prefetched while a piece is multiplied.
    DEVICE void multiply(float* sums, const number* from, int distance, int B) const {
        if (PATIENCE > 0) pause(PATIENCE);
        constexpr bool AHEAD = ROWS == 16;
#pragma unroll 1
        for (int first = 0; first < ROWS; first += 16) {
            const int within = first + threadIdx.x % 32 / 4;
            float sum[TILES][4] = {};
            Piece piece, next;
            next.at(from, distance, B, blockIdx.y * ROWS + within);
            next.look(0);
#pragma unroll
            for (int start = 0; start < BLOCKS; start += AT_ONCE) {
                piece = next;
                const bool more = start + AT_ONCE < BLOCKS;
                if (AHEAD && more) next.look(start + AT_ONCE);
                piece.wait();
                add(sum, piece, start);
                if (!AHEAD && more) next.look(start + AT_ONCE);
            }
            float* at = sums + (threadIdx.x / 32 * ROWS + within) * WIDTH + threadIdx.x % 4 * 2;
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    *reinterpret_cast<Stored<float>*>(at + half * 8 * WIDTH + tile * 8) = {sum[tile][2 * half], sum[tile][2 * half + 1]};
        }
    }

    // One output of this thread's units for its row number p, once all warps are done.
    DEVICE static two total(const float* sums, int output, int p) {
        if (ROWS * UNITS < 2 * THREADS && row_within(p) >= ROWS) return 0.0f;
        const float* at = sums + row_within(p) * WIDTH + output * UNITS + threadIdx.x % (UNITS / 2) * 2;
        two parts[WARPS];
#pragma unroll
        for (int warp = 0; warp < WARPS; ++warp) parts[warp] = wide(::load(at + warp * ROWS * WIDTH));
#pragma unroll
        for (int step = 1; step < WARPS; step *= 2)
#pragma unroll
            for (int warp = 0; warp + step < WARPS; warp += 2 * step) parts[warp] += parts[warp + step];
        return parts[0];
    }
};

// The sum of a number of each thread over the rows, for each unit.
DEVICE void sum_over_rows(float* to, const two& value, float* scratch) {
    sync();
    scratch[2 * threadIdx.x] = value.x, scratch[2 * threadIdx.x + 1] = value.y;
    sync();
    if (threadIdx.x >= UNITS / 2 || own_unit() >= H) return;
    two result;
    for (int k = threadIdx.x; k < THREADS; k += UNITS / 2) result += two(scratch[2 * k], scratch[2 * k + 1]);
    to[0] = result.x, to[1] = result.y;
}
