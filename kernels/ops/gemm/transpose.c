/* Out-of-place transposition, rows x cols row-major to cols x rows, in tiles of 16 x 16: each tile is
 * read by rows of one cache line and written by rows of one cache line. */
#include <stdint.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

enum { TILE = 16, NEAR_BLOCK = 32, FAR_BLOCK = 128 };
/* Bytes of a matrix up to which both stay in a second-level cache, and from which the lines of y are written past
 * the caches: whoever reads it next finds it in memory. */
enum { NEAR = 512 << 10, STREAMED = 4 << 20 };

static void tile(int64_t rows, int64_t cols, const float *restrict x, int64_t ldx, float *restrict y,
                 int64_t ldy)
{
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) y[j * ldy + i] = x[i * ldx + j];
}

#if defined(__AVX512F__)
typedef __m512 v16 __attribute__((aligned(64)));
#define PAIRS(a, b) (__m512d)(a), (__m512d)(b)

/* Eight floats at p, then the eight that lie four rows below. */
static inline v16 halves(const float *p, int64_t ld)
{
    __m512d low = _mm512_castpd256_pd512((__m256d)_mm256_loadu_ps(p));
    return (v16)_mm512_insertf64x4(low, (__m256d)_mm256_loadu_ps(p + 4 * ld), 1);
}

/* Four rows of four in each quarter, transposed there: pairs of floats, then pairs of pairs. */
static inline void quarters(v16 *a)
{
    v16 low = _mm512_unpacklo_ps(a[0], a[1]), high = _mm512_unpackhi_ps(a[0], a[1]);
    v16 low2 = _mm512_unpacklo_ps(a[2], a[3]), high2 = _mm512_unpackhi_ps(a[2], a[3]);
    a[0] = (v16)_mm512_unpacklo_pd(PAIRS(low, low2)), a[1] = (v16)_mm512_unpackhi_pd(PAIRS(low, low2));
    a[2] = (v16)_mm512_unpacklo_pd(PAIRS(high, high2)), a[3] = (v16)_mm512_unpackhi_pd(PAIRS(high, high2));
}

static inline void put(float *y, v16 v, int streamed)
{
    if (streamed) _mm512_stream_ps(y, v);
    else _mm512_storeu_ps(y, v);
}

/* In registers, eight columns at a time: loads of half a line bring rows 4 apart together, which leaves 48
 * shuffles of the 64 that whole lines would take. */
static inline void full_tile(const float *restrict x, int64_t ldx, float *restrict y, int64_t ldy, int streamed)
{
    for (int j = 0; j < TILE; j += 8, x += 8, y += 8 * ldy) {
        v16 upper[4], lower[4];
        for (int i = 0; i < 4; i++) upper[i] = halves(x + i * ldx, ldx);
        for (int i = 0; i < 4; i++) lower[i] = halves(x + (8 + i) * ldx, ldx);
        quarters(upper);
        quarters(lower);
        for (int i = 0; i < 4; i++) put(y + i * ldy, _mm512_shuffle_f32x4(upper[i], lower[i], 0x88), streamed);
        for (int i = 0; i < 4; i++) put(y + (4 + i) * ldy, _mm512_shuffle_f32x4(upper[i], lower[i], 0xdd), streamed);
    }
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

/* Down the rows inside a band of columns: the band's output rows stay in cache and are filled line after line, so
 * each is written back once. `next`: what is read after this; its lines come into the second-level cache meanwhile,
 * in the order of its rows, which tiles alone would not have them read in. */
static inline void block(int64_t rows, int64_t cols, const float *x, int64_t ldx, float *y, int64_t ldy, int streamed,
                         const float *next)
{
    for (int64_t j = 0; j < cols; j += TILE)
        for (int64_t i = 0; i < rows; i += TILE) {
            for (int k = 0; streamed && k < TILE; k++) {
                __builtin_prefetch(next + k % (FAR_BLOCK / TILE) * TILE, 0, 2);
                if (k % (FAR_BLOCK / TILE) == FAR_BLOCK / TILE - 1) next += ldx;
            }
            if (i + TILE <= rows && j + TILE <= cols)
                full_tile(x + i * ldx + j, ldx, y + j * ldy + i, ldy, streamed);
            else
                tile(rows - i < TILE ? rows - i : TILE, cols - j < TILE ? cols - j : TILE,
                     x + i * ldx + j, ldx, y + j * ldy + i, ldy);
        }
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Those that lie near in blocks of two lines by two; large ones in blocks of which a row, in x as in y, is a run
 * of eight lines, y's written without being read first: that wants every line of y to begin where a cache line
 * does. Between them a band at a time. */
void transpose_tiled(void *context, int64_t rows, int64_t cols, const float *x, int64_t ldx, float *y,
                     int64_t ldy)
{
    (void)context;
#if defined(__AVX512F__)
    if (4 * rows * cols >= STREAMED && (uintptr_t)y % 64 == 0 && ldy % TILE == 0) {
        for (int64_t i = 0; i < rows; i += FAR_BLOCK)
            for (int64_t j = 0; j < cols; j += FAR_BLOCK) {
                const float *from = x + i * ldx + j;
                const float *next = j + FAR_BLOCK < cols ? from + FAR_BLOCK : x + least(i + FAR_BLOCK, rows - 1) * ldx;
                block(least(rows - i, FAR_BLOCK), least(cols - j, FAR_BLOCK), from, ldx, y + j * ldy + i, ldy, 1, next);
            }
        _mm_sfence();
        return;
    }
#endif
    int64_t high = 4 * rows * cols <= NEAR ? NEAR_BLOCK : rows, wide = 4 * rows * cols <= NEAR ? NEAR_BLOCK : cols;
    for (int64_t j = 0; j < cols; j += wide)
        for (int64_t i = 0; i < rows; i += high)
            block(least(rows - i, high), least(cols - j, wide), x + i * ldx + j, ldx, y + j * ldy + i, ldy, 0, 0);
}
