/* Out-of-place transposition, rows x cols row-major to cols x rows, in tiles of 16 x 16: each tile is
 * read by rows of one cache line and written by rows of one cache line. */
#include <stdint.h>

enum { TILE = 16 };

static void tile(int64_t rows, int64_t cols, const float *restrict x, int64_t ldx, float *restrict y,
                 int64_t ldy)
{
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) y[j * ldy + i] = x[i * ldx + j];
}

static void full_tile(const float *restrict x, int64_t ldx, float *restrict y, int64_t ldy)
{
    float t[TILE][TILE];
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) t[j][i] = x[i * ldx + j];
    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < TILE; i++) y[j * ldy + i] = t[j][i];
}

void transpose_tiled(void *context, int64_t rows, int64_t cols, const float *x, int64_t ldx, float *y,
                     int64_t ldy)
{
    (void)context;
    /* Down the rows inside a band of columns: the band's output rows stay in cache and are filled
     * line after line, so each is written back once. */
    for (int64_t j = 0; j < cols; j += TILE)
        for (int64_t i = 0; i < rows; i += TILE)
            if (i + TILE <= rows && j + TILE <= cols)
                full_tile(x + i * ldx + j, ldx, y + j * ldy + i, ldy);
            else
                tile(rows - i < TILE ? rows - i : TILE, cols - j < TILE ? cols - j : TILE,
                     x + i * ldx + j, ldx, y + j * ldy + i, ldy);
}
