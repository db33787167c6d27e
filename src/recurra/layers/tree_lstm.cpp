// The n-ary Tree-LSTM through all levels of a forest, forward and backward:
//
//     i, o, u = σ, σ, tanh (drive + Σₗ Uₗ hₗ),   fₖ = σ(drive + Σₗ Uₖₗ hₗ),   c = i u + Σₖ fₖ cₖ,   h = o tanh(c)
//
// Trees are independent, so each thread takes some of them through all of their levels. Within its share nodes lie by height, leaves
// first: the children of a node come before it, and a level is one product. A node has one parent, so states go up, and gradients
// come down, by the place of a node among its parent's children, without adding to it.
#include <vector>
#include "products.hpp"

struct Trees {
    long N, B, M, H, K, threads;                    // nodes, trees, rows of drives, units, most children
    const long *parents, *heights, *positions, *roots;  // of a Forest
    const long* rows;                               // which drive each node has; null: its own
    const real *drives, *U;                         // [M, 4H]: i, o, u, f; [(3 + K)H, KH]
    real *out, *memory;                             // [N, H]; what the backward run needs, of (5 + 2K)H numbers for each node
    const real* outer;                              // ∂L of out
    real *scratch, *d_drives, *d_U;                 // of the backward run: (4 + 3 + 3K)H numbers for each node, then the shares' d_U
    long row(long node) const { return rows ? rows[node] : node; }
};

// Some trees: their nodes by height, from `bounds[level]` on; of each its number in the forest, and its place in `children`
// (-1: a root). `children`: K of each node that is no leaf, -1 where there is none.
struct Share {
    long first, nodes, leaves, inner;
    std::vector<long> bounds, node, slot, children;
    Share(const Trees& a, long tree, long last) {
        first = a.roots[tree];
        nodes = (last < a.B ? a.roots[last] : a.N) - first;
        const long *parents = a.parents + first, *heights = a.heights + first;
        long top = 0;
        for (long n = 0; n < nodes; ++n) top = std::max(top, heights[n]);
        bounds.assign(top + 2, 0);
        for (long n = 0; n < nodes; ++n) ++bounds[heights[n] + 1];
        for (long level = 0; level <= top; ++level) bounds[level + 1] += bounds[level];
        leaves = bounds[1], inner = nodes - leaves;
        std::vector<long> next(bounds), place(nodes);
        node.resize(nodes), slot.resize(nodes), children.assign(inner * a.K, -1);
        for (long n = 0; n < nodes; ++n) {
            node[place[n] = next[heights[n]]++] = first + n;
            const long at = place[n];
            slot[at] = -1;
            if (parents[n] >= 0) slot[at] = parents[n] - first;  // for now: a parent, which comes before, has its place already
        }
        for (long at = 0; at < nodes; ++at)
            if (slot[at] >= 0) {
                slot[at] = (place[slot[at]] - leaves) * a.K + a.positions[node[at]];
                children[slot[at]] = at;
            }
    }
};

// What the forward run keeps of a share.
struct Kept {
    real *gates, *c, *squashed, *forget, *below;  // i, o, u; c; tanh(c); of inner nodes: f of each child, and the children's h
    Kept(const Trees& a, const Share& s) {
        Parts own{a.memory + s.first * (5 + 2 * a.K) * a.H};
        gates = own.memory, c = gates + s.nodes * 3 * a.H, squashed = c + s.nodes * a.H;
        forget = squashed + s.nodes * a.H, below = forget + s.inner * a.K * a.H;
    }
};
static inline Block block(real* at, long rows, long width) { return {{at, width, width}, 1, rows}; }
static inline long shares_of(const Trees& a) { return threads_for(a.threads, double(a.N) * a.H * a.H * (3 + a.K) * a.K, a.B); }
template <typename Body>
static inline void by_vectors(long H, Body body) {
    long u = 0;
    for (; u + V <= H; u += V) body(std::true_type(), u, V);
    if (u < H) body(std::false_type(), u, int(H - u));
}
constexpr long AT_ONCE = 56;  // nodes whose products stay in the cache until they are used

static void go_up(const Trees& a, const Share& s, const real* packed, real* products) {
    const long H = a.H, K = a.K, wide = (3 + K) * H;
    const Kept kept(a, s);
    for (long begin = 0, level = 0; begin < s.nodes;) {
        while (s.bounds[level + 1] <= begin) ++level;
        const long end = std::min(begin + AT_ONCE, s.bounds[level + 1]);
        if (level) {
            for (long at = (begin - s.leaves) * K; at < (end - s.leaves) * K; ++at) {
                real* const to = kept.below + at * H;
                const long child = s.children[at];
                if (child < 0) std::memset(to, 0, H * sizeof(real));
                else std::memcpy(to, a.out + s.node[child] * H, H * sizeof(real));
            }
            real* const rows = kept.below + (begin - s.leaves) * K * H;
            times(block(rows, end - begin, K * H), K * H, packed, block(products, end - begin, wide), wide);
        }
        for (long at = begin; at < end; ++at) {
            const real *drive = a.drives + a.row(s.node[at]) * 4 * H, *z = level ? products + (at - begin) * wide : nullptr;
            real *gates = kept.gates + at * 3 * H, *out = a.out + s.node[at] * H;
            by_vectors(H, [&](auto full, long u, int n) {
                const auto sum_of = [&](long gate) {
                    const vec given = load<full>(drive + gate * H + u, n);
                    return z ? given + load<full>(z + gate * H + u, n) : given;
                };
                const vec i = sigmoid(sum_of(0)), o = sigmoid(sum_of(1)), t = tanh(sum_of(2));
                vec c = i * t;
                if (z)
                    for (long k = 0; k < K; ++k) {
                        const long place = (at - s.leaves) * K + k, child = s.children[place];
                        if (child < 0) continue;
                        const vec f = sigmoid(load<full>(drive + 3 * H + u, n) + load<full>(z + (3 + k) * H + u, n));
                        store<full>(kept.forget + place * H + u, f, n);
                        c += f * load<full>(kept.c + child * H + u, n);
                    }
                const vec squashed = tanh(c);
                store<full>(gates + u, i, n), store<full>(gates + H + u, o, n), store<full>(gates + 2 * H + u, t, n);
                store<full>(kept.c + at * H + u, c, n), store<full>(kept.squashed + at * H + u, squashed, n);
                store<full>(out + u, o * squashed, n);
            });
        }
        begin = end;
    }
}

extern "C" void forward(const Trees* given) {
    const Trees& a = *given;
    const long H = a.H, wide = (3 + a.K) * H;
    thread_local std::vector<real> weights;
    weights.resize(packed_size(wide, a.K * H) + V);
    real* const packed = reinterpret_cast<real*>(round_up(reinterpret_cast<long>(weights.data()), VECTOR_BYTES));
    pack_outputs(a.U, a.K * H, 1, wide, a.K * H, packed);
    share_batch(shares_of(a), a.B, [&](long, long first, long last) {
        thread_local std::vector<real> products;
        products.resize(AT_ONCE * wide);
        go_up(a, Share(a, first, last), packed, products.data());
    });
}

// ∂L of the drives of each node goes to `gates`, ∂L of U to `d_U`.
static void go_down(const Trees& a, const Share& s, const real* packed, real* memory, real* gates, real* d_U) {
    const long H = a.H, K = a.K, wide = (3 + K) * H;
    const Kept kept(a, s);
    // what is sent to each child, and ∂L of the products of each inner node
    real *dh = memory, *dc = dh + s.inner * K * H, *dz = dc + s.inner * K * H;
    for (long level = long(s.bounds.size()) - 2; level >= 0; --level) {
        const long begin = s.bounds[level], end = s.bounds[level + 1];
        for (long at = begin; at < end; ++at) {
            const real *g = kept.gates + at * 3 * H, *outer = a.outer + s.node[at] * H;
            const long slot = s.slot[at];
            real *to = gates + s.node[at] * 4 * H, *z = level ? dz + (at - s.leaves) * wide : nullptr;
            by_vectors(H, [&](auto full, long u, int n) {
                const vec i = load<full>(g + u, n), o = load<full>(g + H + u, n), t = load<full>(g + 2 * H + u, n);
                const vec squashed = load<full>(kept.squashed + at * H + u, n);
                vec to_h = load<full>(outer + u, n), to_c = {};
                if (slot >= 0) to_h += load<full>(dh + slot * H + u, n), to_c = load<full>(dc + slot * H + u, n);
                to_c += to_h * o * (1 - squashed * squashed);
                const vec each[3] = {to_c * t * i * (1 - i), to_h * squashed * o * (1 - o), to_c * i * (1 - t * t)};
                vec to_f = {};
                for (int k = 0; k < 3; ++k) store<full>(to + k * H + u, each[k], n);
                if (z) {
                    for (int k = 0; k < 3; ++k) store<full>(z + k * H + u, each[k], n);
                    for (long k = 0; k < K; ++k) {
                        const long place = (at - s.leaves) * K + k, child = s.children[place];
                        vec d = {};
                        if (child >= 0) {
                            const vec f = load<full>(kept.forget + place * H + u, n);
                            d = to_c * load<full>(kept.c + child * H + u, n) * f * (1 - f);
                            store<full>(dc + place * H + u, to_c * f, n);
                        }
                        store<full>(z + (3 + k) * H + u, d, n);
                        to_f += d;
                    }
                }
                store<full>(to + 3 * H + u, to_f, n);
            });
        }
        if (level) {
            const long rows = begin - s.leaves;
            times(block(dz + rows * wide, end - begin, wide), wide, packed, block(dh + rows * K * H, end - begin, K * H), K * H);
        }
    }
    gather(block(dz, s.inner, wide), wide, {{block(kept.below, s.inner, K * H), K * H, d_U, false}});
    if (!s.inner) std::memset(d_U, 0, wide * K * H * sizeof(real));
}

extern "C" void backward(const Trees* given) {
    const Trees& a = *given;
    const long H = a.H, K = a.K, wide = (3 + K) * H, size = wide * K * H, shares = shares_of(a);
    thread_local std::vector<real> weights;
    weights.resize(packed_size(K * H, wide) + V);
    real* const packed = reinterpret_cast<real*>(round_up(reinterpret_cast<long>(weights.data()), VECTOR_BYTES));
    pack_outputs(a.U, 1, K * H, K * H, wide, packed);
    real *const gates = a.rows ? a.scratch + a.N * (3 + 3 * K) * H : a.d_drives, *const parts = a.scratch + a.N * (7 + 3 * K) * H;
    share_batch(shares, a.B, [&](long share, long first, long last) {
        const Share s(a, first, last);
        go_down(a, s, packed, a.scratch + s.first * (3 + 3 * K) * H, gates, share ? parts + (share - 1) * size : a.d_U);
    });
    add_parts(a.d_U, size, parts, size, shares - 1);
    if (!a.rows) return;
    std::memset(a.d_drives, 0, a.M * 4 * H * sizeof(real));
    for (long n = 0; n < a.N; ++n) {
        real* const to = a.d_drives + a.rows[n] * 4 * H;
        for (long i = 0; i < 4 * H; ++i) to[i] += gates[n * 4 * H + i];
    }
}
extern "C" long scratch_size(const Trees* a) {
    return a->N * (7 + 3 * a->K) * a->H + (shares_of(*a) - 1) * (3 + a->K) * a->H * a->K * a->H;
}
