/* One argument in place of seven, around any transposition of that shape: ../gemm/transpose.c, or the
 * library's through ../gemm/cblas.c. rows x cols at x, ldx apart, to cols x rows at y, ldy apart. */
#include <stdint.h>

typedef void (*transpose)(void *, int64_t, int64_t, const float *, int64_t, float *, int64_t);

typedef struct {
    const float *x;
    float *y;
    void *function, *context;
    int64_t rows, cols, ldx, ldy;
} argument;

void transpose_call(const argument *p)
{
    ((transpose)p->function)(p->context, p->rows, p->cols, p->x, p->ldx, p->y, p->ldy);
}
