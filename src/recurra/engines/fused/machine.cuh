// The instructions of a GPU that `steps.cuh` is made of. Tests have another file of this name, for processors.

#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)

struct bfloat16 { unsigned short bits; };
struct float16 { unsigned short bits; };

DEVICE float* shared_memory() {
    extern __shared__ __align__(16) float memory[];
    return memory;
}
DEVICE void sync() { __syncthreads(); }
DEVICE void pause(int cycles) {
    const int begin = clock();
    while (clock() - begin < cycles) {}
}
DEVICE bool any(bool here) { return __any_sync(0xffffffffu, here); }

DEVICE float wide(float v) { return v; }
DEVICE float wide(bfloat16 v) { return __uint_as_float(unsigned(v.bits) << 16); }
DEVICE float wide(float16 v) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(v.bits));
    return result;
}
DEVICE unsigned bits_of(bfloat16 v) { return v.bits; }
DEVICE unsigned bits_of(float16 v) { return v.bits; }
DEVICE unsigned bits_of(float v) { return __float_as_uint(v); }
// Two numbers in one word. Of a NaN it makes 0x7fff, or of a float 0x7fffffff.
DEVICE unsigned narrow(float low, float high, bfloat16) {
    unsigned result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}
DEVICE unsigned narrow(float low, float high, float16) {
    unsigned result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

DEVICE uint2 narrow(float low, float high, float) {
    const auto canonical = [](float v) { return v == v ? __float_as_uint(v) : 0x7fffffffu; };
    return {canonical(low), canonical(high)};
}

// Past the first-level cache, which does not see what others store.
DEVICE uint4 peek(const void* at) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    return v;
}
DEVICE void put_word(void* at, unsigned v) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(at), "r"(v) : "memory");
}

DEVICE void put_word(void* at, uint2 v) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(at), "l"(v.x | (unsigned long long)v.y << 32) : "memory");
}

#define MATRIX_UNIT(SHAPE, TYPE) \
    asm("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 " \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" \
        : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(sum[0]), "f"(sum[1]), "f"(sum[2]), "f"(sum[3]))
DEVICE void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, bfloat16) {
    MATRIX_UNIT("m16n8k16", "bf16");
}
DEVICE void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float16) {
    MATRIX_UNIT("m16n8k16", "f16");
}

DEVICE void multiply_add_tf32(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { MATRIX_UNIT("m16n8k8", "tf32"); }
// The matrix unit takes the upper 19 bits of a float; what they leave is taken in two more products. The upper ones are rounded:
// cut off, all they leave would have one sign, and so would all errors of a sum. The parts of weights are KEPT from step to
// step, or, where that takes too many registers, made anew.
DEVICE unsigned upper(unsigned v) { return (v + 0x1000u) & 0xffffe000u; }
DEVICE unsigned upper_now(unsigned v) {
    unsigned result;
    asm volatile("{ add.u32 %0, %1, 0x1000; and.b32 %0, %0, 0xffffe000; }" : "=r"(result) : "r"(v));
    return result;
}
DEVICE unsigned rest(unsigned v, unsigned upper) { return __float_as_uint(__uint_as_float(v) - __uint_as_float(upper)); }
DEVICE void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float) {
    if (EXACT) {
        const unsigned high[4] = {upper(a[0]), upper(a[1]), upper(a[2]), upper(a[3])};
        const unsigned low[4] = {rest(a[0], high[0]), rest(a[1], high[1]), rest(a[2], high[2]), rest(a[3], high[3])};
        const unsigned b0_high = KEPT ? upper(b0) : upper_now(b0), b1_high = KEPT ? upper(b1) : upper_now(b1);
        multiply_add_tf32(sum, low, b0_high, b1_high);
        multiply_add_tf32(sum, high, rest(b0, b0_high), rest(b1, b1_high));
        multiply_add_tf32(sum, high, b0_high, b1_high);
    } else {
        multiply_add_tf32(sum, a, b0, b1);
    }
}

// The same address, which the compiler then does not compute anew for each read.
template <class kind>
DEVICE const kind* pinned(const kind* at) {
    asm volatile("" : "+l"(at));
    return at;
}

DEVICE float infinity() { return __uint_as_float(0x7f800000u); }
DEVICE float not_a_number() { return __uint_as_float(0x7fffffffu); }
DEVICE float exponential(float v) { return __expf(v); }
DEVICE float quotient(float a, float b) { return __fdividef(a, b); }
DEVICE float coarse_tanh(float v) {  // to 11 bits; bfloat16 has 8
    float result;
    asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(v));
    return result;
}
