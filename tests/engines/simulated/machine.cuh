// A GPU made of the processor's threads: what `steps.cuh` asks of the machine, slowly. Thirty-two threads are a warp, and all
// thread blocks of a launch run at once, so kernels that wait for each other can be tested where there is no GPU.

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#define DEVICE inline
#define KERNEL extern "C" void

struct bfloat16 { unsigned short bits; };
struct float16 { unsigned short bits; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct Index { int x, y; };
static thread_local Index threadIdx, blockIdx;

struct Warp {
    std::barrier<> all{32};
    unsigned said[32][6];
};
struct ThreadBlock {
    std::barrier<> all{THREADS};
    std::vector<float> memory;
    Warp warps[WARPS];
};
static thread_local ThreadBlock* block;
static Warp& own_warp() { return block->warps[threadIdx.x / 32]; }

DEVICE float* shared_memory() { return block->memory.data(); }
DEVICE void sync() { block->all.arrive_and_wait(); }
DEVICE void pause(int cycles) { std::this_thread::yield(); }
DEVICE bool any(bool here) {
    Warp& warp = own_warp();
    warp.said[threadIdx.x % 32][0] = here;
    warp.all.arrive_and_wait();
    bool found = false;
    for (auto& thread : warp.said) found |= thread[0];
    warp.all.arrive_and_wait();
    if (found) std::this_thread::yield();
    return found;
}

DEVICE float wide(float v) { return v; }
DEVICE float wide(bfloat16 v) {
    const unsigned bits = unsigned(v.bits) << 16;
    float result;
    std::memcpy(&result, &bits, 4);
    return result;
}
DEVICE float wide(float16 v) {
    _Float16 half;
    std::memcpy(&half, &v.bits, 2);
    return float(half);
}
DEVICE unsigned short narrow(float v, bfloat16) {
    unsigned bits;
    std::memcpy(&bits, &v, 4);
    return v != v ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
DEVICE unsigned short narrow(float v, float16) {
    const _Float16 half = _Float16(v);
    unsigned short bits;
    std::memcpy(&bits, &half, 2);
    return v != v ? 0x7fff : bits;
}
DEVICE unsigned bits_of(bfloat16 v) { return v.bits; }
DEVICE unsigned bits_of(float16 v) { return v.bits; }
DEVICE unsigned bits_of(float v) {
    unsigned bits;
    std::memcpy(&bits, &v, 4);
    return bits;
}
DEVICE uint2 narrow(float low, float high, float) {
    return {low == low ? bits_of(low) : 0x7fffffff, high == high ? bits_of(high) : 0x7fffffff};
}
template <class kind>
unsigned narrow(float low, float high, kind as) { return narrow(low, as) | unsigned(narrow(high, as)) << 16; }

DEVICE uint4 peek(const void* at) {
    const auto* from = static_cast<const unsigned*>(at);
    unsigned v[4];
    for (int k = 0; k < 4; ++k) v[k] = __atomic_load_n(from + k, __ATOMIC_RELAXED);
    return {v[0], v[1], v[2], v[3]};
}
DEVICE void put_word(void* at, unsigned v) { __atomic_store_n(static_cast<unsigned*>(at), v, __ATOMIC_RELAXED); }
DEVICE void put_word(void* at, uint2 v) {
    __atomic_store_n(static_cast<unsigned long long*>(at), v.x | (unsigned long long)v.y << 32, __ATOMIC_RELAXED);
}

// As the matrix unit has them: 16 columns of the left factor if two numbers fit into a word, else 8; row `r`, column `k` lies
// with thread 4 (r % 8) + k % half / PER_WORD.
template <class kind>
float part_of(unsigned word, int k) {
    kind value;
    const unsigned shifted = sizeof(kind) == 2 && k % 2 ? word >> 16 : word;
    std::memcpy(&value, &shifted, sizeof value);
    return wide(value);
}
template <class kind>
void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, kind) {
    constexpr int PER_WORD = 4 / sizeof(kind), half = 4 * PER_WORD;
    Warp& warp = own_warp();
    const int self = threadIdx.x % 32;
    const unsigned said[6] = {a[0], a[1], a[2], a[3], b0, b1};
    std::memcpy(warp.said[self], said, sizeof said);
    warp.all.arrive_and_wait();
    for (int place = 0; place < 4; ++place) {
        const int row = self / 4 + 8 * (place / 2), column = 2 * (self % 4) + place % 2;
        for (int k = 0; k < 2 * half; ++k) {
            const unsigned left = warp.said[4 * (row % 8) + k % half / PER_WORD][row / 8 + 2 * (k / half)];
            const unsigned right = warp.said[4 * column + k % half / PER_WORD][4 + k / half];
            sum[place] += part_of<kind>(left, k) * part_of<kind>(right, k);
        }
    }
    warp.all.arrive_and_wait();
}
DEVICE float infinity() { return INFINITY; }
DEVICE float not_a_number() { return NAN; }
DEVICE float exponential(float v) { return std::exp(v); }
DEVICE float quotient(float a, float b) { return a / b; }
DEVICE float coarse_tanh(float v) { return std::tanh(v); }
template <class kind>
const kind* pinned(const kind* at) { return at; }
using std::max;
using std::min;

template <size_t... k>
static void call(void* kernel, const long long* values, std::index_sequence<k...>) {
    reinterpret_cast<void (*)(decltype((void)k, 0LL)...)>(kernel)(values[k]...);
}

// All arguments have 64 bits; `values` has 96 of them, of which the kernel reads as many as it has.
extern "C" void launch(void* kernel, int blocks, int groups, int shared, const long long* values) {
    std::vector<std::unique_ptr<ThreadBlock>> all;
    std::vector<std::thread> threads;
    for (int k = 0; k < blocks * groups; ++k) {
        all.push_back(std::make_unique<ThreadBlock>());
        all.back()->memory.assign(shared / sizeof(float), NAN);
        for (int thread = 0; thread < THREADS; ++thread)
            threads.emplace_back([=, own = all.back().get()] {
                block = own, threadIdx = {thread, 0}, blockIdx = {k % blocks, k / blocks};
                call(kernel, values, std::make_index_sequence<96>());
            });
    }
    for (auto& thread : threads) thread.join();
}
