/* Goto's product in small: panels of B packed for the outer cache, blocks of A for the inner one, and
 * a 6 x 2-vector tile of C held in registers (Goto and van de Geijn 2008; BLIS). Operands addressed by
 * strides, so that a layout costs only its packing. */
#include <stdint.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { MR = 6, NR = 2 * LANES, MC = 72, KC = 256, NC = 4096 };

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));

typedef struct {
    const float *a, *b;
    float *c;
    int64_t m, n, k, a_row, a_col, b_row, b_col, ldc;
    float alpha, beta;
    float *pack; /* gemm_blocked_workspace() bytes */
} product;

int64_t gemm_blocked_workspace(void) { return (int64_t)sizeof(float) * (MC * KC + KC * NC); }

/* src[i * outer + l * inner] for i < extent, l < depth, to panels of `width`, the last padded with zeros. */
static void pack(float *restrict to, const float *restrict src, int64_t extent, int64_t depth,
                 int64_t outer, int64_t inner, int64_t width)
{
    for (int64_t i = 0; i < extent; i += width)
        for (int64_t l = 0; l < depth; l++)
            for (int64_t r = 0; r < width; r++)
                *to++ = i + r < extent ? src[(i + r) * outer + l * inner] : 0;
}

static void tile(int64_t depth, const float *restrict a, const float *restrict b, float sum[MR][NR])
{
    vec s[MR][2] = {{{0}}};
    for (int64_t l = 0; l < depth; l++, a += MR, b += NR) {
        vec b0 = *(const vec *)b, b1 = *(const vec *)(b + LANES);
        for (int i = 0; i < MR; i++) s[i][0] += a[i] * b0, s[i][1] += a[i] * b1;
    }
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < 2; j++) *(vec *)(sum[i] + j * LANES) = s[i][j];
}

static void block(const product *p, int64_t i0, int64_t j0, int64_t rows, int64_t cols, int64_t depth,
                  const float *pa, const float *pb, float beta)
{
    for (int64_t j = 0; j < cols; j += NR)
        for (int64_t i = 0; i < rows; i += MR) {
            float sum[MR][NR];
            tile(depth, pa + i * depth, pb + j * depth, sum);
            int64_t height = rows - i < MR ? rows - i : MR, width = cols - j < NR ? cols - j : NR;
            for (int64_t r = 0; r < height; r++) {
                float *c = p->c + (i0 + i + r) * p->ldc + j0 + j;
                if (beta == 0)
                    for (int64_t s = 0; s < width; s++) c[s] = p->alpha * sum[r][s];
                else
                    for (int64_t s = 0; s < width; s++) c[s] = p->alpha * sum[r][s] + beta * c[s];
            }
        }
}

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

void gemm_blocked(const product *p)
{
    float *pa = p->pack, *pb = p->pack + MC * KC;
    for (int64_t j = 0; j < p->n; j += NC)
        for (int64_t l = 0; l < p->k; l += KC) {
            int64_t cols = least(NC, p->n - j), depth = least(KC, p->k - l);
            pack(pb, p->b + j * p->b_col + l * p->b_row, cols, depth, p->b_col, p->b_row, NR);
            for (int64_t i = 0; i < p->m; i += MC) {
                int64_t rows = least(MC, p->m - i);
                pack(pa, p->a + i * p->a_row + l * p->a_col, rows, depth, p->a_row, p->a_col, MR);
                block(p, i, j, rows, cols, depth, pa, pb, l ? 1.0f : p->beta);
            }
        }
}
