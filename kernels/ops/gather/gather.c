/* Rows of a table: copied, or stepped; and the step as a pass over all of it, with a gradient as large. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const float *table, *g;
    float *w, *m, *v, *y, *whole, *dw;
    const int64_t *ids;
    int64_t rows, width, batch;
    float rate, epsilon, first, second;
} argument;

void gather_lookup(const argument *p)
{
    for (int64_t i = 0; i < p->batch; i++)
        memcpy(p->y + i * p->width, p->table + p->ids[i] * p->width, (size_t)p->width * sizeof(float));
}

void gather_scatter(const argument *p)
{
    memset(p->dw, 0, (size_t)(p->rows * p->width) * sizeof(float));
    for (int64_t i = 0; i < p->batch; i++) {
        float *restrict to = p->dw + p->ids[i] * p->width;
        const float *restrict from = p->g + i * p->width;
        for (int64_t j = 0; j < p->width; j++) to[j] += from[j];
    }
}

static void sgd(const argument *p, float *restrict w, float *m, float *v, const float *restrict g, int64_t n)
{
    (void)m, (void)v;
    for (int64_t i = 0; i < n; i++) w[i] -= p->rate * g[i];
}

static void adagrad(const argument *p, float *restrict w, float *m, float *restrict v, const float *restrict g,
                    int64_t n)
{
    (void)m;
    for (int64_t i = 0; i < n; i++) {
        v[i] += g[i] * g[i];
        w[i] -= p->rate * g[i] / (sqrtf(v[i]) + p->epsilon);
    }
}

static void adam(const argument *p, float *restrict w, float *restrict m, float *restrict v, const float *restrict g,
                 int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        m[i] = p->first * m[i] + (1 - p->first) * g[i];
        v[i] = p->second * v[i] + (1 - p->second) * g[i] * g[i];
        w[i] -= p->rate * m[i] / (sqrtf(v[i]) + p->epsilon);
    }
}

#define STEPS(rule)                                                                             \
    void gather_rows_##rule(const argument *p)                                                  \
    {                                                                                           \
        for (int64_t i = 0; i < p->batch; i++) {                                                \
            int64_t at = p->ids[i] * p->width;                                                  \
            float *m = p->m ? p->m + at : 0, *v = p->v ? p->v + at : 0;                         \
            rule(p, p->w + at, m, v, p->g + i * p->width, p->width);                            \
        }                                                                                       \
    }                                                                                           \
    void gather_dense_##rule(const argument *p)                                                 \
    {                                                                                           \
        int64_t all = p->rows * p->width;                                                       \
        memset(p->whole, 0, (size_t)all * sizeof(float));                                       \
        for (int64_t i = 0; i < p->batch; i++)                                                  \
            memcpy(p->whole + p->ids[i] * p->width, p->g + i * p->width,                        \
                   (size_t)p->width * sizeof(float));                                           \
        rule(p, p->w, p->m, p->v, p->whole, all);                                               \
    }

STEPS(sgd)
STEPS(adagrad)
STEPS(adam)
