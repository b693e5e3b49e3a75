/* The textbook product: three loops, one sum at a time, operands addressed by row and column strides.
 * Any layout is one pair of strides; nothing is packed or blocked. The bottom of the ladder. */
#include <stdint.h>

typedef struct {
    const float *a, *b;
    float *c;
    int64_t m, n, k, a_row, a_col, b_row, b_col, ldc;
    float alpha, beta;
} product;

void gemm_naive(const product *p)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float sum = 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += p->a[i * p->a_row + l * p->a_col] * p->b[l * p->b_row + j * p->b_col];
            float *c = p->c + i * p->ldc + j;
            *c = p->alpha * sum + (p->beta != 0 ? p->beta * *c : 0);
        }
}
