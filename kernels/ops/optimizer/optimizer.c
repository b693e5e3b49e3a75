/* One pass over parameters, gradient and state: each is read once and written once. Formulas are PyTorch's,
 * late in training (rules.py). A tensor is a piece of the arrays; all of them together are one long piece. */
#include <math.h>
#include <stdint.h>

enum { LANES = 16, BLOCK = 4096 };

typedef struct argument argument;

struct argument {
    const float *g;
    float *w, *v, *z; /* the parameters, and what the rule keeps beside them */
    void (*step)(const argument *, int64_t, int64_t);
    int64_t tensors, size;
    float lr, mu, gain, rho, rest, decay, eps, limit;
    float share; /* of the gradient that clipping by its norm leaves */
};

#define EACH(name, body)                                                                                   \
    void name(const argument *p, int64_t first, int64_t count)                                             \
    {                                                                                                      \
        const float *restrict g = p->g + first;                                                            \
        float *restrict w = p->w + first;                                                                  \
        float *restrict v = p->v ? p->v + first : 0, *restrict z = p->z ? p->z + first : 0;                \
        float lr = p->lr, mu = p->mu, gain = p->gain, rho = p->rho, rest = p->rest, decay = p->decay;      \
        float eps = p->eps, limit = p->limit, share = p->share;                                            \
        (void)v, (void)z, (void)lr, (void)mu, (void)gain, (void)rho, (void)rest, (void)decay, (void)eps;   \
        (void)limit, (void)share;                                                                          \
        for (int64_t i = 0; i < count; i++) body                                                           \
    }

EACH(step_copy, { w[i] = g[i]; })
EACH(step_sgd, { w[i] -= lr * g[i]; })
EACH(step_decay, { w[i] -= lr * (g[i] + decay * w[i]); })
EACH(step_momentum, {
    v[i] = mu * v[i] + gain * g[i];
    w[i] -= lr * v[i];
})
EACH(step_nesterov, {
    v[i] = mu * v[i] + g[i];
    w[i] -= lr * (g[i] + mu * v[i]);
})
EACH(step_rmsprop, {
    v[i] = rho * v[i] + rest * g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(v[i]) + eps);
})
EACH(step_adagrad, {
    v[i] += g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(v[i]) + eps);
})
EACH(step_adadelta, {
    v[i] = rho * v[i] + rest * g[i] * g[i];
    float delta = sqrtf((z[i] + eps) / (v[i] + eps)) * g[i];
    z[i] = rho * z[i] + rest * delta * delta;
    w[i] -= lr * delta;
})
EACH(step_adam, {
    v[i] = mu * v[i] + gain * g[i];
    z[i] = rho * z[i] + rest * g[i] * g[i];
    w[i] -= lr * v[i] / (sqrtf(z[i]) + eps);
})
EACH(step_clip, {
    float d = g[i] < limit ? g[i] : limit;
    w[i] -= lr * (d > -limit ? d : -limit);
})
EACH(step_norm, { w[i] -= lr * share * g[i]; })

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

static void clip(argument *p, double sum)
{
    double share = p->limit * sqrt((double)(p->tensors * p->size)) / (sqrt(sum) + 1e-6);
    p->share = (float)(share < 1 ? share : 1);
}

/* All tensors as one. */
void optimizer_all(argument *p)
{
    if (p->step == step_norm) clip(p, squares(p->g, p->tensors * p->size));
    p->step(p, 0, p->tensors * p->size);
}

/* One call for each tensor, by a pointer that no compiler sees through. */
void optimizer_each(argument *p)
{
    if (p->step == step_norm) {
        double sum = 0;
        for (int64_t t = 0; t < p->tensors; t++) sum += squares(p->g + t * p->size, p->size);
        clip(p, sum);
    }
    for (int64_t t = 0; t < p->tensors; t++) p->step(p, t * p->size, p->size);
}
