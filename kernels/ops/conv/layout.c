/* What our own convolutions share, put in front of them behind kernels/maths.c: operands in their layouts, channels of
 * images in lanes, what of an image an output meets. */
#pragma once

#define INLINE static inline __attribute__((always_inline))
#if defined(__AVX512F__) || defined(__aarch64__)
#define TILES(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14)
enum { TILE = 14 }; /* times two vectors of sums, two of filters, one of the image: 31 of 32 registers */
#else
#define TILES(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)
enum { TILE = 6 }; /* of 16 */
#endif
enum { WIDE = 2 * LANES, BLOCK = 16 };
enum { NCHW, NHWC, NCHW16C };
enum { FORWARD, DGRAD, WGRAD };

typedef struct {
    float *x, *w, *y, *scratch;
    int64_t images, channels, height, width, filters, rows, taps_across, stride, top, left, dilation, groups, down,
        across, layout, direction;
} problem;

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }
INLINE int64_t below(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/* Where an index of an axis lies that may be in blocks. */
typedef struct {
    int64_t block, outer, inner;
} axis;

INLINE int64_t at(axis a, int64_t i) { return i / a.block * a.outer + i % a.block * a.inner; }

/* Images in their layout: channels, pixels side by side, all of an image. */
typedef struct {
    axis channel;
    int64_t pixel, height, width, image;
} images;

static inline images images_of(const problem *p, int64_t channels, int64_t height, int64_t width)
{
    images m = {.height = height, .width = width, .image = channels * height * width};
    m.pixel = p->layout == NCHW ? 1 : p->layout == NHWC ? channels : BLOCK;
    m.channel = p->layout == NCHW16C ? (axis){BLOCK, BLOCK * height * width, 1}
                                     : (axis){1, p->layout == NHWC ? 1 : height * width, 0};
    return m;
}

typedef struct {
    axis filter, channel;
    int64_t tap;
} bank;

static inline bank bank_of(const problem *p)
{
    int64_t taps = p->rows * p->taps_across, channels = p->channels / p->groups;
    if (p->layout == NCHW) return (bank){{1, channels * taps, 0}, {1, taps, 0}, 1};
    if (p->layout == NHWC) return (bank){{1, channels * taps, 0}, {1, 1, 0}, channels};
    int64_t square = BLOCK * BLOCK;
    return (bank){{BLOCK, channels / BLOCK * taps * square, 1}, {BLOCK, taps * square, BLOCK}, square};
}

/* ---- lanes: channels of images side by side, a pixel a row ---- */

/* LANES × LANES floats transposed: each round puts the first half's rows between the second half's. */
INLINE void transposed(vec *a)
{
    ivec low, high;
    for (int i = 0; i < LANES; i++) {
        low[i] = i / 2 + i % 2 * LANES;
        high[i] = low[i] + LANES / 2;
    }
    for (int round = 1; round < LANES; round *= 2) {
        vec b[LANES];
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = __builtin_shuffle(a[i], a[i + LANES / 2], low);
            b[2 * i + 1] = __builtin_shuffle(a[i], a[i + LANES / 2], high);
        }
        for (int i = 0; i < LANES; i++) a[i] = b[i];
    }
}

/* `count` rows of `length`, `step` from one to the next, to columns: row i to lane i, of a pixel every `pitch`. */
static inline void to_lanes(const float *rows, int64_t step, int64_t count, int64_t length, float *lanes, int64_t pitch)
{
    for (int64_t first = 0; first < length; first += LANES) {
        int64_t some = least(LANES, length - first);
        vec a[LANES];
        if (some == LANES && count == LANES)
            for (int64_t i = 0; i < LANES; i++) a[i] = load(rows + i * step + first);
        else
            for (int64_t i = 0; i < LANES; i++) a[i] = i < count ? load_some(rows + i * step + first, some, 0) : all(0);
        transposed(a);
        for (int64_t i = 0; i < some; i++) store(lanes + (first + i) * pitch, a[i]);
    }
}

static inline void from_lanes(const float *lanes, int64_t pitch, float *rows, int64_t step, int64_t count,
                              int64_t length)
{
    for (int64_t first = 0; first < length; first += LANES) {
        int64_t some = least(LANES, length - first);
        vec a[LANES];
        for (int64_t i = 0; i < LANES; i++) a[i] = i < some ? load(lanes + (first + i) * pitch) : all(0);
        transposed(a);
        if (some == LANES)
            for (int64_t i = 0; i < count; i++) store(rows + i * step + first, a[i]);
        else
            for (int64_t i = 0; i < count; i++) store_some(rows + i * step + first, a[i], some);
    }
}

INLINE void put(float *to, const float *from, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) store(to + i, load(from + i));
    if (i < count) store_some(to + i, load_some(from + i, count - i, 0), count - i);
}

/* A row of pixels that lie `apart`; with `beside` those of LANES channels, each to a plane of its own. */
INLINE void put_apart(float *to, const float *from, int64_t apart, int beside, int64_t plane, int64_t count)
{
    if (beside)
        from_lanes(from, apart, to, plane, LANES, count);
    else if (apart == 1)
        put(to, from, count);
    else
        for (int64_t i = 0; i < count; i++) to[i] = from[i * apart];
}

/* ---- what of the source an output meets ---- */

/* Of one axis: output o of a phase reads, for a tap, the place `step` * o + shift of the source, `low` or more; a phase
 * is every `phases`th place of the result. */
typedef struct {
    int64_t phases, step, taps, stride, before, dilation, low, span;
    int gradient;
} reach;

static inline reach reach_of(const problem *p, int64_t taps, int64_t before, int64_t outputs, int64_t size)
{
    int64_t s = p->stride, last = (taps - 1) * p->dilation;
    if (p->direction != DGRAD)
        return (reach){1, s, taps, s, before, p->dilation, -before, (outputs - 1) * s + last + 1, 0};
    int64_t low = below(before - last, s);
    return (reach){s, 1, taps, s, before, p->dilation, low, below(size - 1 + before, s) - low + 1, 1};
}

/* The taps that a phase has, and their shifts. */
static inline int64_t taps_of(const reach *r, int64_t phase, int64_t *tap, int64_t *shift)
{
    int64_t count = 0;
    for (int64_t t = 0; t < r->taps; t++) {
        int64_t place = t * r->dilation - r->before;
        if (r->gradient) {
            if ((phase - place) % r->stride) continue;
            place = (phase - place) / r->stride;
        }
        tap[count] = t, shift[count++] = place;
    }
    return count;
}

static inline int64_t rounded(int64_t floats) { return ceiling(floats, 16) * 16; }

/* Floats of the vectors, one or two, that hold so many lanes. */
INLINE int64_t wide_of(int64_t lanes) { return lanes > LANES ? WIDE : LANES; }
