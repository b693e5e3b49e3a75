/* C = W B, row-major, W as CSR. Up to 64 columns of a row of C stay in registers while the rows of B that
 * its non-zeros name are added to them: all accesses but the order of those rows are sequential. */
#include <stdint.h>
#include <string.h>

typedef struct {
    const float *b;
    float *c;
    const float *values;
    const int32_t *columns, *pointers;
    int64_t m, n;
} product;

enum { LANES = 16, MOST = 4 };
typedef float vector __attribute__((vector_size(4 * LANES)));

static inline __attribute__((always_inline)) vector load(const float *from)
{
    vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* Two sums a vector: one multiply-add need not wait for the one before it. */
static inline __attribute__((always_inline)) void wide(const product *p, int64_t i, int64_t from, const int vectors)
{
    vector even[MOST] = {{0}}, odd[MOST] = {{0}};
    int32_t t = p->pointers[i], end = p->pointers[i + 1];
    for (; t + 1 < end; t += 2) {
        const float *first = p->b + p->columns[t] * p->n + from, *second = p->b + p->columns[t + 1] * p->n + from;
        for (int v = 0; v < vectors; v++) {
            even[v] += p->values[t] * load(first + v * LANES);
            odd[v] += p->values[t + 1] * load(second + v * LANES);
        }
    }
    if (t < end)
        for (int v = 0; v < vectors; v++)
            even[v] += p->values[t] * load(p->b + p->columns[t] * p->n + from + v * LANES);
    for (int v = 0; v < vectors; v++) {
        vector sum = even[v] + odd[v];
        memcpy(p->c + i * p->n + from + v * LANES, &sum, sizeof sum);
    }
}

static void narrow(const product *p, int64_t i, int64_t from)
{
    float sum[LANES] = {0};
    for (int32_t t = p->pointers[i]; t < p->pointers[i + 1]; t++)
        for (int64_t j = from; j < p->n; j++) sum[j - from] += p->values[t] * p->b[p->columns[t] * p->n + j];
    for (int64_t j = from; j < p->n; j++) p->c[i * p->n + j] = sum[j - from];
}

void spmm_csr(const product *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        int64_t from = 0;
        for (; from + MOST * LANES <= p->n; from += MOST * LANES) wide(p, i, from, MOST);
        for (; from + LANES <= p->n; from += LANES) wide(p, i, from, 1);
        if (from < p->n) narrow(p, i, from);
    }
}
