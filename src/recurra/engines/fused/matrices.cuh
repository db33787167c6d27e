// Kernels of a linear recurrence with whole matrices, s(t) = A(t) s(t - 1) + b(t), for each of R columns by itself: A lies as
// [T, N, N, R], b and s as [T, N, R]. Steps are numbered from the first to the last, or, BACKWARD, from the last to the first.
//
// Before this file stand `real`, N, WARPS and BACKWARD.

constexpr int THREADS = 32 * WARPS;
constexpr int RESIDENT = 1;  // thread blocks of a multiprocessor
constexpr bool EXACT = true, KEPT = false;  // of products on matrix units, which there are none of

#include <machine.cuh>

using whole = long long;

// Numbers of a piece of shared memory: as many as whole 16 bytes, which the compiler reads at once wherever a piece begins.
constexpr DEVICE int padded(int numbers) { return (numbers + 3) / 4 * 4; }

DEVICE whole place(whole t, whole T) { return BACKWARD ? T - 1 - t : t; }

// The affine map of each chunk of L steps, as matrix [C, N, N, R] and offset [C, N, R]. A thread block has one chunk of one
// column. The columns of a map are those of its matrix and, as the last, its offset; all obey the same recurrence.
KERNEL compose(whole T, whole L, whole R, const real* A, const real* b, real* matrix, real* offset) {
    constexpr int WIDTH = N + 1, SIZE = N * WIDTH, OWN = (SIZE + THREADS - 1) / THREADS;
    real* const memory = reinterpret_cast<real*>(shared_memory());
    const whole chunk = blockIdx.x, column = blockIdx.y, begin = chunk * L, end = min(begin + L, T);
    real *map = memory, *next = map + padded(SIZE), *step = next + padded(SIZE), *ahead = step + padded(SIZE);
    // one step as N rows of matrix and offset
    const auto read = [&](whole t, int e) {
        const int i = e / WIDTH, j = e % WIDTH;
        const whole row = place(t, T) * N + i;
        return j < N ? A[(row * N + j) * R + column] : b[row * R + column];
    };
    for (int e = threadIdx.x; e < SIZE; e += THREADS) {
        map[e] = e / WIDTH == e % WIDTH ? real(1) : real(0);
        step[e] = read(begin, e);
    }
    sync();
    for (whole t = begin; t < end; ++t) {
        real fetched[OWN];
#pragma unroll
        for (int k = 0; k < OWN; ++k) {
            const int e = threadIdx.x + k * THREADS;
            fetched[k] = e < SIZE && t + 1 < end ? read(t + 1, e) : real(0);
        }
#pragma unroll
        for (int k = 0; k < OWN; ++k) {
            const int e = threadIdx.x + k * THREADS, i = e / WIDTH, j = e % WIDTH;
            if (e < SIZE) {
                real sum = j < N ? real(0) : step[i * WIDTH + N];
#pragma unroll
                for (int n = 0; n < N; ++n) sum += step[i * WIDTH + n] * map[n * WIDTH + j];
                next[e] = sum;
                ahead[e] = fetched[k];
            }
        }
        sync();
        real* old = map;
        map = next, next = old;
        old = step;
        step = ahead, ahead = old;
    }
    for (int e = threadIdx.x; e < SIZE; e += THREADS) {
        const int i = e / WIDTH, j = e % WIDTH;
        if (j < N) matrix[((chunk * N + i) * N + j) * R + column] = map[e];
        else offset[(chunk * N + i) * R + column] = map[e];
    }
}

// The states after all steps of each chunk, from those in `borders` after the chunk before it (none: zeros). A warp has one chunk
// of one column, a thread one value of the state.
KERNEL walk(whole T, whole L, whole R, const real* A, const real* b, const real* borders, real* states) {
    real* const memory = reinterpret_cast<real*>(shared_memory());
    const whole chunk = blockIdx.x, column = blockIdx.y, begin = chunk * L, end = min(begin + L, T);
    const int i = threadIdx.x;
    real *state = memory, *next = memory + padded(N);
    if (i < N) state[i] = borders && chunk ? borders[((chunk - 1) * N + i) * R + column] : real(0);
    real row[N + 1], ahead[N + 1];
    const auto read = [&](whole t, real(&into)[N + 1]) {
        const whole own = place(t, T) * N + i;
        if (i >= N) return;
#pragma unroll
        for (int n = 0; n < N; ++n) into[n] = A[(own * N + n) * R + column];
        into[N] = b[own * R + column];
    };
    read(begin, ahead);
    sync();
    for (whole t = begin; t < end; ++t) {
#pragma unroll
        for (int n = 0; n <= N; ++n) row[n] = ahead[n];
        if (t + 1 < end) read(t + 1, ahead);
        if (i < N) {
            real sum = row[N];
#pragma unroll
            for (int n = 0; n < N; ++n) sum += row[n] * state[n];
            next[i] = sum;
            states[(place(t, T) * N + i) * R + column] = sum;
        }
        sync();
        real* const old = state;
        state = next, next = old;
    }
}
