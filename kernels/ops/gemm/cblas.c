/* One argument in place of fourteen: calls of a CBLAS cblas_sgemm, row-major, or oneDNN's, and the strategies
 * that transpose an operand before it. 64: the library takes 64-bit integers (ILP64), else 32. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef void (*sgemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                        float, float *, int);
typedef void (*sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t,
                        const float *, int64_t, float, float *, int64_t);
typedef void (*transpose)(void *, int64_t, int64_t, const float *, int64_t, float *, int64_t);

typedef struct {
    const float *a, *b;
    float *c;
    void *sgemm;
    int64_t m, n, k, lda, ldb, ldc;
    int32_t trans_a, trans_b, wide;
    float alpha, beta;
} product;

/* copy_a, copy_b: where the transposed operand goes, or NULL where it is used as it lies. */
typedef struct {
    product p;
    float *copy_a, *copy_b;
    void *transpose, *context;
    int64_t uses;
} strategy;

void cblas_product(const product *p)
{
    int ta = p->trans_a ? TRANS : NO_TRANS, tb = p->trans_b ? TRANS : NO_TRANS;
    if (p->wide)
        ((sgemm64)p->sgemm)(ROW_MAJOR, ta, tb, p->m, p->n, p->k, p->alpha, p->a, p->lda, p->b, p->ldb,
                            p->beta, p->c, p->ldc);
    else
        ((sgemm32)p->sgemm)(ROW_MAJOR, ta, tb, (int)p->m, (int)p->n, (int)p->k, p->alpha, p->a,
                            (int)p->lda, p->b, (int)p->ldb, p->beta, p->c, (int)p->ldc);
}

typedef int (*dnnl_sgemm)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                          int64_t, float, float *, int64_t);

/* oneDNN's, row-major as well, its flags letters. What it refuses is no result. */
void dnnl_product(const product *p)
{
    int refused = ((dnnl_sgemm)p->sgemm)(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', p->m, p->n, p->k,
                                         p->alpha, p->a, p->lda, p->b, p->ldb, p->beta, p->c, p->ldc);
    if (refused) *p->c = NAN;
}

static product transposed(const strategy *s)
{
    product p = s->p;
    if (s->copy_a) { /* stored K x M, wanted M x K */
        ((transpose)s->transpose)(s->context, p.k, p.m, p.a, p.lda, s->copy_a, p.k);
        p.a = s->copy_a, p.lda = p.k, p.trans_a = 0;
    }
    if (s->copy_b) { /* stored N x K, wanted K x N */
        ((transpose)s->transpose)(s->context, p.n, p.k, p.b, p.ldb, s->copy_b, p.n);
        p.b = s->copy_b, p.ldb = p.n, p.trans_b = 0;
    }
    return p;
}

/* The copies alone: what a kept copy costs once. */
void cblas_copies(const strategy *s) { (void)transposed(s); }

/* The products alone, on copies that cblas_copies made in an earlier launch. */
void cblas_on_copies(const strategy *s)
{
    product p = s->p;
    if (s->copy_a) p.a = s->copy_a, p.lda = p.k, p.trans_a = 0;
    if (s->copy_b) p.b = s->copy_b, p.ldb = p.n, p.trans_b = 0;
    cblas_product(&p);
}

void cblas_transpose_first(const strategy *s)
{
    product p = transposed(s);
    for (int64_t i = 0; i < s->uses; i++) cblas_product(&p);
}

typedef void (*omatcopy32)(int, int, int, int, float, const float *, int, float *, int);
typedef void (*omatcopy64)(int, int, int64_t, int64_t, float, const float *, int64_t, float *, int64_t);

void transpose_omatcopy32(void *f, int64_t rows, int64_t cols, const float *x, int64_t ldx, float *y,
                          int64_t ldy)
{
    ((omatcopy32)f)(ROW_MAJOR, TRANS, (int)rows, (int)cols, 1.0f, x, (int)ldx, y, (int)ldy);
}

void transpose_omatcopy64(void *f, int64_t rows, int64_t cols, const float *x, int64_t ldx, float *y,
                          int64_t ldy)
{
    ((omatcopy64)f)(ROW_MAJOR, TRANS, rows, cols, 1.0f, x, ldx, y, ldy);
}
