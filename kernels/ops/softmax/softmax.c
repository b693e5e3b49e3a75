/* Softmax with cross-entropy by the vectors of ../../maths.c: dx = the gradient p − t of every row, and its loss.
 * Fused: a row is read once. Block by block its exponentials are taken against the first block's maximum and
 * stored as what will be the gradient; only a block that goes far beyond has its own maximum looked for, and is
 * done again. A second sweep, over what lies in cache and during the next row's first, brings them to the row's
 * own maximum and sum (the online normalizer of Milakov and Gimelshein 2018, arXiv:1805.02867). */
#include <float.h>

enum { BLOCK = 128 * LANES };
/* A block's sum from which its maximum is looked for: arguments above 14 would cost figures, and later overflow. */
#define MUCH 1e6f
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    const float *x, *t;
    const int64_t *labels;
    float *dx, *loss, *scratch;
    int64_t batch, classes;
} argument;

typedef struct { float top, sum, dot; } row;

INLINE float exp_float(float x) { return exp_of(all(x))[0]; }

INLINE float top_of(const float *x, int64_t n, float top)
{
    vec found[UNROLL];
    int64_t i = 0;
    for (int s = 0; s < UNROLL; s++) found[s] = all(top);
    for (; i + UNROLL * LANES <= n; i += UNROLL * LANES)
        for (int s = 0; s < UNROLL; s++) found[s] = larger(load(x + i + s * LANES), found[s]);
    for (; i + LANES <= n; i += LANES) found[0] = larger(load(x + i), found[0]);
    if (i < n) found[0] = larger(load_some(x + i, n - i, top), found[0]);
    return largest_of(larger(larger(found[0], found[1]), larger(found[2], found[3])));
}

/* One vector: its exponentials stored, where there is a place for them, and returned; t·x added up. */
INLINE vec exp_step(const float *x, const float *t, float *e, vec top, vec *dot)
{
    vec v = load(x), found = exp_of_negative(v - top);
    if (t) *dot += v * load(t);
    if (e) store(e, found);
    return found;
}

/* A row whose exponentials are there and wait to be divided by their sum. */
typedef struct {
    float *e;
    const float *t, *tops;
    row r;
} waiting;

/* What the exponentials of a block are multiplied by, to be shares of their row. */
INLINE float share_of(waiting w, int64_t block) { return exp_float(w.tops[block] - w.r.top) / w.r.sum; }

INLINE void divide(waiting w, int64_t at, float share)
{
    vec found = load(w.e + at) * share;
    if (w.t) found -= load(w.t + at);
    store(w.e + at, found);
}

INLINE void divide_one(waiting w, int64_t at, float share)
{
    w.e[at] = w.t ? w.e[at] * share - w.t[at] : w.e[at] * share;
}

/* The exponentials of a block against `top`; their sum. Between them the shares of the row before, where one
 * waits: memory's work while the arithmetic has its own. */
INLINE float block_sum(const float *x, const float *t, float *e, int64_t i, int64_t end, float top, float *dot,
                       waiting w)
{
    vec sum[UNROLL] = {{0}}, dots = {0};
    float share = w.e ? share_of(w, i / BLOCK) : 0;
    for (; i + UNROLL * LANES <= end; i += UNROLL * LANES)
        for (int s = 0; s < UNROLL; s++) {
            int64_t at = i + s * LANES;
            __builtin_prefetch(x + at + BLOCK);
            sum[s] += exp_step(x + at, t ? t + at : 0, e ? e + at : 0, all(top), &dots);
            if (w.e) divide(w, at, share);
        }
    for (; i + LANES <= end; i += LANES) {
        sum[0] += exp_step(x + i, t ? t + i : 0, e ? e + i : 0, all(top), &dots);
        if (w.e) divide(w, i, share);
    }
    if (i < end) {
        vec v = load_some(x + i, end - i, top), last = exp_of_negative(v - top);
        float kept[LANES] = {0};
        store_some(kept, last, end - i);
        sum[1] += load(kept);
        if (t) dots += v * load_some(t + i, end - i, 0);
        if (e) store_some(e + i, last, end - i);
        for (; w.e && i < end; i++) divide_one(w, i, share);
    }
    *dot = t ? sum_of(dots) : 0;
    return sum_of((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static const waiting nobody;

/* The exponentials of a row, what each block's are against kept in `tops`. */
INLINE row exponentials(const float *x, const float *t, float *e, int64_t n, float *tops, waiting w)
{
    row r = {top_of(x, n < BLOCK ? n : BLOCK, -FLT_MAX), 0, 0};
    for (int64_t b = 0; b < n; b += BLOCK) {
        int64_t end = n - b < BLOCK ? n : b + BLOCK;
        float dot, sum = block_sum(x, t, e, b, end, r.top, &dot, w);
        if (!(sum < MUCH)) {
            float before = r.top;
            r.top = top_of(x + b, end - b, before);
            r.sum *= exp_float(before - r.top);
            sum = block_sum(x, t, e, b, end, r.top, &dot, nobody);
        }
        r.sum += sum;
        r.dot += dot;
        tops[b / BLOCK] = r.top;
    }
    return r;
}

/* The shares of a row that waits, at once. */
INLINE void divide_all(waiting w, int64_t n)
{
    for (int64_t b = 0; b < n; b += BLOCK) {
        int64_t i = b, end = n - b < BLOCK ? n : b + BLOCK;
        float share = share_of(w, b / BLOCK);
        for (; i + LANES <= end; i += LANES) divide(w, i, share);
        for (; i < end; i++) divide_one(w, i, share);
    }
}

/* All rows; y == 0: the losses alone. */
INLINE void fused(const argument *p, const float *x, const float *t, float *y)
{
    float *loss = p->loss;
    int64_t n = p->classes, blocks = n / BLOCK + 1;
    float tops[2 * blocks];
    waiting w = nobody;
    for (int64_t i = 0; i < p->batch; i++) {
        const float *one = t ? t + i * n : 0;
        float *own = y ? y + i * n : 0, *mine = tops + i % 2 * blocks;
        row r = w.e ? exponentials(x + i * n, one, own, n, mine, w) : exponentials(x + i * n, one, own, n, mine, nobody);
        loss[i] = r.top + logf(r.sum) - (t ? r.dot : x[i * n + p->labels[i]]);
        if (y) w = (waiting){own, one, mine, r};
    }
    if (!y) return;
    divide_all(w, n);
    for (int64_t i = 0; i < p->batch && !t; i++) y[i * n + p->labels[i]] -= 1;
}

void step_index(const argument *p) { fused(p, p->x, 0, p->dx); }
void step_onehot(const argument *p) { fused(p, p->x, p->t, p->dx); }
void forward_index(const argument *p) { fused(p, p->x, 0, 0); }
void forward_onehot(const argument *p) { fused(p, p->x, p->t, 0); }

/* Labels as rows of zeros and a one, written anew and read. */
void step_made(const argument *p)
{
    memset(p->scratch, 0, 4 * p->batch * p->classes);
    for (int64_t i = 0; i < p->batch; i++) p->scratch[i * p->classes + p->labels[i]] = 1;
    fused(p, p->x, p->scratch, p->dx);
}

INLINE void softmax_rows(const argument *p, float *to)
{
    int64_t n = p->classes;
    float tops[n / BLOCK + 1];
    for (int64_t i = 0; i < p->batch; i++) {
        row r = exponentials(p->x + i * n, 0, to + i * n, n, tops, nobody);
        divide_all((waiting){to + i * n, 0, tops, r}, n);
    }
}

/* In parts, each over all of the matrix: softmax, logarithm, product with t (or the element of the index), sum,
 * gradient. The logarithm of a share that is 0 in single precision is lost, as it is wherever it is done so. */
static void logarithm(const float *x, float *y, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(y + i, log_of(load(x + i)));
    if (i < n) store_some(y + i, log_of(load_some(x + i, n - i, 1)), n - i);
}

static void product(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

static void difference(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = a[i] - b[i];
}

static void sums(const float *x, float *y, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < rows; i++, x += n) {
        vec found[UNROLL] = {{0}};
        int64_t j = 0;
        for (; j + UNROLL * LANES <= n; j += UNROLL * LANES)
            for (int s = 0; s < UNROLL; s++) found[s] += load(x + j + s * LANES);
        float sum = sum_of((found[0] + found[1]) + (found[2] + found[3]));
        for (; j < n; j++) sum += x[j];
        y[i] = -sum;
    }
}

void parts_onehot(const argument *p)
{
    int64_t all = p->batch * p->classes;
    float *shares = p->scratch, *logs = shares + all, *products = logs + all;
    softmax_rows(p, shares);
    logarithm(shares, logs, all);
    product(p->t, logs, products, all);
    sums(products, p->loss, p->batch, p->classes);
    difference(shares, p->t, p->dx, all);
}

void parts_index(const argument *p)
{
    int64_t all = p->batch * p->classes;
    float *shares = p->scratch, *logs = shares + all;
    softmax_rows(p, shares);
    logarithm(shares, logs, all);
    memcpy(p->dx, shares, 4 * all);
    for (int64_t i = 0; i < p->batch; i++) {
        p->loss[i] = -logs[i * p->classes + p->labels[i]];
        p->dx[i * p->classes + p->labels[i]] -= 1;
    }
}

/* The network's last layer is a log-softmax: forward, the loss on top of it, back through it. */
void after_logsoftmax(const argument *p)
{
    int64_t n = p->classes;
    float tops[n / BLOCK + 1], *z = p->scratch;
    for (int64_t i = 0; i < p->batch; i++) {
        row r = exponentials(p->x + i * n, 0, 0, n, tops, nobody);
        float total = r.top + logf(r.sum);
        for (int64_t j = 0; j < n; j++) z[i * n + j] = p->x[i * n + j] - total;
    }
    fused(p, z, 0, p->dx);
    for (int64_t i = 0; i < p->batch; i++) {
        float *y = p->dx + i * n, sum;
        sums(y, &sum, 1, n);
        int64_t j = 0;
        for (; j + LANES <= n; j += LANES) store(y + j, load(y + j) + sum * exp_of(load(z + i * n + j)));
        if (j < n) store_some(y + j, load_some(y + j, n - j, 0) + sum * exp_of(load_some(z + i * n + j, n - j, 0)), n - j);
    }
}

/* … is a softmax: y = q (g − Σ g q). */
void after_softmax(const argument *p)
{
    int64_t n = p->classes;
    float *q = p->scratch;
    softmax_rows(p, q);
    fused(p, q, 0, p->dx);
    for (int64_t i = 0; i < p->batch; i++) {
        float *y = p->dx + i * n;
        const float *own = q + i * n;
        vec found[UNROLL] = {{0}};
        int64_t j = 0;
        for (; j + UNROLL * LANES <= n; j += UNROLL * LANES)
            for (int s = 0; s < UNROLL; s++) found[s] += load(y + j + s * LANES) * load(own + j + s * LANES);
        float sum = sum_of((found[0] + found[1]) + (found[2] + found[3]));
        for (; j < n; j++) sum += y[j] * own[j];
        for (j = 0; j < n; j++) y[j] = own[j] * (y[j] - sum);
    }
}
