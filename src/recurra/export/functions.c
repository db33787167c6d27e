/* bits of a float, which no option of a compiler reasons about: NaN is found under -ffast-math as well */
typedef union {
    float number;
    int32_t bits;
} real_bits;

static inline float real_from(int32_t bits)
{
    real_bits v;
    v.bits = bits;
    return v.number;
}

static inline int32_t real_to(float number)
{
    real_bits v;
    v.number = number;
    return v.bits;
}

static inline int real_is_nan(float x)
{
    return (real_to(x) & 0x7fffffff) > 0x7f800000;
}

/* 2^n for n from -126 to 127 */
static inline float real_power_of_two(int32_t n)
{
    return real_from((int32_t)((uint32_t)(n + 127) << 23));
}

/* the whole number n nearest to x / ln 2: adding 1.5 * 2^23 rounds, and leaves n in the low bits */
static inline int32_t real_exponent(float x)
{
    return real_to(x * 1.44269504f + 12582912.0f) - 0x4b400000;
}

/* e^r - 1 with r = x - n ln 2, |r| <= ln 2 / 2, by its Taylor series: no cancellation near 0 */
static inline float real_reduced(float x, int32_t n)
{
    const float r = (x - (float)n * 0.693359375f) - (float)n * -2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    return r + r * r * p;
}

/* a choice by masks: written as conditions, compilers follow each bound on a path of its own, and then no loop becomes vectors */
static inline float real_clamp(float x, float low, float high)
{
    const int32_t below = -(x < low), above = -(x > high);
    return real_from((real_to(x) & ~(below | above)) | (real_to(low) & below) | (real_to(high) & above));
}

static inline float real_exp(float x)
{
    const float y = real_clamp(x, -104.0f, 89.0f);
    const int32_t n = real_exponent(y), half = n / 2; /* 2^n alone overflows before exp does */
    return (real_reduced(y, n) + 1.0f) * real_power_of_two(half) * real_power_of_two(n - half);
}

static inline float real_sigmoid(float x)
{
    const float y = real_clamp(-x, -87.0f, 87.0f);
    const int32_t n = real_exponent(y);
    const float s = real_power_of_two(n);
    return 1.0f / (1.0f + (real_reduced(y, n) * s + s));
}

/* (e^2x - 1) / (e^2x + 1); 1 - tanh(10) is below rounding */
static inline float real_tanh(float x)
{
    const float y = 2.0f * real_clamp(x, -10.0f, 10.0f);
    const int32_t n = real_exponent(y);
    const float s = real_power_of_two(n), t = real_reduced(y, n) * s + (s - 1.0f);
    return t / (t + 2.0f);
}

static inline float real_relu(float x)
{
    return x < 0.0f ? 0.0f : x;
}

static inline float real_abs(float x)
{
    return real_from(real_to(x) & 0x7fffffff);
}

static inline float real_sign(float x)
{
    return (float)((x > 0.0f) - (x < 0.0f));
}

static inline float real_minimum(float a, float b)
{
    return (a < b) | real_is_nan(a) ? a : b;
}

static inline float real_maximum(float a, float b)
{
    return (a > b) | real_is_nan(a) ? a : b;
}

static inline float real_softplus(float x)
{
    return real_relu(x) + log1pf(real_exp(-real_abs(x)));
}

/* the remainder has the sign of b, as in Python */
static inline float real_remainder(float a, float b)
{
    const float r = fmodf(a, b);
    return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

/* whole numbers alone lie past 2^23 */
static inline float real_floor(float x)
{
    float whole;
    if (!(real_abs(x) < 8388608.0f)) return x;
    whole = (float)(int32_t)x;
    return whole > x ? whole - 1.0f : whole;
}

/* 1 / sqrt(x) by Newton's method from the exponent, and one more step for the root itself */
static inline float real_sqrt(float x)
{
    float scale = 1.0f, r, s;
    if (x == 0.0f || real_to(x) == 0x7f800000) return x;
    if (x < 0.0f || real_is_nan(x)) return real_from(0x7fc00000);
    if (x < 1.17549435e-38f) {
        x *= 16777216.0f;
        scale = 1.0f / 4096.0f;
    }
    r = real_from(0x5f3759df - real_to(x) / 2);
    r *= 1.5f - 0.5f * x * r * r;
    r *= 1.5f - 0.5f * x * r * r;
    r *= 1.5f - 0.5f * x * r * r;
    s = x * r;
    return (s + r * 0.5f * (x - s * s)) * scale;
}

/* x = 2^e m with m from sqrt(1/2) to sqrt(2); log m by the minimax polynomial of Cephes */
static inline float real_log(float x)
{
    int32_t e = 0;
    float m, z, p;
    if (x == 0.0f) return real_from((int32_t)-0x00800000);
    if (x < 0.0f || real_is_nan(x)) return real_from(0x7fc00000);
    if (real_to(x) == 0x7f800000) return x;
    if (x < 1.17549435e-38f) {
        x *= 8388608.0f;
        e = -23;
    }
    e += (real_to(x) >> 23) - 126;
    m = real_from((real_to(x) & 0x007fffff) | 0x3f000000);
    if (m < 0.707106781f) {
        m += m;
        e -= 1;
    }
    m -= 1.0f;
    z = m * m;
    p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * z - 2.12194440e-4f * (float)e - 0.5f * z;
    return m + p + 0.693359375f * (float)e;
}

/* 1 + x loses digits of x: what was lost comes back as a first-order term */
static inline float real_log1p(float x)
{
    const float u = 1.0f + x;
    return real_log(u) - ((u - 1.0f) - x) / u;
}

/* x less a multiple of pi / 2, in three parts; exact enough for |x| up to 8192 */
static inline float real_quarter(float x, int32_t *n)
{
    const float k = real_floor(x * 0.636619772f + 0.5f);
    *n = real_abs(k) < 1e9f ? (int32_t)k : 0;
    return ((x - k * 1.5703125f) - k * 4.83751296997e-4f) - k * 7.54978995489e-8f;
}

/* sine or cosine within a quarter of a turn around 0, of the turn that n counts */
static inline float real_wave(float r, int32_t n)
{
    const float z = r * r;
    const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    const float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z
        - 0.5f * z + 1.0f;
    const float v = n & 1 ? c : s;
    return n & 2 ? -v : v;
}

static inline float real_sin(float x)
{
    int32_t n;
    const float r = real_quarter(x, &n);
    return real_wave(r, n);
}

static inline float real_cos(float x)
{
    int32_t n;
    const float r = real_quarter(x, &n);
    return real_wave(r, n + 1);
}

/* the Taylor series up to 1; beyond, the Chebyshev fit of erfc in Numerical Recipes (relative error 1.2e-7) */
static inline float real_erf(float x)
{
    const float a = real_abs(x), z = x * x;
    if (a < 1.0f) {
        float p = 1.0f / 76204800.0f;
        p = p * -z + 1.0f / 6894720.0f;
        p = p * -z + 1.0f / 685440.0f;
        p = p * -z + 1.0f / 75600.0f;
        p = p * -z + 1.0f / 9360.0f;
        p = p * -z + 1.0f / 1320.0f;
        p = p * -z + 1.0f / 216.0f;
        p = p * -z + 1.0f / 42.0f;
        p = p * -z + 1.0f / 10.0f;
        p = p * -z + 1.0f / 3.0f;
        p = p * -z + 1.0f;
        return x * p * 1.12837917f;
    } else {
        const float t = 1.0f / (1.0f + 0.5f * real_clamp(a, 0.0f, 9.0f));
        float p = 0.17087277f;
        p = p * t - 0.82215223f;
        p = p * t + 1.48851587f;
        p = p * t - 1.13520398f;
        p = p * t + 0.27886807f;
        p = p * t - 0.18628806f;
        p = p * t + 0.09678418f;
        p = p * t + 0.37409196f;
        p = p * t + 1.00002368f;
        p = 1.0f - t * real_exp(p * t - 1.26551223f - real_clamp(z, 0.0f, 81.0f));
        return x < 0.0f ? -p : p;
    }
}

/* exact: each difference of two numbers within a factor of 2 is */
static inline float real_fmod(float a, float b)
{
    float x = real_abs(a), y = real_abs(b);
    if (real_is_nan(b) || !(x < real_from(0x7f800000)) || !(y > 0.0f)) return real_from(0x7fc00000);
    while (x >= y) {
        float t = y;
        while (t <= 0.5f * x) t *= 2.0f;
        x -= t;
    }
    return a < 0.0f ? -x : x;
}

/* whole powers by squaring, all others by logarithm: whole numbers alone lie past 2^23, even ones past 2^24 */
static inline float real_power(float a, float b)
{
    if (real_abs(b) < 16777216.0f && real_floor(b) == b) {
        float y = 1.0f;
        int32_t n;
        for (n = (int32_t)real_abs(b); n; n >>= 1, a *= a)
            if (n & 1) y *= a;
        return b < 0.0f ? 1.0f / y : y;
    }
    if (a == 0.0f) return b < 0.0f ? real_from(0x7f800000) : b * 0.0f;
    if (a < 0.0f && real_abs(b) < 16777216.0f) return real_from(0x7fc00000);
    return real_exp(b * real_log(real_abs(a)));
}

static inline void real_copy(const float *restrict from, float *restrict to, int count)
{
    int k;
    for (k = 0; k < count; ++k) to[k] = from[k];
}

/* out = bias + W v. W lies column by column, so that neighbours in memory are neighbouring rows; four columns at a time */
static void real_multiply(
    const float *restrict w, const float *restrict bias, const float *restrict v, float *restrict out, int rows, int columns)
{
    int j, k;
    for (k = 0; k < rows; ++k) out[k] = bias ? bias[k] : 0.0f;
    for (j = 0; j + 3 < columns; j += 4, w += 4 * rows) {
        const float a = v[j], b = v[j + 1], c = v[j + 2], d = v[j + 3];
        const float *restrict wb = w + rows, *restrict wc = wb + rows, *restrict wd = wc + rows;
        for (k = 0; k < rows; ++k) out[k] = out[k] + (w[k] * a + wb[k] * b) + (wc[k] * c + wd[k] * d);
    }
    for (; j < columns; ++j, w += rows)
        for (k = 0; k < rows; ++k) out[k] += w[k] * v[j];
}

/* the same of 8-bit weights, each row with a scale of its own */
static void real_multiply_int8(
    const int8_t *restrict w, const float *restrict scale, const float *restrict bias, const float *restrict v,
    float *restrict out, int rows, int columns)
{
    int j, k;
    for (k = 0; k < rows; ++k) out[k] = 0.0f;
    for (j = 0; j + 3 < columns; j += 4, w += 4 * rows) {
        const float a = v[j], b = v[j + 1], c = v[j + 2], d = v[j + 3];
        const int8_t *restrict wb = w + rows, *restrict wc = wb + rows, *restrict wd = wc + rows;
        for (k = 0; k < rows; ++k)
            out[k] = out[k] + ((float)w[k] * a + (float)wb[k] * b) + ((float)wc[k] * c + (float)wd[k] * d);
    }
    for (; j < columns; ++j, w += rows)
        for (k = 0; k < rows; ++k) out[k] += (float)w[k] * v[j];
    for (k = 0; k < rows; ++k) out[k] = out[k] * scale[k] + (bias ? bias[k] : 0.0f);
}

/* out = bias + W v of few rows, which lie row by row */
static void real_multiply_rows(
    const float *restrict w, const float *restrict bias, const float *restrict v, float *restrict out, int rows, int columns)
{
    int j, k, r;
    for (r = 0; r < rows; ++r, w += columns) {
        float sum[8] = {0.0f};
        for (j = 0; j + 7 < columns; j += 8)
            for (k = 0; k < 8; ++k) sum[k] += w[j + k] * v[j + k];
        for (k = 0; k < 8 && j < columns; ++j, ++k) sum[k] += w[j] * v[j];
        out[r] = bias ? bias[r] : 0.0f;
        for (k = 0; k < 8; ++k) out[r] += sum[k];
    }
}

static void real_multiply_rows_int8(
    const int8_t *restrict w, const float *restrict scale, const float *restrict bias, const float *restrict v,
    float *restrict out, int rows, int columns)
{
    int j, k, r;
    for (r = 0; r < rows; ++r, w += columns) {
        float sum[8] = {0.0f}, total = 0.0f;
        for (j = 0; j + 7 < columns; j += 8)
            for (k = 0; k < 8; ++k) sum[k] += (float)w[j + k] * v[j + k];
        for (k = 0; k < 8 && j < columns; ++j, ++k) sum[k] += (float)w[j] * v[j];
        for (k = 0; k < 8; ++k) total += sum[k];
        out[r] = total * scale[r] + (bias ? bias[r] : 0.0f);
    }
}

/* a row of a table; a token that is none of it is read as 0 */
static inline void real_row(const float *restrict table, int32_t token, float *restrict out, int size, int tokens)
{
    int k;
    if (token > 0 && token < tokens) table += (long)token * size;
    for (k = 0; k < size; ++k) out[k] = table[k];
}

static inline void real_row_int8(
    const int8_t *restrict table, const float *restrict scale, int32_t token, float *restrict out, int size, int tokens)
{
    int k;
    if (token > 0 && token < tokens) {
        table += (long)token * size;
        scale += token;
    }
    for (k = 0; k < size; ++k) out[k] = (float)table[k] * *scale;
}
