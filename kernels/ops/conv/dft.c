/* The products of a convolution by frequency, with the filter's transform as a product too: its taps times the matrix of
 * the discrete Fourier transform, for a few frequencies at a time, whose spectra are used while they lie in a cache.
 * Complex numbers are pairs of real matrices there: [Re; Im] Re(w) and [Im; -Re] Im(w) are two real products. */
#include <stdint.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112, FORWARD = 0, DGRAD = 1, LINE = 16 };

typedef struct { float re, im; } complex_float;
typedef void (*sgemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef void (*sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                        int64_t, float, float *, int64_t);

/* x, y: spectra by frequency. w: filters, or their gradient. matrix: for each frequency and its two parts a row of taps.
 * Room: `order` for w, `spectra` for `at_once` frequencies of it, `images` and `results` for one of x and y. */
typedef struct {
    complex_float *x, *y;
    const float *matrix;
    float *w, *order, *spectra, *images, *results;
    void *gemm;
    int64_t frequencies, at_once, n, c, k, taps, pass, wide;
} dft;

static void gemm(const dft *p, int ta, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                 float beta, float *c)
{
    if (p->wide)
        ((sgemm64)p->gemm)(ROW_MAJOR, ta, NO_TRANS, m, n, k, 1, a, lda, b, n, beta, c, n);
    else
        ((sgemm32)p->gemm)(ROW_MAJOR, ta, NO_TRANS, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)n, beta, c, (int)n);
}

/* From outer x inner x taps to taps x inner x outer. */
static void reorder(const float *w, float *order, int64_t outer, int64_t inner, int64_t taps)
{
    for (int64_t o = 0; o < outer; o += LINE) {
        int64_t here = outer - o < LINE ? outer - o : LINE;
        for (int64_t i = 0; i < inner; i++)
            for (int64_t t = 0; t < taps; t++) {
                float *to = order + (t * inner + i) * outer + o;
                for (int64_t j = 0; j < here; j++) to[j] = w[((o + j) * inner + i) * taps + t];
            }
    }
}

/* Re, Im and -Re, one behind another. */
static void split(const complex_float *z, int64_t count, float *parts)
{
    for (int64_t i = 0; i < count; i++)
        parts[i] = z[i].re, parts[count + i] = z[i].im, parts[2 * count + i] = -z[i].re;
}

/* -Im, Re and Im. */
static void split_turned(const complex_float *z, int64_t count, float *parts)
{
    for (int64_t i = 0; i < count; i++)
        parts[i] = -z[i].im, parts[count + i] = z[i].re, parts[2 * count + i] = z[i].im;
}

static void join(const float *parts, int64_t count, complex_float *z)
{
    for (int64_t i = 0; i < count; i++) z[i] = (complex_float){parts[i], parts[count + i]};
}

/* y = x times the conjugate of w; w is c x k. */
static void forward(const dft *p, int64_t f, const float *w)
{
    const int64_t n = p->n, c = p->c, k = p->k;
    split(p->x + f * n * c, n * c, p->images);
    gemm(p, NO_TRANS, 2 * n, k, c, p->images, c, w, 0, p->results);
    gemm(p, NO_TRANS, 2 * n, k, c, p->images + n * c, c, w + k * c, 1, p->results);
    join(p->results, n * k, p->y + f * n * k);
}

/* x = y w; w is k x c. */
static void dgrad(const dft *p, int64_t f, const float *w)
{
    const int64_t n = p->n, c = p->c, k = p->k;
    split_turned(p->y + f * n * k, n * k, p->results);
    gemm(p, NO_TRANS, 2 * n, c, k, p->results + n * k, k, w, 0, p->images);
    gemm(p, NO_TRANS, 2 * n, c, k, p->results, k, w + k * c, 1, p->images);
    join(p->images, n * c, p->x + f * n * c);
}

/* w = conjugate of y, transposed, times x. */
static void wgrad(const dft *p, int64_t f, float *w)
{
    const int64_t n = p->n, c = p->c, k = p->k;
    split(p->y + f * n * k, n * k, p->results);
    split(p->x + f * n * c, n * c, p->images);
    gemm(p, TRANS, k, c, 2 * n, p->results, k, p->images, 0, w);
    gemm(p, TRANS, k, c, 2 * n, p->results, k, p->images + n * c, 0, w + k * c);
}

void dft_products(const dft *p)
{
    const int64_t planes = p->k * p->c, taps = p->taps;
    if (p->pass == FORWARD) reorder(p->w, p->order, p->k, p->c, taps);
    if (p->pass == DGRAD) reorder(p->w, p->order, planes, 1, taps);
    for (int64_t first = 0; first < p->frequencies; first += p->at_once) {
        int64_t left = p->frequencies - first, here = left < p->at_once ? left : p->at_once;
        const float *matrix = p->matrix + 2 * first * taps;
        if (p->pass <= DGRAD) gemm(p, NO_TRANS, 2 * here, planes, taps, matrix, taps, p->order, 0, p->spectra);
        for (int64_t f = 0; f < here; f++) {
            float *w = p->spectra + 2 * f * planes;
            if (p->pass == FORWARD) forward(p, first + f, w);
            else if (p->pass == DGRAD) dgrad(p, first + f, w);
            else wgrad(p, first + f, w);
        }
        if (p->pass > DGRAD) gemm(p, TRANS, planes, taps, 2 * here, p->spectra, planes, matrix, first > 0, p->w);
    }
}
