/* One step of a layer's weights around a CBLAS cblas_sgemm: the gradient's product straight into what it
 * changes, or into a buffer and a pass over it. 64: the library takes 64-bit integers (ILP64), else 32. */
#include <math.h>
#include <stdint.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112, LANES = 16, BLOCK = 4096 };

typedef void (*sgemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                        float, float *, int);
typedef void (*sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t,
                        const float *, int64_t, float, float *, int64_t);

typedef struct update update;

struct update {
    const float *x, *dy; /* k x m and k x n, twice one below the other for two products */
    float *w, *v, *g;    /* m x n; v where there is a velocity */
    float *other;        /* a second gradient, or NULL where both products go to one */
    void *sgemm;
    void (*apply)(const update *);
    int64_t m, n, k;
    int32_t wide, products;
    float alpha, beta; /* of the product that makes the step by itself */
    float mean, lr, mu, gain, keep, limit;
};

static void product(const update *p, int which, float alpha, float beta, float *c)
{
    const float *x = p->x + which * p->k * p->m, *dy = p->dy + which * p->k * p->n;
    if (p->wide)
        ((sgemm64)p->sgemm)(ROW_MAJOR, TRANS, NO_TRANS, p->m, p->n, p->k, alpha, x, p->m, dy, p->n, beta, c, p->n);
    else
        ((sgemm32)p->sgemm)(ROW_MAJOR, TRANS, NO_TRANS, (int)p->m, (int)p->n, (int)p->k, alpha, x, (int)p->m, dy,
                            (int)p->n, beta, c, (int)p->n);
}

static void descend(float *restrict w, const float *restrict g, int64_t count, float lr)
{
    for (int64_t i = 0; i < count; i++) w[i] -= lr * g[i];
}

void update_fused(const update *p)
{
    float *target = p->v ? p->v : p->w;
    for (int i = 0; i < p->products; i++) product(p, i, p->alpha, i ? 1.0f : p->beta, target);
    if (p->v) descend(p->w, target, p->m * p->n, p->lr);
}

/* The second product is added to the first by beta = 1, or goes to a buffer of its own and a sum. */
void update_gradient(const update *p)
{
    product(p, 0, p->mean, 0, p->g);
    if (p->products == 1) return;
    product(p, 1, p->mean, p->other ? 0 : 1, p->other ? p->other : p->g);
    if (p->other) descend(p->g, p->other, p->m * p->n, -1);
}

void update_separate(const update *p)
{
    update_gradient(p);
    p->apply(p);
}

void update_sgd(const update *p) { descend(p->w, p->g, p->m * p->n, p->lr); }

void update_decay(const update *p)
{
    float *restrict w = p->w;
    const float *restrict g = p->g;
    float keep = p->keep, lr = p->lr;
    for (int64_t i = 0; i < p->m * p->n; i++) w[i] = keep * w[i] - lr * g[i];
}

void update_momentum(const update *p)
{
    int64_t count = p->m * p->n;
    float *restrict w = p->w, *restrict v = p->v;
    const float *restrict g = p->g;
    float lr = p->lr, mu = p->mu, gain = p->gain;
    for (int64_t i = 0; i < count; i++) {
        v[i] = mu * v[i] + gain * g[i];
        w[i] -= lr * v[i];
    }
}

void update_nesterov(const update *p)
{
    int64_t count = p->m * p->n;
    float *restrict w = p->w, *restrict v = p->v;
    const float *restrict g = p->g;
    float lr = p->lr, mu = p->mu;
    for (int64_t i = 0; i < count; i++) {
        v[i] = mu * v[i] + g[i];
        w[i] -= lr * (g[i] + mu * v[i]);
    }
}

void update_clip(const update *p)
{
    float *restrict w = p->w;
    const float *restrict g = p->g;
    float lr = p->lr, limit = p->limit;
    for (int64_t i = 0; i < p->m * p->n; i++) {
        float d = g[i] < limit ? g[i] : limit;
        w[i] -= lr * (d > -limit ? d : -limit);
    }
}

/* Blocks in single precision, their sums in double: the sum of millions of squares keeps its digits. */
static double squares(const float *x, int64_t count)
{
    double total = 0;
    for (int64_t from = 0; from < count; from += BLOCK) {
        int64_t end = count - from < BLOCK ? count - from : BLOCK, i = 0;
        float sum[LANES] = {0}, rest = 0;
        for (; i + LANES <= end; i += LANES)
            for (int l = 0; l < LANES; l++) sum[l] += x[from + i + l] * x[from + i + l];
        for (; i < end; i++) rest += x[from + i] * x[from + i];
        for (int l = 0; l < LANES; l++) rest += sum[l];
        total += rest;
    }
    return total;
}

void update_norm(const update *p)
{
    double count = (double)(p->m * p->n);
    double share = p->limit * sqrt(count) / (sqrt(squares(p->g, p->m * p->n)) + 1e-6);
    descend(p->w, p->g, p->m * p->n, p->lr * (float)(share < 1 ? share : 1));
}

void update_clear(const update *p)
{
    float *restrict g = p->g;
    for (int64_t i = 0; i < p->m * p->n; i++) g[i] = 0;
}

void update_scale(const update *p)
{
    float *restrict w = p->w;
    for (int64_t i = 0; i < p->m * p->n; i++) w[i] = -w[i];
}
