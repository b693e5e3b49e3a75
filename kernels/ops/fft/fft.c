/* The discrete Fourier transform of real images, h × w floats each, powers of two from 32 on, to half spectra; and back.
 * Rows, then columns (back: columns, then rows), LANES of them side by side in vectors: each pass transposes its rows to
 * lanes by tiles. A row of w reals is w/2 complex numbers, whose transform is split into that of the even places and
 * that of the odd ones; the two columns that are real then, 0 and w/2, go together as one complex column.
 * Transforms are Stockham's, of radix 4 with a last pass of radix 2. */

typedef struct { float re, im; } wave;
typedef struct { vec re, im; } numbers;

/* workspace: fft_workspace(h, w) bytes. waves: e^(∓2πik/w), k < w, then e^(∓2πik/h), k < h; − to a spectrum. */
typedef struct {
    const float *x;
    float *y;
    char *workspace;
    const wave *waves;
    int64_t batch, h, w;
} argument;

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")
enum { LINE = 16 }; /* floats beside each row between the passes: rows a power of two apart would share cache sets */

static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

INLINE numbers plus(numbers a, numbers b) { return (numbers){a.re + b.re, a.im + b.im}; }
INLINE numbers minus(numbers a, numbers b) { return (numbers){a.re - b.re, a.im - b.im}; }
INLINE numbers halved(numbers a) { return (numbers){0.5f * a.re, 0.5f * a.im}; }
INLINE numbers conjugate(numbers a) { return (numbers){a.re, -a.im}; }
INLINE numbers times(numbers a, wave b) { return (numbers){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
/* A quarter of a turn: times −i, or i on the way back. */
INLINE numbers turned(numbers a, int back) { return back ? (numbers){-a.im, a.re} : (numbers){a.im, -a.re}; }

/* One pass: `beside` transforms of 4·quarter elements become four times as many of `quarter`. */
INLINE void fours(const numbers *from, numbers *to, int64_t quarter, int64_t beside, const wave *waves, int64_t step,
                  int back)
{
    for (int64_t p = 0; p < quarter; p++) {
        wave first = waves[p * step], second = waves[2 * p * step], third = waves[3 * p * step];
        for (int64_t q = 0; q < beside; q++) {
            const numbers *z = from + p * beside + q;
            numbers a = z[0], b = z[quarter * beside], c = z[2 * quarter * beside], d = z[3 * quarter * beside];
            numbers even = plus(a, c), odd = plus(b, d), apart = minus(a, c), across = turned(minus(b, d), back);
            numbers *r = to + 4 * p * beside + q;
            r[0] = plus(even, odd);
            r[beside] = times(plus(apart, across), first);
            r[2 * beside] = times(minus(even, odd), second);
            r[3 * beside] = times(minus(apart, across), third);
        }
    }
}

/* Of n elements; `waves`: the first of n·every. The result lies in one of the two rooms, which is told. */
INLINE numbers *transform(numbers *from, numbers *to, int64_t n, const wave *waves, int64_t every, int back)
{
    int64_t beside = 1;
    for (; n / beside >= 4; beside *= 4) {
        fours(from, to, n / beside / 4, beside, waves, every * beside, back);
        numbers *written = to;
        to = from, from = written;
    }
    if (n / beside == 1) return from;
    for (int64_t q = 0; q < beside; q++)
        to[q] = plus(from[q], from[q + beside]), to[q + beside] = minus(from[q], from[q + beside]);
    return to;
}

/* From the transform of w/2 complex numbers to half the spectrum of w reals, of which element w/2 is the imaginary part
 * of element 0: both are real. */
static void split(numbers *z, int64_t n, const wave *waves)
{
    z[0] = (numbers){z[0].re + z[0].im, z[0].re - z[0].im};
    for (int64_t k = 1; 2 * k <= n; k++) {
        numbers a = z[k], b = conjugate(z[n - k]);
        numbers even = halved(plus(a, b)), odd = times(turned(halved(minus(a, b)), 0), waves[k]);
        z[k] = plus(even, odd);
        z[n - k] = conjugate(minus(even, odd));
    }
}

/* The reverse, times two. */
static void join(numbers *z, int64_t n, const wave *waves)
{
    z[0] = (numbers){z[0].re + z[0].im, z[0].re - z[0].im};
    for (int64_t k = 1; 2 * k <= n; k++) {
        numbers a = z[k], b = conjugate(z[n - k]);
        numbers even = plus(a, b), odd = turned(times(minus(a, b), waves[k]), 1);
        z[k] = plus(even, odd);
        z[n - k] = conjugate(minus(even, odd));
    }
}

/* LANES × LANES floats transposed: halves exchanged, then quarters … */
INLINE void transposed(vec *a)
{
    UNROLLED for (int d = LANES / 2; d; d /= 2) {
        ivec low, high;
        UNROLLED for (int l = 0; l < LANES; l++)
            low[l] = l & d ? LANES + l - d : l, high[l] = l & d ? LANES + l : l + d;
        UNROLLED for (int i = 0; i < LANES; i++) {
            if (i & d) continue;
            vec upper = a[i], lower = a[i + d];
            a[i] = __builtin_shuffle(upper, lower, low);
            a[i + d] = __builtin_shuffle(upper, lower, high);
        }
    }
}

/* Of LANES rows their elements of one column to a vector, `step` vectors from a column to the next. */
INLINE void to_lanes(const float *x, int64_t ld, vec *z, int64_t step)
{
    vec a[LANES];
    UNROLLED for (int i = 0; i < LANES; i++) a[i] = load(x + i * ld);
    transposed(a);
    UNROLLED for (int j = 0; j < LANES; j++) z[j * step] = a[j];
}

INLINE void from_lanes(const vec *z, int64_t step, float *y, int64_t ld)
{
    vec a[LANES];
    UNROLLED for (int j = 0; j < LANES; j++) a[j] = z[j * step];
    transposed(a);
    UNROLLED for (int i = 0; i < LANES; i++) store(y + i * ld, a[i]);
}

/* LANES complex numbers, real and imaginary parts by turns. */
INLINE numbers load_pairs(const float *x)
{
    ivec even, odd;
    UNROLLED for (int l = 0; l < LANES; l++) even[l] = 2 * l, odd[l] = 2 * l + 1;
    vec low = load(x), high = load(x + LANES);
    return (numbers){__builtin_shuffle(low, high, even), __builtin_shuffle(low, high, odd)};
}

INLINE void store_pairs(float *y, numbers z)
{
    ivec low, high;
    UNROLLED for (int l = 0; l < LANES; l++) low[l] = l / 2 + l % 2 * LANES, high[l] = low[l] + LANES / 2;
    store(y, __builtin_shuffle(z.re, z.im, low));
    store(y + LANES, __builtin_shuffle(z.re, z.im, high));
}

/* Between the passes: real and imaginary parts, h × half; two rooms for LANES rows or columns. */
typedef struct {
    float *re, *im;
    numbers *one, *other;
    int64_t half, ld;
} room;

static room rooms(const argument *p)
{
    int64_t half = p->w / 2, ld = half + LINE;
    float *re = (float *)p->workspace;
    numbers *one = (numbers *)(re + 2 * p->h * ld);
    return (room){re, re + p->h * ld, one, one + most(p->h, half), half, ld};
}

int64_t fft_workspace(int64_t h, int64_t w)
{
    return 2 * (h * (w / 2 + LINE) * (int64_t)sizeof(float) + most(h, w / 2) * (int64_t)sizeof(numbers));
}

static void rows_forward(const argument *p, const room *r, const float *x)
{
    for (int64_t i = 0; i < p->h; i += LANES) {
        for (int64_t j = 0; j < p->w; j += LANES) to_lanes(x + i * p->w + j, p->w, (vec *)r->one + j, 1);
        numbers *z = transform(r->one, r->other, r->half, p->waves, 2, 0);
        split(z, r->half, p->waves);
        for (int64_t k = 0; k < r->half; k += LANES) {
            from_lanes(&z[k].re, 2, r->re + i * r->ld + k, r->ld);
            from_lanes(&z[k].im, 2, r->im + i * r->ld + k, r->ld);
        }
    }
}

static void rows_back(const argument *p, const room *r, float *y)
{
    for (int64_t i = 0; i < p->h; i += LANES) {
        for (int64_t k = 0; k < r->half; k += LANES) {
            to_lanes(r->re + i * r->ld + k, r->ld, &r->one[k].re, 2);
            to_lanes(r->im + i * r->ld + k, r->ld, &r->one[k].im, 2);
        }
        join(r->one, r->half, p->waves);
        const numbers *z = transform(r->one, r->other, r->half, p->waves, 2, 1);
        for (int64_t j = 0; j < p->w; j += LANES) from_lanes((const vec *)z + j, 1, y + i * p->w + j, p->w);
    }
}

/* Columns 0 and w/2 out of the transform of both as one complex column, which lies in the first lane. */
static void unpack(const numbers *z, float *y, int64_t h, int64_t half)
{
    for (int64_t i = 0; i < h; i++) {
        const numbers *a = z + i, *b = z + (h - i) % h;
        float *row = y + 2 * i * (half + 1);
        row[0] = 0.5f * (a->re[0] + b->re[0]), row[1] = 0.5f * (a->im[0] - b->im[0]);
        row[2 * half] = 0.5f * (a->im[0] + b->im[0]), row[2 * half + 1] = 0.5f * (b->re[0] - a->re[0]);
    }
}

/* The reverse. Of each column that part counts alone whose transform is real. */
static void pack(const float *x, numbers *z, int64_t h, int64_t half)
{
    for (int64_t i = 0; i < h; i++) {
        const float *a = x + 2 * i * (half + 1), *b = x + 2 * ((h - i) % h) * (half + 1);
        const float *c = a + 2 * half, *d = b + 2 * half;
        z[i].re[0] = 0.5f * (a[0] + b[0] - c[1] + d[1]);
        z[i].im[0] = 0.5f * (a[1] - b[1] + c[0] + d[0]);
    }
}

static void columns_forward(const argument *p, const room *r, float *y)
{
    for (int64_t k = 0; k < r->half; k += LANES) {
        for (int64_t i = 0; i < p->h; i++)
            r->one[i] = (numbers){load(r->re + i * r->ld + k), load(r->im + i * r->ld + k)};
        const numbers *z = transform(r->one, r->other, p->h, p->waves + p->w, 1, 0);
        for (int64_t i = 0; i < p->h; i++) store_pairs(y + 2 * (i * (r->half + 1) + k), z[i]);
        if (k == 0) unpack(z, y, p->h, r->half);
    }
}

static void columns_back(const argument *p, const room *r, const float *x)
{
    vec scale = all(1.0f / (p->h * p->w));
    for (int64_t k = 0; k < r->half; k += LANES) {
        for (int64_t i = 0; i < p->h; i++) r->one[i] = load_pairs(x + 2 * (i * (r->half + 1) + k));
        if (k == 0) pack(x, r->one, p->h, r->half);
        const numbers *z = transform(r->one, r->other, p->h, p->waves + p->w, 1, 1);
        for (int64_t i = 0; i < p->h; i++) store(r->re + i * r->ld + k, scale * z[i].re);
        for (int64_t i = 0; i < p->h; i++) store(r->im + i * r->ld + k, scale * z[i].im);
    }
}

void fft_r2c(const argument *p)
{
    room r = rooms(p);
    for (int64_t image = 0; image < p->batch; image++) {
        rows_forward(p, &r, p->x + image * p->h * p->w);
        columns_forward(p, &r, p->y + image * p->h * 2 * (r.half + 1));
    }
}

void fft_c2r(const argument *p)
{
    room r = rooms(p);
    for (int64_t image = 0; image < p->batch; image++) {
        columns_back(p, &r, p->x + image * p->h * 2 * (r.half + 1));
        rows_back(p, &r, p->y + image * p->h * p->w);
    }
}
