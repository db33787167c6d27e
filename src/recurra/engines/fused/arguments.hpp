// What a generated kernel is given, and where a step finds its values. Before this file stand the sizes of the cell:
//   DEPTH[]                                how many earlier values of each state are read
//   DRIVES, MATRICES, PARAMETERS, NOISES   how many there are; GROUPS: of products that have the same argument
//   SLOTS, GRADIENTS                       the width of the tape and of the gradients of a step, in units of H
//   SUMS, ARGUMENTS                        what the backward run sums over time, and what it keeps for ∂L/∂U
//   FORWARD_ROWS, FORWARD_MEANS, …         values between the passes of a step
#pragma once
#include "products.hpp"

constexpr int some(int n) { return n > 0 ? n : 1; }  // an array has at least one element
constexpr int STATES = sizeof DEPTH / sizeof *DEPTH;
// Where the values of state k begin among those of all: DEPTH + 1 of each, the youngest first.
constexpr int value_of(int k) { return k == 0 ? 0 : value_of(k - 1) + DEPTH[k - 1] + 1; }
constexpr int VALUES = value_of(STATES);

struct Sequence {
    long T, B, D, H;      // steps, batch rows, inputs, units
    long threads;         // at most
    const long* lengths;  // of each batch row; null: all T
    real* memory;         // what the forward run keeps for the backward run
    real* scratch;        // what either run needs only while it runs
    Rows x;               // [T, B, D]
    const real* W;        // [DRIVES H, D]
    long W_row;           // from one row to the next
    const real* bias;     // [DRIVES H]
    const real* U;        // [MATRICES H, H]
    long U_row;
    real* state[STATES];  // [DEPTH + T, B, H]: earlier values, then each step's; null: within memory
    const real* parameter[some(PARAMETERS)];  // [H]
    Rows noise[some(NOISES)];                 // masks
    long keeps;                               // whether a backward run comes
    // what `place` fills in
    long workers;                 // threads that share the batch rows
    long direct;                  // whether weights are read where they lie
    real* workspace;              // a share for each of them
    real* tape;                   // [T, B, SLOTS H]: drives, then what the backward run needs
    real* weights_x;              // packed: W
    real* weights[some(GROUPS)];  // packed: of each group
};
struct Forward : Sequence {
    Rows first[STATES];   // [DEPTH, B, H]: the values before the first step; null: zeros
    real* final[STATES];  // [DEPTH, B, H]: those before each batch row's end
};
struct Backward : Sequence {
    Rows arriving[STATES];      // [T, B, H]: ∂L of each step's value; null: none
    const real* final[STATES];  // [DEPTH, B, H]: ∂L of the final values; null: none
    Rows d_x;                   // ∂L of x; null: not wanted, as in all of these
    real *d_W, *d_bias, *d_U, *d_parameter[some(PARAMETERS)];
    real* d_state[STATES];           // [DEPTH, B, H]: ∂L of the first values
    real* gradient;                  // [T, B, GRADIENTS H]: ∂L of drives and products
    real* sums;                      // [workers, SUMS, H]: ∂L of biases and parameters
    real* parts;                     // of the gradients of weights: those of all threads but the first
    real* argument[some(ARGUMENTS)]; // [T, B, H]: what products were taken of
};

// What one thread has at one step: `batch` batch rows from `first` on. value[value_of(k) + d] is state k of d steps before, 0 the next;
// carry[…] is ∂L of the same value, of this thread's batch rows alone, and so are rows and means.
struct Step {
    long first, batch;
    long from, to;  // units
    real *tape, *rows, *means, *value[VALUES], *noise[some(NOISES)];
    real *gradient, *sums, *carry[VALUES], *arriving[STATES], *argument[some(ARGUMENTS)];
};
// To step t: the addresses of all values that lie in memory by time.
static inline void move(const Sequence& a, Step& s, long t) {
    const long plane = a.B * a.H;
    s.tape = a.tape + t * SLOTS * plane;
    for (int k = 0; k < STATES; ++k)
        for (int d = 0; d <= DEPTH[k]; ++d) s.value[value_of(k) + d] = a.state[k] + (t + DEPTH[k] - d) * plane;
    for (int k = 0; k < NOISES; ++k) s.noise[k] = a.noise[k].at + t * a.noise[k].step;
}

// What the forward run keeps for the backward run: its size depends on no number of threads.
static inline long place_tape(Sequence& a) {
    Parts own{a.memory};
    a.tape = own.take(a.T * a.B * SLOTS * a.H);
    for (int k = 0; k < STATES; ++k)
        if (!a.state[k]) a.state[k] = own.take((DEPTH[k] + a.T) * a.B * a.H);
    return own.size;
}
// What all workers summed over time and batch rows.
static inline void give_sums(Backward& a) {
    add_parts(a.sums, SUMS * a.H, a.sums + SUMS * a.H, SUMS * a.H, a.workers - 1);
    if (a.d_bias) std::memcpy(a.d_bias, a.sums, DRIVES * a.H * sizeof(real));
    for (int k = 0; k < PARAMETERS; ++k)
        if (a.d_parameter[k]) std::memcpy(a.d_parameter[k], a.sums + (DRIVES + k) * a.H, a.H * sizeof(real));
}
