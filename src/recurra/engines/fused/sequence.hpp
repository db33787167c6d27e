// Around the steps of a generated kernel: memory, products over all of time, threads, streams. Before this file stand the
// passes of a step (`forward_passes`, `backward_passes`), `forward_groups` and `backward_groups`, which visit each group of
// products with its matrices and the number of vectors that its pass takes at once, and `gather_weights`.
#pragma once
#include "arguments.hpp"

// Whether weights are read where they lie. Forward each step transposes them for some rows at once, which costs as much as
// packing after two or three times; backward they lie as they are multiplied, and only lie further apart.
static inline bool is_whole(const Sequence& a) { return a.H % V == 0 && a.D % V == 0; }
static inline bool is_direct(const Forward& a) { return is_whole(a) && a.T * ((a.B + COLUMN_ROWS - 1) / COLUMN_ROWS) <= 2; }
static inline bool is_direct(const Backward& a) { return is_whole(a) && a.T <= 4 && a.T * a.B <= 64; }

static inline long most_rows(const Sequence& a) { return (a.B + a.workers - 1) / a.workers + 1; }
static inline long workspace(long batch, long H, long rows, long means) {
    return round_up(batch * rows * H, V) + round_up(batch * means, V) + V;
}
static inline long forward_workspace(const Sequence& a) { return workspace(most_rows(a), a.H, FORWARD_ROWS, FORWARD_MEANS); }
static inline long backward_workspace(const Sequence& a) {
    return workspace(most_rows(a), a.H, BACKWARD_ROWS, BACKWARD_MEANS) + (most_rows(a) * VALUES + SUMS) * a.H;
}

// ---- memory ------------------------------------------------------------------------------------------------------
static inline long place_kept(Sequence& a) {
    const long work = std::max(a.H * MATRICES, 64L) + DRIVES * a.D;  // for each unit of each step
    a.workers = threads_for(a.threads, double(a.T) * a.B * a.H * work, a.B);
    return place_tape(a);
}
static inline long place(Forward& a) {
    place_kept(a);
    a.direct = is_direct(a);
    if (a.direct && a.B <= 4) a.workers = 1;  // each would transpose all weights, for a row or two
    Parts own{a.scratch};
    a.workspace = own.take(a.workers * forward_workspace(a));
    a.weights_x = own.take(packed_size(DRIVES * a.H, a.D));
    forward_groups([&](int k, Matrices m, long Q) { a.weights[k] = own.take(packed_size(m.size(), Q, a.H)); });
    return own.size;
}
static inline long place(Backward& a) {
    place_kept(a);
    a.direct = is_direct(a);
    if (a.T * a.B <= 16) a.workers = 1;  // to add up two gradients of all weights takes longer than the products of so few rows
    Parts own{a.scratch};
    a.workspace = own.take(a.workers * backward_workspace(a));
    a.weights_x = own.take(packed_size(a.D, DRIVES * a.H));
    backward_groups([&](int k, Matrices m, long Q) { a.weights[k] = own.take(packed_size(m.size(), Q, a.H)); });
    a.gradient = own.take(a.T * a.B * GRADIENTS * a.H);
    a.sums = own.take(a.workers * SUMS * a.H);
    a.parts = own.take((a.workers - 1) * a.H * (DRIVES * a.D + MATRICES * a.H));
    for (int k = 0; k < ARGUMENTS; ++k) a.argument[k] = own.take(a.T * a.B * a.H);
    return own.size;
}

// ---- forward -----------------------------------------------------------------------------------------------------
static void forward_steps(const Forward& a, long thread, long first, long last) {
    Step s;
    s.first = first, s.batch = last - first, s.from = 0, s.to = a.H;
    s.rows = a.workspace + thread * forward_workspace(a);
    s.means = s.rows + round_up(s.batch * FORWARD_ROWS * a.H, V);
    for (long t = 0; t < a.T; ++t) {
        move(a, s, t);
        forward_passes(a, s, t, last);
    }
}
static inline void pack_all(const Forward& a) {
    if (a.direct) return;
    pack_outputs(a.W, a.W_row, 1, DRIVES * a.H, a.D, a.weights_x);
    forward_groups([&](int k, Matrices m, long Q) { pack_forward(a.U, a.U_row, m, Q, a.H, a.weights[k]); });
}
static inline Block tape(const Forward& a) { return {{a.tape, a.B * SLOTS * a.H, SLOTS * a.H}, a.T, a.B}; }
// Drives, first values, steps, final values.
extern "C" void forward(const Forward* given) {
    Forward a = *given;
    place(a);
    pack_all(a);
    for (int k = 0; k < STATES; ++k) copy_rows({a.first[k], DEPTH[k], a.B}, a.H, a.state[k]);
    const Block x{a.x, a.T, a.B}, drives = tape(a);
    const bool few = a.B < a.threads && !a.direct;
    if (few) times_by_rows(x, a.D, a.weights_x, drives, DRIVES * a.H, a.threads);
    share_batch(a.workers, a.B, [&](long thread, long first, long last) {
        if (a.direct) times_direct(x.batch(first, last), a.D, a.W, a.W_row, drives.batch(first, last), DRIVES * a.H);
        else if (!few) times(x.batch(first, last), a.D, a.weights_x, drives.batch(first, last), DRIVES * a.H);
        forward_steps(a, thread, first, last);
    });
    for (int k = 0; k < STATES; ++k) copy_last(a.state[k], DEPTH[k], a.T, a.B, a.H, a.lengths, a.final[k]);
}

// ---- a stream ----------------------------------------------------------------------------------------------------
// Any number of steps in constant memory: blocks of at most a.T, each leaves the state where the next begins.
extern "C" void open_stream(Forward* a) {
    place(*a);
    pack_all(*a);
}
extern "C" void stream(Forward* a, real* x, real* out, long steps) {
    const long most = a->T, row = a->B * a->H, inputs = a->B * a->D;
    for (long done = 0; done < steps; done += a->T) {
        a->T = done + most < steps ? most : steps - done;
        times({{x + done * inputs, inputs, a->D}, a->T, a->B}, a->D, a->weights_x, tape(*a), DRIVES * a->H);
        forward_steps(*a, 0, 0, a->B);
        std::memcpy(out + done * row, a->state[0] + DEPTH[0] * row, a->T * row * sizeof(real));
        for (int k = 0; k < STATES; ++k)
            std::memmove(a->state[k], a->state[k] + a->T * row, DEPTH[k] * row * sizeof(real));
    }
    a->T = most;
}

// ---- backward ----------------------------------------------------------------------------------------------------
// What arrives at the DEPTH youngest values of each state lies in a ring of DEPTH + 1 rows by time.
static void backward_steps(const Backward& a, long thread, long first, long last) {
    Step s;
    s.first = first, s.batch = last - first, s.from = 0, s.to = a.H;
    s.rows = a.workspace + thread * backward_workspace(a);
    s.means = s.rows + round_up(s.batch * BACKWARD_ROWS * a.H, V);
    const long plane = s.batch * a.H, sums = SUMS * a.H, often = 512 / s.batch + 1;
    real* const rings = s.means + round_up(s.batch * BACKWARD_MEANS, V);
    const auto ring = [&](int k, long time) { return rings + (value_of(k) + time % (DEPTH[k] + 1)) * plane; };
    real* const totals = a.sums + thread * sums;
    s.sums = rings + VALUES * plane;
    std::memset(s.sums, 0, sums * sizeof(real));
    std::memset(totals, 0, sums * sizeof(real));
    for (long b = first; b < last; ++b)
        for (int k = 0; k < STATES; ++k)
            for (long d = 0; d < DEPTH[k]; ++d) {
                real* to = ring(k, (a.lengths ? a.lengths[b] : a.T) + d) + (b - first) * a.H;
                if (a.final[k]) std::memcpy(to, a.final[k] + (d * a.B + b) * a.H, a.H * sizeof(real));
                else std::memset(to, 0, a.H * sizeof(real));
            }
    for (long t = a.T - 1; t >= 0; --t) {
        move(a, s, t);
        s.gradient = a.gradient + t * a.B * GRADIENTS * a.H;
        for (int k = 0; k < STATES; ++k) {
            for (int d = 0; d <= DEPTH[k]; ++d) s.carry[value_of(k) + d] = ring(k, t + DEPTH[k] - d);
            s.arriving[k] = a.arriving[k].at ? a.arriving[k].at + t * a.arriving[k].step : nullptr;
        }
        for (int k = 0; k < ARGUMENTS; ++k) s.argument[k] = a.argument[k] + t * a.B * a.H;
        backward_passes(a, s, t, last);
        // a long sum of small numbers in one go would lose digits
        if (t % often == 0)
            for (long i = 0; i < sums; ++i) totals[i] += s.sums[i], s.sums[i] = 0;
    }
    for (long b = first; b < last; ++b)
        for (int k = 0; k < STATES; ++k)
            for (long d = 0; a.d_state[k] && d < DEPTH[k]; ++d)
                std::memcpy(a.d_state[k] + (d * a.B + b) * a.H, ring(k, d) + (b - first) * a.H, a.H * sizeof(real));
}
// Steps, then the gradients of inputs, weights and parameters that are wanted.
extern "C" void backward(const Backward* given) {
    Backward a = *given;
    place(a);
    if (!a.direct) backward_groups([&](int k, Matrices m, long Q) { pack_backward(a.U, a.U_row, m, Q, a.H, a.weights[k]); });
    if (a.d_x.at && !a.direct) pack_outputs(a.W, 1, a.W_row, a.D, DRIVES * a.H, a.weights_x);
    const long row = GRADIENTS * a.H, size_W = DRIVES * a.H * a.D, size_U = MATRICES * a.H * a.H;
    const Block x{a.x, a.T, a.B}, d_x{a.d_x, a.T, a.B}, adjoints{{a.gradient, a.B * row, row}, a.T, a.B};
    const bool few = a.B < a.threads && !a.direct;
    share_batch(a.workers, a.B, [&](long thread, long first, long last) {
        backward_steps(a, thread, first, last);
        const auto adjoint = [&](long slot) {
            return Block{{a.gradient + slot * a.H, a.B * row, row}, a.T, a.B}.batch(first, last);
        };
        const auto rows = [&](real* at) { return Block{{at, a.B * a.H, a.H}, a.T, a.B}.batch(first, last); };
        if (a.d_x.at && a.direct) times_transposed(adjoint(0), DRIVES * a.H, a.W, a.W_row, d_x.batch(first, last), a.D);
        else if (a.d_x.at && !few) times(adjoint(0), DRIVES * a.H, a.weights_x, d_x.batch(first, last), a.D);
        real* const part = a.parts + (thread - 1) * (size_W + size_U);
        real* const d_W = thread && a.d_W ? part : a.d_W;
        real* const d_U = thread && a.d_U ? part + size_W : a.d_U;
        gather_weights(a, x.batch(first, last), d_W, d_U, adjoint, rows);
    });
    if (a.d_x.at && few) times_by_rows(adjoints, DRIVES * a.H, a.weights_x, d_x, a.D, a.threads);
    if (a.d_W) add_parts(a.d_W, size_W, a.parts, size_W + size_U, a.workers - 1);
    if (a.d_U) add_parts(a.d_U, size_U, a.parts + size_W, size_W + size_U, a.workers - 1);
    give_sums(a);
}
