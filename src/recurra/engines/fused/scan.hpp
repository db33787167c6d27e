// Around the steps of a cell whose units see their own past alone: chunks of time, whose rows and then whose units are shared by the
// threads. Before this file stand the same passes of a step as before `sequence.hpp`, all of them without products.
//
// Nothing in a step waits for another unit, so the recurrence needs no order but that of time within a unit: a thread takes
// some units of some batch rows through a chunk, and one batch row keeps all cores busy. What lies between the products and the
// recurrence (drives of a run that keeps nothing, gradients of drives) is as long as a chunk, so it stays in the L2 cache. States
// are written for all of time, also those that nobody asked for.
#pragma once
#include "arguments.hpp"

constexpr long CACHED = 1 << 20;  // bytes of a chunk
static inline long chunk_of(const Sequence& a) {
    const long step = a.B * ((SLOTS + GRADIENTS + STATES) * a.H + 2 * a.D) * sizeof(real);
    return std::clamp(CACHED / std::max(step, 1L), 16L, std::max(a.T, 16L));
}
static inline long vectors_of(const Sequence& a) { return a.B * ((a.H + V - 1) / V); }
// The units of a chunk by threads, vector by vector: body(share, batch row, first unit, last unit).
template <typename Body>
static inline void share_units(const Sequence& a, Body body) {
    const long row = (a.H + V - 1) / V;
    share_batch(a.workers, vectors_of(a), [&](long share, long first, long last) {
        for (long at = first; at < last;) {
            const long b = at / row, end = std::min(last, (b + 1) * row);
            body(share, b, (at - b * row) * V, std::min(a.H, (end - b * row) * V));
            at = end;
        }
    });
}
static inline Block part(const Rows& rows, const Sequence& a, long begin, long steps) {
    return {{rows.at + begin * rows.step, rows.step, rows.row}, steps, a.B};
}

// ---- memory ------------------------------------------------------------------------------------------------------
static inline long place_kept(Sequence& a) {
    a.workers = threads_for(a.threads, double(std::min(a.T, chunk_of(a))) * a.B * a.H * 64, vectors_of(a));
    return place_tape(a);
}
static inline long place(Forward& a) {
    place_kept(a);
    Parts own{a.scratch};
    a.weights_x = own.take(packed_size(DRIVES * a.H, a.D));
    return own.size;
}
static inline long place(Backward& a) {
    place_kept(a);
    Parts own{a.scratch};
    a.weights_x = own.take(packed_size(a.D, DRIVES * a.H));
    a.gradient = own.take(chunk_of(a) * a.B * GRADIENTS * a.H);
    a.sums = own.take(a.workers * SUMS * a.H);
    a.parts = own.take(a.workers * SUMS * a.H);  // those of a chunk
    a.workspace = own.take(VALUES * a.B * a.H);
    return own.size;
}

// ---- forward -----------------------------------------------------------------------------------------------------
// A run that keeps nothing (`keeps` is not set) has one chunk of drives, at the beginning of the tape again and again.
extern "C" void forward(const Forward* given) {
    Forward a = *given;
    place(a);
    pack_outputs(a.W, a.W_row, 1, DRIVES * a.H, a.D, a.weights_x);
    for (int k = 0; k < STATES; ++k) copy_rows({a.first[k], DEPTH[k], a.B}, a.H, a.state[k]);
    const long chunk = chunk_of(a), plane = SLOTS * a.B * a.H;
    real* const tape = a.tape;
    for (long begin = 0; begin < a.T; begin += chunk) {
        const long steps = std::min(chunk, a.T - begin);
        a.tape = a.keeps ? tape : tape - begin * plane;
        const Rows drives{a.tape, plane, SLOTS * a.H};
        times_by_rows(part(a.x, a, begin, steps), a.D, a.weights_x, part(drives, a, begin, steps), DRIVES * a.H, a.threads);
        share_units(a, [&](long, long b, long from, long to) {
            Step s;
            s.first = b, s.batch = 1;
            for (long u = from; u < to; u += V) {
                s.from = u, s.to = std::min(u + V, to);
                for (long t = begin; t < begin + steps; ++t) {
                    move(a, s, t);
                    forward_passes(a, s, t, b + 1);
                }
            }
        });
    }
    for (int k = 0; k < STATES; ++k) copy_last(a.state[k], DEPTH[k], a.T, a.B, a.H, a.lengths, a.final[k]);
}

// ---- backward ----------------------------------------------------------------------------------------------------
// What arrives at the DEPTH youngest values of each state lies in a ring of DEPTH + 1 planes by time, from chunk to chunk.
static inline real* ring(const Backward& a, int k, long time) {
    return a.workspace + (value_of(k) + time % (DEPTH[k] + 1)) * a.B * a.H;
}
static void backward_steps(const Backward& a, long share, long begin, long steps, long b, long from, long to) {
    Step s;
    s.first = b, s.batch = 1;
    s.sums = a.parts + share * SUMS * a.H;
    for (long u = from; u < to; u += V) {
        s.from = u, s.to = std::min(u + V, to);
        for (long t = begin + steps - 1; t >= begin; --t) {
            move(a, s, t);
            s.gradient = a.gradient + (t - begin) * a.B * GRADIENTS * a.H;
            for (int k = 0; k < STATES; ++k) {
                for (int d = 0; d <= DEPTH[k]; ++d) s.carry[value_of(k) + d] = ring(a, k, t + DEPTH[k] - d) + b * a.H;
                s.arriving[k] = a.arriving[k].at ? a.arriving[k].at + t * a.arriving[k].step : nullptr;
            }
            backward_passes(a, s, t, b + 1);
        }
    }
}
extern "C" void backward(const Backward* given) {
    Backward a = *given;
    place(a);
    if (a.d_x.at) pack_outputs(a.W, 1, a.W_row, a.D, DRIVES * a.H, a.weights_x);
    const long plane = a.B * a.H, row = GRADIENTS * a.H, sums = a.workers * SUMS * a.H, chunk = chunk_of(a);
    std::memset(a.sums, 0, sums * sizeof(real));
    for (int k = 0; k < STATES; ++k)
        for (long d = 0; d < DEPTH[k]; ++d)
            for (long b = 0; b < a.B; ++b) {
                real* to = ring(a, k, (a.lengths ? a.lengths[b] : a.T) + d) + b * a.H;
                if (a.final[k]) std::memcpy(to, a.final[k] + d * plane + b * a.H, a.H * sizeof(real));
                else std::memset(to, 0, a.H * sizeof(real));
            }
    bool adds = false;
    for (long begin = (a.T - 1) / chunk * chunk; begin >= 0; begin -= chunk, adds = true) {
        const long steps = std::min(chunk, a.T - begin);
        std::memset(a.parts, 0, sums * sizeof(real));
        share_units(a, [&](long share, long b, long from, long to) { backward_steps(a, share, begin, steps, b, from, to); });
        for (long i = 0; i < sums; ++i) a.sums[i] += a.parts[i];
        // of the chunk: rows of d_x and rows of d_W by threads
        const Block adjoints{{a.gradient, a.B * row, row}, steps, a.B}, x = part(a.x, a, begin, steps);
        if (a.d_x.at) times_by_rows(adjoints, DRIVES * a.H, a.weights_x, part(a.d_x, a, begin, steps), a.D, a.threads);
        const long outputs = DRIVES * a.H, threads = threads_for(a.threads, double(steps) * a.B * outputs * a.D, outputs / 8);
        if (a.d_W)
            share_batch(threads, outputs, [&](long, long first, long last) {
                const Block left{{a.gradient + first, a.B * row, row}, steps, a.B};
                gather(left, last - first, {{x, a.D, a.d_W + first * a.D, adds}});
            });
    }
    if (!a.T && a.d_W) std::memset(a.d_W, 0, DRIVES * a.H * a.D * sizeof(real));
    for (int k = 0; k < STATES; ++k)
        for (long d = 0; a.d_state[k] && d < DEPTH[k]; ++d)
            std::memcpy(a.d_state[k] + d * plane, ring(a, k, d), plane * sizeof(real));
    give_sums(a);
}
