/* What a convolution by whole-image transforms does beside the transforms: planes into frames of zeros and out of
 * them, spectra from plane by plane to frequency by frequency and back, and a product for each frequency.
 * Plane by plane: [planes][frequencies]; frequency by frequency: [frequencies][planes]. */
#include <stdint.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112, CONJ_TRANS = 113, TILE = 8 };

typedef struct { float re, im; } complex_float;
typedef void (*cgemm32)(int, int, int, int, int, int, const void *, const void *, int, const void *, int, const void *,
                        void *, int);
typedef void (*cgemm64)(int, int, int, int64_t, int64_t, int64_t, const void *, const void *, int64_t, const void *,
                        int64_t, const void *, void *, int64_t);

/* Where to next, around an edge: |step| < size. */
static inline int64_t onward(int64_t at, int64_t step, int64_t size)
{
    at += step;
    return at < 0 ? at + size : at >= size ? at - size : at;
}

/* Planes of height x width at the origins of frames down x across, whose other elements are zero already. Frames stand
 * for `rows` planes that lie one after another, or `ahead` planes apart where those of all columns are wanted first, as
 * of a transposed matrix. `step`: from one of a plane's rows and columns to the next; -1 turns it around. */
void fft_frame_in(const float *planes, float *frames, int64_t first, int64_t count, int64_t rows, int64_t ahead,
                  int64_t height, int64_t width, int64_t down, int64_t across, int64_t step)
{
    for (int64_t p = first; p < first + count; p++, frames += down * across) {
        const float *plane = planes + (p % rows * ahead + p / rows) * height * width;
        for (int64_t i = 0, y = 0; i < height; i++, y = onward(y, step, down), plane += width) {
            float *row = frames + y * across;
            if (step == 1)
                for (int64_t j = 0; j < width; j++) row[j] = plane[j];
            else
                for (int64_t j = 0, x = 0; j < width; j++, x = onward(x, step, across)) row[x] = plane[j];
        }
    }
}

/* The reverse, from row `top` and column `left` on, around the frame's edges: times scale. */
void fft_frame_out(const float *frames, float *planes, int64_t count, int64_t height, int64_t width, int64_t down,
                   int64_t across, int64_t step, int64_t top, int64_t left, float scale)
{
    for (int64_t p = 0; p < count; p++, frames += down * across)
        for (int64_t i = 0; i < height; i++, planes += width) {
            const float *row = frames + (top + i * step) % down * across;
            int64_t before = across - left < width ? across - left : width;
            if (step == 1) {
                for (int64_t j = 0; j < before; j++) planes[j] = scale * row[left + j];
                for (int64_t j = before; j < width; j++) planes[j] = scale * row[left + j - across];
            } else
                for (int64_t j = 0; j < width; j++) planes[j] = scale * row[(left + j * step) % across];
        }
}

typedef double vec __attribute__((vector_size(64), aligned(8)));
typedef int64_t lanes __attribute__((vector_size(64)));

/* Exchange, of each pair of rows `apart`, the blocks beside the diagonal. */
static inline void exchange(vec *row, int apart, lanes low, lanes high)
{
    for (int i = 0; i < TILE; i++)
        if (!(i & apart)) {
            vec a = row[i], b = row[i + apart];
            row[i] = __builtin_shuffle(a, b, low);
            row[i + apart] = __builtin_shuffle(a, b, high);
        }
}

/* y[j * ldy + i] = x[i * ldx + j], eight by eight. */
static void transpose(const double *restrict x, int64_t ldx, double *restrict y, int64_t ldy, int64_t rows, int64_t cols)
{
    int64_t j = 0;
    for (; j + TILE <= cols; j += TILE) {
        int64_t i = 0;
        for (; i + TILE <= rows; i += TILE) {
            vec tile[TILE];
            for (int a = 0; a < TILE; a++) tile[a] = *(const vec *)(x + (i + a) * ldx + j);
            exchange(tile, 4, (lanes){0, 1, 2, 3, 8, 9, 10, 11}, (lanes){4, 5, 6, 7, 12, 13, 14, 15});
            exchange(tile, 2, (lanes){0, 1, 8, 9, 4, 5, 12, 13}, (lanes){2, 3, 10, 11, 6, 7, 14, 15});
            exchange(tile, 1, (lanes){0, 8, 2, 10, 4, 12, 6, 14}, (lanes){1, 9, 3, 11, 5, 13, 7, 15});
            for (int b = 0; b < TILE; b++) *(vec *)(y + (j + b) * ldy + i) = tile[b];
        }
        for (; i < rows; i++)
            for (int b = 0; b < TILE; b++) y[(j + b) * ldy + i] = x[i * ldx + j + b];
    }
    for (; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) y[j * ldy + i] = x[i * ldx + j];
}

/* A complex number has eight bytes and is moved as a double. `whole` begins at the first of these planes, of `planes`. */
void fft_by_frequency(const double *spectra, double *whole, int64_t count, int64_t frequencies, int64_t planes)
{
    transpose(spectra, frequencies, whole, planes, count, frequencies);
}

void fft_by_plane(const double *whole, double *spectra, int64_t count, int64_t frequencies, int64_t planes)
{
    transpose(whole, planes, spectra, frequencies, frequencies, count);
}

/* Spectra of x, w and y, and the sizes of the product of one frequency; pass 0 forward, 1 dgrad, 2 wgrad; added: to what
 * is there. Forward w is transposed and conjugate already: OpenBLAS would bring it into that order each time. */
typedef struct {
    complex_float *x, *w, *y;
    void *gemm;
    int64_t frequencies, n, c, k, pass, wide, added;
} products;

void fft_products(const products *p)
{
    static const complex_float one = {1, 0}, zero = {0, 0};
    const complex_float *beta = p->added ? &one : &zero;
    const int64_t n = p->n, c = p->c, k = p->k;
    const int64_t m[] = {n, n, k}, columns[] = {k, c, c}, inner[] = {c, k, n}, lda[] = {c, k, k};
    const int i = (int)p->pass, trans = i == 2 ? CONJ_TRANS : NO_TRANS;
    for (int64_t f = 0; f < p->frequencies; f++) {
        complex_float *x = p->x + f * n * c, *w = p->w + f * k * c, *y = p->y + f * n * k;
        complex_float *a = i ? y : x, *b = i == 2 ? x : w, *out = i == 0 ? y : i == 1 ? x : w;
        if (p->wide)
            ((cgemm64)p->gemm)(ROW_MAJOR, trans, NO_TRANS, m[i], columns[i], inner[i], &one, a, lda[i], b, columns[i],
                               beta, out, columns[i]);
        else
            ((cgemm32)p->gemm)(ROW_MAJOR, trans, NO_TRANS, (int)m[i], (int)columns[i], (int)inner[i], &one, a,
                               (int)lda[i], b, (int)columns[i], beta, out, (int)columns[i]);
    }
}
