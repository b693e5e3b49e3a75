/* Out-of-place transposition, rows x cols row-major to cols x rows, in tiles of 16 x 16: each tile is
 * read by rows of one cache line and written by rows of one cache line. */
#include <stdint.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

enum { TILE = 16, BLOCK = 64 };
/* Bytes of a matrix from which its lines are written past the caches: whoever reads it next finds it in memory. */
enum { STREAMED = 4 << 20 };

static void tile(int64_t rows, int64_t cols, const float *restrict x, int64_t ldx, float *restrict y,
                 int64_t ldy)
{
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) y[j * ldy + i] = x[i * ldx + j];
}

#if defined(__AVX512F__)
typedef __m512 v16 __attribute__((aligned(64)));
#define PAIRS(a, b) (__m512d)(a), (__m512d)(b)

/* In registers: pairs of floats, pairs of pairs, then twice quarters of a register, 64 shuffles in all. */
static inline void full_tile(const float *restrict x, int64_t ldx, float *restrict y, int64_t ldy, int streamed)
{
    v16 a[TILE], b[TILE];
    for (int i = 0; i < TILE; i++) a[i] = _mm512_loadu_ps(x + i * ldx);
    for (int i = 0; i < TILE; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < TILE; i += 4) {
        a[i] = (__m512)_mm512_unpacklo_pd(PAIRS(b[i], b[i + 2]));
        a[i + 1] = (__m512)_mm512_unpackhi_pd(PAIRS(b[i], b[i + 2]));
        a[i + 2] = (__m512)_mm512_unpacklo_pd(PAIRS(b[i + 1], b[i + 3]));
        a[i + 3] = (__m512)_mm512_unpackhi_pd(PAIRS(b[i + 1], b[i + 3]));
    }
    for (int half = 0; half < TILE; half += 8)
        for (int i = half; i < half + 4; i++) {
            b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
            b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        a[i] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88);
        a[i + 8] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd);
    }
    for (int j = 0; j < TILE; j++)
        if (streamed) _mm512_stream_ps(y + j * ldy, a[j]);
        else _mm512_storeu_ps(y + j * ldy, a[j]);
}
#else
static inline void full_tile(const float *restrict x, int64_t ldx, float *restrict y, int64_t ldy, int streamed)
{
    float t[TILE][TILE];
    (void)streamed;
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) t[j][i] = x[i * ldx + j];
    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < TILE; i++) y[j * ldy + i] = t[j][i];
}
#endif

/* Down the rows inside a band of columns: the band's output rows stay in cache and are filled line after
 * line, so each is written back once. */
static inline void band(int64_t rows, int64_t cols, const float *x, int64_t ldx, float *y, int64_t ldy, int streamed)
{
    for (int64_t j = 0; j < cols; j += TILE)
        for (int64_t i = 0; i < rows; i += TILE)
            if (i + TILE <= rows && j + TILE <= cols)
                full_tile(x + i * ldx + j, ldx, y + j * ldy + i, ldy, streamed);
            else
                tile(rows - i < TILE ? rows - i : TILE, cols - j < TILE ? cols - j : TILE,
                     x + i * ldx + j, ldx, y + j * ldy + i, ldy);
}

/* Large ones in blocks of 64 x 64, so that what is read of a page is read at once, their whole lines written
 * without being read first; that wants every line of y to begin where a cache line does. */
void transpose_tiled(void *context, int64_t rows, int64_t cols, const float *x, int64_t ldx, float *y,
                     int64_t ldy)
{
    (void)context;
#if defined(__AVX512F__)
    if (4 * rows * cols >= STREAMED && (uintptr_t)y % 64 == 0 && ldy % TILE == 0) {
        for (int64_t i = 0; i < rows; i += BLOCK)
            for (int64_t j = 0; j < cols; j += BLOCK)
                band(rows - i < BLOCK ? rows - i : BLOCK, cols - j < BLOCK ? cols - j : BLOCK, x + i * ldx + j, ldx,
                     y + j * ldy + i, ldy, 1);
        _mm_sfence();
        return;
    }
#endif
    band(rows, cols, x, ldx, y, ldy, 0);
}
