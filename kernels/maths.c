/* Element-wise mathematics on whole vectors of floats, put in front of the files that need it; see maths.py.
 * Largest errors in units of the last place, of one float in 97 against double precision (gcc 12, AVX-512 and
 * AVX2; SSE in brackets where it differs): exp_of 1.01, exp_of_negative 3.00 (3.44) between -1 and 0, expm1_of 1.43
 * (1.54), sigmoid_of 2.30 (2.43), tanh_of 2.40, log_of 0.78. tests/native/test_maths.py keeps them under 3 and 4. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
enum { LANES = 16 };
#elif defined(__AVX__)
#include <immintrin.h>
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { UNROLL = 4 };

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec v) { *(vec *)p = v; }
static inline vec all(float v) { return v - (vec){0}; }
static inline vec pick(ivec where, vec a, vec b) { return (vec)((where & (ivec)a) | (~where & (ivec)b)); }

/* `b` where either is no number. */
#if defined(__AVX512F__)
static inline vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vec smaller(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
#elif defined(__AVX__)
static inline vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
#else
static inline vec larger(vec a, vec b) { return pick(a > b, a, b); }
static inline vec smaller(vec a, vec b) { return pick(a < b, a, b); }
#endif

/* The first `count` elements, LANES at most, then `rest`; and back. */
#if defined(__AVX512F__)
static inline vec load_some(const float *p, int64_t count, float rest)
{
    return (vec)_mm512_mask_loadu_ps((__m512)all(rest), (1u << count) - 1, p);
}

static inline void store_some(float *p, vec v, int64_t count)
{
    _mm512_mask_storeu_ps(p, (1u << count) - 1, (__m512)v);
}
#else
static inline vec load_some(const float *p, int64_t count, float rest)
{
    float v[LANES];
    for (int i = 0; i < LANES; i++) v[i] = i < count ? p[i] : rest;
    return load(v);
}

static inline void store_some(float *p, vec v, int64_t count) { memcpy(p, &v, 4 * count); }
#endif

static inline float sum_of(vec v)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++) sum += v[i];
    return sum;
}

static inline float largest_of(vec v)
{
    float found = v[0];
    for (int i = 1; i < LANES; i++) found = v[i] > found ? v[i] : found;
    return found;
}

/* x = n·ln 2 + r with |r| <= ln 2 / 2: 2^n by its exponent's bits, e^r − 1 by a polynomial (Cephes, expf).
 * ln 2 in two parts, the first with zeros at its end: n times it is exact. */
#define ROUND 12582912.0f /* 1.5·2^23: adding it leaves the whole number in the last bits */

static inline vec reduced(vec x, vec *n)
{
    *n = (x * 1.44269504f + ROUND) - ROUND;
    vec r = x - *n * 0.693359375f + *n * 2.12194440e-4f;
    vec q = ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r +
             1.6666665459e-1f) * r + 5.0000001201e-1f;
    return r * r * q + r;
}

static inline vec power_of_two(vec n)
{
    ivec bits = (ivec)(n + (ROUND + 127.0f)) << 23;
    return (vec)bits;
}

/* Infinite above 88.73, 0 below −104; NaN of NaN. */
static inline vec exp_of(vec x)
{
    vec n;
    x = larger(all(-104.0f), smaller(all(89.0f), x));
    vec p = reduced(x, &n) + 1.0f;
#if defined(__AVX512F__)
    return (vec)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    vec half = (n * 0.5f + ROUND) - ROUND; /* 2^n itself may be no float */
    return p * power_of_two(half) * power_of_two(n - half);
#endif
}

/* e^x for a softmax, of x below 14 or so, in fewer steps: as good as 0 below −87, large or infinite above 88.
 * x·log2 e = n + f. log2 e being rounded, the result is off by x times a third of a roundoff more, as the
 * difference that x is may be off itself. */
#define LOG2E 1.44269504f

#if defined(__AVX512F__)
/* n in 32nds, |f| <= 1/64: a table in two registers, and a parabola for 2^f (minimax, 0.9 unit roundoffs). */
static const float powers[2 * LANES] = { /* 2^(i/32) */
    1.0f,        1.0218972f,  1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,  1.13878858f, 1.1637249f,
    1.18920708f, 1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f, 1.35425556f, 1.38390994f,
    1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f, 1.5759809f,  1.61049032f, 1.64575553f,
    1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f, 1.8340081f,  1.87416768f, 1.91520655f, 1.95714414f,
};

static inline vec exp_of_negative(vec x)
{
    x = larger(all(-87.0f), x);
    vec z = x * LOG2E + ROUND / 32, n = z - ROUND / 32, f = x * LOG2E - n; /* z's last bits: which of the table */
    __m512 part = _mm512_permutex2var_ps((__m512)load(powers), (__m512i)z, (__m512)load(powers + LANES));
    vec p = (2.40226763e-1f * f + 6.93157334e-1f) * f + 1.0f;
    return (vec)_mm512_scalef_ps(part, (__m512)n) * p;
}
#else
/* n whole, |f| <= 1/2: 2^f by a polynomial (minimax in relative error, 1.3 unit roundoffs). */
static inline vec exp_of_negative(vec x)
{
    x = larger(all(-87.0f), smaller(all(88.0f), x));
    vec n = (x * LOG2E + ROUND) - ROUND, f = x * LOG2E - n;
    vec p = ((((1.32764713e-3f * f + 9.67554189e-3f) * f + 5.55071346e-2f) * f + 2.40221202e-1f) * f +
             6.93146944e-1f) * f + 1.00000012f;
    return p * power_of_two(n);
}
#endif

/* Of 0 <= x <= 80: near 0 with all its figures, which e^x − 1 has not. */
static inline vec expm1_of(vec x)
{
    vec n, p = reduced(x, &n), scale = power_of_two(n);
    return scale * p + (scale - 1.0f);
}

static inline vec sigmoid_of(vec x) { return 1.0f / (1.0f + exp_of(-x)); }

static inline vec tanh_of(vec x)
{
    const ivec sign = {0};
    ivec high = (sign | INT32_MIN) & (ivec)x;
    vec size = (vec)((ivec)x & INT32_MAX);
    vec twice = 2.0f * size;
    vec e = expm1_of(smaller(all(20.0f), twice));
    return (vec)((ivec)(e / (e + 2.0f)) | high);
}

/* x = 2^n·m with m between √½ and √2, ln m by a polynomial (Cephes, logf). −∞ of 0 and less than a normal
 * number; finite arguments. */
static inline vec log_of(vec x)
{
    ivec bits = (ivec)x - 0x3f3504f3; /* √½ */
    vec n = __builtin_convertvector(bits >> 23, vec);
    vec m = (vec)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f, z = m * m;
    vec p = ((((((((7.0376836292e-2f * m - 1.1514610310e-1f) * m + 1.1676998740e-1f) * m - 1.2420140846e-1f) * m +
                 1.4249322787e-1f) * m - 1.6668057665e-1f) * m + 2.0000714765e-1f) * m - 2.4999993993e-1f) * m +
             3.3333331174e-1f) * m * z;
    vec found = m - (0.5f * z - (p - 2.12194440e-4f * n)) + 0.693359375f * n;
    return pick(x < 1.17549435e-38f, all(-INFINITY), found);
}
