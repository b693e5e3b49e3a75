/* Recurrent layers as matrix products of a library and element-wise passes, in four formulations: a product per gate,
 * one per operand, one with input and state side by side, or the inputs' product of all steps at once. Compiled behind
 * kernels/maths.c. Gates become activations, then their gradients, in place; see problem.py for their order. */

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
enum { LSTM, GRU, GRU_BEFORE, RNN };
enum { GATES, SPLIT, CONCATENATED, BATCHED };

typedef void (*sgemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                        int);
typedef void (*sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                        int64_t, float, float *, int64_t);

/* gates: steps × batch × gates·hidden, in the order of x. kept: as many states; of an lstm c, of a gru m, of
 * gru-before r h. both: a step's input and state. joint: w and r side by side. below: the state's product. zeros: a
 * state. */
typedef struct {
    float *x, *w, *r, *b, *dy, *y, *dx, *dw, *dr, *db;
    float *gates, *kept, *both, *joint, *below, *zeros, *dh, *dc, *shifted;
    const int64_t *lengths; /* longest first; NULL: all are full */
    void *sgemm;
    int64_t steps, batch, inputs, hidden, count; /* count: of gates */
    int32_t wide, cell, formulation, once, batch_major; /* once: weights' gradients of all steps in one product */
    int32_t packed; /* a step computes only the sequences that it is part of */
} problem;

/* A matrix of one step, or of all. */
typedef struct {
    float *at;
    int64_t ld;
} rows;

static void product(const problem *p, int ta, int tb, int64_t m, int64_t n, int64_t k, rows a, rows b, float beta,
                    rows c)
{
    if (p->wide)
        ((sgemm64)p->sgemm)(ROW_MAJOR, ta, tb, m, n, k, 1.0f, a.at, a.ld, b.at, b.ld, beta, c.at, c.ld);
    else
        ((sgemm32)p->sgemm)(ROW_MAJOR, ta, tb, (int)m, (int)n, (int)k, 1.0f, a.at, (int)a.ld, b.at, (int)b.ld, beta,
                            c.at, (int)c.ld);
}

/* The rows of step t in a sequence of `features`, as steps × batch or batch × steps. */
static rows of_step(const problem *p, float *sequence, int64_t features, int64_t t)
{
    if (p->batch_major) return (rows){sequence + t * features, p->steps * features};
    return (rows){sequence + t * p->batch * features, features};
}

static rows state(const problem *p, int64_t t) /* before step t */
{
    return t ? of_step(p, p->y, p->hidden, t - 1) : (rows){p->zeros, p->hidden};
}

static rows past(rows of, int64_t columns) { return (rows){of.at + columns, of.ld}; }

/* Sequences that step t computes: those it is part of come first. */
static int64_t at_step(const problem *p, int64_t t)
{
    int64_t count = p->batch;
    if (p->packed)
        while (count && p->lengths[count - 1] <= t) count--;
    return count;
}

/* to += or = from · weightsᵀ, of gates first … end − 1 of weights with `terms` columns. */
static void multiply(const problem *p, int64_t t, rows from, float *weights, int64_t terms, int64_t first, int64_t end,
                     float beta, rows to)
{
    int64_t each = p->formulation == GATES ? 1 : end - first, n = each * p->hidden;
    for (int64_t gate = first; gate < end; gate += each)
        product(p, NO_TRANS, TRANS, at_step(p, t), n, terms, from, (rows){weights + gate * p->hidden * terms, terms}, beta,
                past(to, gate * p->hidden));
}

static void copy(float *to, const float *from, int64_t count) { memcpy(to, from, sizeof(float) * count); }

static void beside(const problem *p, int64_t t, rows left, int64_t first, rows right, int64_t second)
{
    for (int64_t b = 0; b < at_step(p, t); b++) {
        float *to = p->both + b * (first + second);
        copy(to, left.at + b * left.ld, first);
        copy(to + first, right.at + b * right.ld, second);
    }
}

/* One element-wise pass over the features of a row: LANES at a time, then what is left. */
#define EACH(count)                                                                                                    \
    for (int64_t j = 0, left; (left = (count)-j) > 0; j += LANES)
static inline vec get(const float *p, int64_t left) { return left >= LANES ? load(p) : load_some(p, left, 0); }
static inline void put(float *p, vec v, int64_t left)
{
    if (left >= LANES)
        store(p, v);
    else
        store_some(p, v, left);
}

static void lstm_row(const problem *p, float *gate, const float *before, float *c, float *y)
{
    int64_t n = p->hidden;
    const float *b = p->b;
    EACH(n)
    {
        vec i = sigmoid_of(get(gate + j, left) + get(b + j, left));
        vec f = sigmoid_of(get(gate + n + j, left) + get(b + n + j, left));
        vec g = tanh_of(get(gate + 2 * n + j, left) + get(b + 2 * n + j, left));
        vec o = sigmoid_of(get(gate + 3 * n + j, left) + get(b + 3 * n + j, left));
        vec cell = f * get(before + j, left) + i * g;
        put(gate + j, i, left);
        put(gate + n + j, f, left);
        put(gate + 2 * n + j, g, left);
        put(gate + 3 * n + j, o, left);
        put(c + j, cell, left);
        put(y + j, o * tanh_of(cell), left);
    }
}

static void lstm_back(const problem *p, float *gate, const float *before, const float *c, const float *dy, float *dh,
                      float *dc)
{
    int64_t n = p->hidden;
    EACH(n)
    {
        vec i = get(gate + j, left), f = get(gate + n + j, left), g = get(gate + 2 * n + j, left);
        vec o = get(gate + 3 * n + j, left), top = tanh_of(get(c + j, left));
        vec slope = get(dh + j, left) + get(dy + j, left);
        vec cell = get(dc + j, left) + slope * o * (1 - top * top);
        put(gate + j, cell * g * i * (1 - i), left);
        put(gate + n + j, cell * get(before + j, left) * f * (1 - f), left);
        put(gate + 2 * n + j, cell * i * (1 - g * g), left);
        put(gate + 3 * n + j, slope * top * o * (1 - o), left);
        put(dc + j, cell * f, left);
    }
}

/* r and z of both GRUs; below: what the state adds to them, or NULL. */
static void gru_gates(const problem *p, float *gate, const float *below)
{
    int64_t n = 2 * p->hidden;
    EACH(n)
    {
        vec sum = get(gate + j, left) + get(p->b + j, left);
        if (below) sum += get(below + j, left);
        put(gate + j, sigmoid_of(sum), left);
    }
}

static void gru_row(const problem *p, float *gate, const float *below, const float *h, float *kept, float *y)
{
    int64_t n = p->hidden;
    EACH(n)
    {
        vec z = get(gate + n + j, left), m = get(below + j, left) + get(p->b + 3 * n + j, left);
        vec new = tanh_of(get(gate + 2 * n + j, left) + get(p->b + 2 * n + j, left) + get(gate + j, left) * m);
        put(kept + j, m, left);
        put(gate + 2 * n + j, new, left);
        put(y + j, (1 - z) * new + z * get(h + j, left), left);
    }
}

/* The gradient of dh passes on as z·dh, to which products are added. */
static void gru_back(const problem *p, float *gate, const float *h, float *kept, const float *dy, float *dh)
{
    int64_t n = p->hidden;
    EACH(n)
    {
        vec r = get(gate + j, left), z = get(gate + n + j, left), new = get(gate + 2 * n + j, left);
        vec slope = get(dh + j, left) + get(dy + j, left), of_new = slope * (1 - z) * (1 - new * new);
        put(gate + j, of_new * get(kept + j, left) * r * (1 - r), left);
        put(gate + n + j, slope * (get(h + j, left) - new) * z * (1 - z), left);
        put(gate + 2 * n + j, of_new, left);
        put(kept + j, of_new * r, left);
        put(dh + j, slope * z, left);
    }
}

static void reset(const problem *p, const float *gate, const float *h, float *kept)
{
    EACH(p->hidden) put(kept + j, get(gate + j, left) * get(h + j, left), left);
}

static void before_row(const problem *p, float *gate, const float *h, float *y)
{
    int64_t n = p->hidden;
    EACH(n)
    {
        vec z = get(gate + n + j, left);
        vec new = tanh_of(get(gate + 2 * n + j, left) + get(p->b + 2 * n + j, left));
        put(gate + 2 * n + j, new, left);
        put(y + j, (1 - z) * new + z * get(h + j, left), left);
    }
}

/* Of z and n, before the product of n's gradient with its weights; then of r, with that product. */
static void before_back(const problem *p, float *gate, const float *h, const float *dy, float *dh)
{
    int64_t n = p->hidden;
    EACH(n)
    {
        vec z = get(gate + n + j, left), new = get(gate + 2 * n + j, left);
        vec slope = get(dh + j, left) + get(dy + j, left);
        put(gate + n + j, slope * (get(h + j, left) - new) * z * (1 - z), left);
        put(gate + 2 * n + j, slope * (1 - z) * (1 - new * new), left);
        put(dh + j, slope * z, left);
    }
}

static void reset_back(const problem *p, float *gate, const float *h, const float *below, float *dh)
{
    EACH(p->hidden)
    {
        vec r = get(gate + j, left), of_reset = get(below + j, left);
        put(gate + j, of_reset * get(h + j, left) * r * (1 - r), left);
        put(dh + j, get(dh + j, left) + of_reset * r, left);
    }
}

static void rnn_row(const problem *p, float *gate, float *y)
{
    EACH(p->hidden) put(y + j, tanh_of(get(gate + j, left) + get(p->b + j, left)), left);
}

static void rnn_back(const problem *p, float *gate, const float *y, const float *dy, const float *dh)
{
    EACH(p->hidden)
    {
        vec h = get(y + j, left);
        put(gate + j, (get(dh + j, left) + get(dy + j, left)) * (1 - h * h), left);
    }
}

/* The sums of step t: what the input adds to all gates, and the state to those that need no reset. */
static void sums(const problem *p, int64_t t, rows gates, rows h)
{
    int64_t e = p->inputs, n = p->hidden, all = p->count;
    int gru = p->cell == GRU || p->cell == GRU_BEFORE;
    rows x = of_step(p, p->x, e, t), below = {p->below, all * n};
    if (p->formulation == CONCATENATED) {
        beside(p, t, x, e, h, n);
        multiply(p, t, (rows){p->both, e + n}, p->joint, e + n, 0, gru ? 2 : all, 0, gates);
        if (p->cell == GRU) {
            multiply(p, t, x, p->w, e, 2, 3, 0, gates);
            multiply(p, t, h, p->r, n, 2, 3, 0, below);
        }
        return;
    }
    if (p->formulation != BATCHED) multiply(p, t, x, p->w, e, 0, all, 0, gates);
    if (p->cell == GRU)
        multiply(p, t, h, p->r, n, 0, all, 0, below);
    else
        multiply(p, t, h, p->r, n, 0, gru ? 2 : all, 1, gates);
}

static int padding(const problem *p, int64_t b, int64_t t) { return p->lengths && t >= p->lengths[b]; }

static void gru_before_new(const problem *p, int64_t t, rows gates, rows h, rows kept)
{
    int64_t e = p->inputs, n = p->hidden, count = at_step(p, t);
    for (int64_t b = 0; b < count; b++) {
        gru_gates(p, gates.at + b * gates.ld, NULL);
        reset(p, gates.at + b * gates.ld, h.at + b * h.ld, kept.at + b * kept.ld);
    }
    if (p->formulation != CONCATENATED) {
        multiply(p, t, kept, p->r, n, 2, 3, 1, gates);
        return;
    }
    beside(p, t, of_step(p, p->x, e, t), e, kept, n);
    multiply(p, t, (rows){p->both, e + n}, p->joint, e + n, 2, 3, 0, gates);
}

static void forward_step(const problem *p, int64_t t)
{
    int64_t n = p->hidden, count = at_step(p, t);
    rows gates = of_step(p, p->gates, p->count * n, t), kept = of_step(p, p->kept, n, t), h = state(p, t);
    rows y = of_step(p, p->y, n, t), c = t ? of_step(p, p->kept, n, t - 1) : (rows){p->zeros, n};
    sums(p, t, gates, h);
    if (p->cell == GRU_BEFORE) gru_before_new(p, t, gates, h, kept);
    for (int64_t b = 0; b < count; b++) {
        float *gate = gates.at + b * gates.ld, *keep = kept.at + b * kept.ld, *out = y.at + b * y.ld;
        const float *below = p->below + b * p->count * n, *before = h.at + b * h.ld;
        if (p->cell == LSTM) lstm_row(p, gate, c.at + b * c.ld, keep, out);
        if (p->cell == GRU) {
            gru_gates(p, gate, p->formulation == CONCATENATED ? NULL : below);
            gru_row(p, gate, below + 2 * n, before, keep, out);
        }
        if (p->cell == GRU_BEFORE) before_row(p, gate, before, out);
        if (p->cell == RNN) rnn_row(p, gate, out);
    }
}

void recurrent_forward(const problem *p)
{
    int64_t e = p->inputs, n = p->hidden, all = p->count * n;
    if (p->formulation == CONCATENATED)
        for (int64_t row = 0; row < all; row++) {
            copy(p->joint + row * (e + n), p->w + row * e, e);
            copy(p->joint + row * (e + n) + e, p->r + row * n, n);
        }
    if (p->formulation == BATCHED)
        product(p, NO_TRANS, TRANS, p->steps * p->batch, all, e, (rows){p->x, e}, (rows){p->w, e}, 0,
                (rows){p->gates, all});
    for (int64_t t = 0; t < p->steps; t++) forward_step(p, t);
    for (int64_t t = 0; t < p->steps; t++) {
        rows y = of_step(p, p->y, n, t);
        for (int64_t b = 0; b < p->batch; b++)
            if (padding(p, b, t)) memset(y.at + b * y.ld, 0, sizeof(float) * n);
    }
}

/* Gradients of the sums of step t in place of the gates, and of the state before it in dh. */
static void backward_step(const problem *p, int64_t t)
{
    int64_t n = p->hidden, all = p->count, count = at_step(p, t);
    rows gates = of_step(p, p->gates, all * n, t), kept = of_step(p, p->kept, n, t), h = state(p, t);
    rows y = of_step(p, p->y, n, t), dy = of_step(p, p->dy, n, t), dh = {p->dh, n}, below = {p->below, n};
    rows c = t ? of_step(p, p->kept, n, t - 1) : (rows){p->zeros, n}, r = {p->r, n}, last = {p->r + 2 * n * n, n};
    for (int64_t b = 0; b < count; b++) {
        float *gate = gates.at + b * gates.ld, *keep = kept.at + b * kept.ld, *slope = p->dh + b * n;
        const float *given = padding(p, b, t) ? p->zeros : dy.at + b * dy.ld, *before = h.at + b * h.ld;
        if (p->cell == LSTM) lstm_back(p, gate, c.at + b * c.ld, keep, given, slope, p->dc + b * n);
        if (p->cell == GRU) gru_back(p, gate, before, keep, given, slope);
        if (p->cell == GRU_BEFORE) before_back(p, gate, before, given, slope);
        if (p->cell == RNN) rnn_back(p, gate, y.at + b * y.ld, given, slope);
    }
    if (p->cell == GRU_BEFORE) {
        product(p, NO_TRANS, NO_TRANS, count, n, n, past(gates, 2 * n), last, 0, below);
        for (int64_t b = 0; b < count; b++)
            reset_back(p, gates.at + b * gates.ld, h.at + b * h.ld, below.at + b * n, p->dh + b * n);
    }
    if (p->cell == LSTM || p->cell == RNN) {
        product(p, NO_TRANS, NO_TRANS, count, n, all * n, gates, r, 0, dh);
        return;
    }
    product(p, NO_TRANS, NO_TRANS, count, n, 2 * n, gates, r, 1, dh);
    if (p->cell == GRU) product(p, NO_TRANS, NO_TRANS, count, n, n, kept, last, 1, dh);
}

/* dr of `count` rows of gates' gradients, the states before them, and what the last gate of a GRU multiplies. */
static void of_recurrent(const problem *p, int64_t count, rows gates, rows h, rows kept, float beta)
{
    int64_t n = p->hidden;
    rows dr = {p->dr, n}, last = {p->dr + 2 * n * n, n};
    int gru = p->cell == GRU || p->cell == GRU_BEFORE;
    product(p, TRANS, NO_TRANS, (gru ? 2 : p->count) * n, n, count, gates, h, beta, dr);
    if (p->cell == GRU) product(p, TRANS, NO_TRANS, n, n, count, kept, h, beta, last);
    if (p->cell == GRU_BEFORE) product(p, TRANS, NO_TRANS, n, n, count, past(gates, 2 * n), kept, beta, last);
}

static void of_biases(const problem *p, rows gates, rows kept, int64_t count)
{
    int64_t n = p->hidden, all = p->count * n;
    for (int64_t row = 0; row < count; row++) {
        const float *gate = gates.at + row * gates.ld, *keep = kept.at + row * kept.ld;
        EACH(all) put(p->db + j, get(p->db + j, left) + get(gate + j, left), left);
        if (p->cell == GRU) EACH(n) put(p->db + all + j, get(p->db + all + j, left) + get(keep + j, left), left);
    }
}

/* The states before every step, in the order of y. */
static void shift(const problem *p)
{
    int64_t n = p->hidden;
    for (int64_t t = 0; t < p->steps; t++) {
        rows h = state(p, t), to = of_step(p, p->shifted, n, t);
        for (int64_t b = 0; b < p->batch; b++) copy(to.at + b * to.ld, h.at + b * h.ld, n);
    }
}

void recurrent_gradient(const problem *p) /* after recurrent_forward, whose gates it overwrites */
{
    int64_t e = p->inputs, n = p->hidden, all = p->count * n, every = p->steps * p->batch;
    rows w = {p->w, e}, dw = {p->dw, e}, whole = {p->gates, all}, kept = {p->kept, n};
    memset(p->dh, 0, sizeof(float) * p->batch * n);
    memset(p->dc, 0, sizeof(float) * p->batch * n);
    memset(p->db, 0, sizeof(float) * (all + (p->cell == GRU) * n));
    if (p->packed) memset(p->dx, 0, sizeof(float) * every * e);
    for (int64_t t = p->steps - 1; t >= 0; t--) {
        rows gates = of_step(p, p->gates, all, t), x = of_step(p, p->x, e, t), keep = of_step(p, p->kept, n, t);
        int64_t count = at_step(p, t);
        float beta = t < p->steps - 1;
        backward_step(p, t);
        of_biases(p, gates, keep, count);
        if (p->once) continue;
        product(p, NO_TRANS, NO_TRANS, count, e, all, gates, w, 0, of_step(p, p->dx, e, t));
        product(p, TRANS, NO_TRANS, all, e, count, gates, x, beta, dw);
        of_recurrent(p, count, gates, state(p, t), keep, beta);
    }
    if (!p->once) return;
    shift(p);
    product(p, NO_TRANS, NO_TRANS, every, e, all, whole, w, 0, (rows){p->dx, e});
    product(p, TRANS, NO_TRANS, all, e, every, whole, (rows){p->x, e}, 0, dw);
    of_recurrent(p, every, whole, (rows){p->shifted, n}, kept, 0);
}

void recurrent_step(const problem *p)
{
    recurrent_forward(p);
    recurrent_gradient(p);
}
