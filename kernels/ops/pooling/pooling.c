/* Pooling with windows two apart. What is pooled at once is a line: of planes (NCHW) a row of the result, whose
 * windows begin two elements apart; of NHWC all channels of one pixel, whose elements are neighbors.
 * A step: y, and dx, the gradient of x. Its maxima are found by an index that the forward stores, or looked for again. */

typedef struct {
    const float *x, *dy;
    float *y, *dx;
    void *scratch;
    int64_t images, channels, size, edge;
} argument;

#define INLINE static inline __attribute__((always_inline))
enum { STRIDE = 2 };

/* LANES elements, `step` apart. Two vectors are read for those that are two apart, which end where the second
 * does: a line's last ones are done one by one. */
INLINE vec spaced(const float *x, int step)
{
    if (step == 1) return load(x);
    vec low = load(x), high = load(x + LANES);
    ivec even;
    for (int l = 0; l < LANES; l++) even[l] = 2 * l;
    return __builtin_shuffle(low, high, even);
}

typedef int8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
enum { NOBODY = 127 };

/* How many elements of a line are done as vectors. */
INLINE int64_t vectors(int64_t n, int step) { return step == 1 ? n / LANES * LANES : (n - 1) / LANES * LANES; }

/* Best element of each window of a line, and which it is; `step` elements from a window to the next. */
INLINE void line_max(const float *x, float *y, int8_t *index, int64_t n, int step, int w, int64_t down, int64_t right,
                     int relu)
{
    int64_t j = 0;
    for (; j < vectors(n, step); j += LANES) {
        vec best = spaced(x + j * step, step);
        ivec at = {0};
        for (int i = 1; i < w * w; i++) {
            vec v = spaced(x + j * step + i / w * down + i % w * right, step);
            ivec more = v > best;
            if (index) at = (more & i) | (~more & at);
            best = pick(more, v, best);
        }
        ivec positive = best > 0;
        if (relu) at = (positive & at) | (~positive & NOBODY);
        if (y) store(y + j, relu ? pick(positive, best, all(0)) : best);
        if (index) *(bytes *)(index + j) = __builtin_convertvector(at, bytes);
    }
    for (; j < n; j++) {
        float best = x[j * step];
        int at = 0;
        for (int i = 1; i < w * w; i++) {
            float v = x[j * step + i / w * down + i % w * right];
            int more = -(v > best);
            at = (more & i) | (~more & at);
            best = v > best ? v : best;
        }
        if (y) y[j] = relu && !(best > 0) ? 0 : best;
        if (index) index[j] = relu && !(best > 0) ? NOBODY : at;
    }
}

INLINE void line_avg(const float *x, float *y, int64_t n, int step, int w, int64_t down, int64_t right)
{
    int64_t j = 0;
    for (; j < vectors(n, step); j += LANES) {
        vec sum = {0};
        for (int i = 0; i < w * w; i++) sum += spaced(x + j * step + i / w * down + i % w * right, step);
        store(y + j, sum * (1.0f / (w * w)));
    }
    for (; j < n; j++) {
        float sum = 0;
        for (int i = 0; i < w * w; i++) sum += x[j * step + i / w * down + i % w * right];
        y[j] = sum * (1.0f / (w * w));
    }
}

/* What an element of the windows at `place` gets of d: all of it where it was the best, or its share. */
INLINE vec share(const float *d, const int8_t *index, int place, int w)
{
    if (!index) return load(d) * (1.0f / (w * w));
    ivec mine = __builtin_convertvector(*(const bytes *)index, ivec) == place;
    return (vec)((ivec)load(d) & mine);
}

/* The same of one element: no jump, as nobody can foretell it. */
INLINE float share_of_one(float d, const int8_t *index, int place, int w)
{
    if (!index) return d * (1.0f / (w * w));
    uint32_t bits;
    memcpy(&bits, &d, 4);
    bits &= -(uint32_t)(*index == place);
    memcpy(&d, &bits, 4);
    return d;
}

/* One place of the windows after another, so that no two elements of a pass are the same one; windows two apart
 * take the two places of a row that are neighbors at once. */
INLINE void line_back(const float *d, const int8_t *index, float *g, int64_t n, int step, int w, int64_t down,
                      int64_t right)
{
    for (int r = 0; r < w; r++)
        for (int c = 0; c < w; c += step == 1 || c == 2 ? 1 : 2) {
            float *to = g + r * down + c * right;
            int64_t j = 0;
            for (; j < vectors(n, step); j += LANES) {
                vec first = share(d + j, index ? index + j : 0, r * w + c, w);
                if (step == 1) {
                    store(to + j, load(to + j) + first);
                    continue;
                }
                vec second = c == 2 ? all(0) : share(d + j, index ? index + j : 0, r * w + c + 1, w);
                ivec low, high;
                for (int l = 0; l < LANES; l++) {
                    low[l] = l / 2 + l % 2 * LANES;
                    high[l] = low[l] + LANES / 2;
                }
                float *pair = to + 2 * j;
                store(pair, load(pair) + __builtin_shuffle(first, second, low));
                store(pair + LANES, load(pair + LANES) + __builtin_shuffle(first, second, high));
            }
            for (; j < n; j++) {
                const int8_t *one = index ? index + j : 0;
                to[j * step] += share_of_one(d[j], one, r * w + c, w);
                if (step == 2 && c == 0) to[j * step + 1] += share_of_one(d[j], one, r * w + 1, w);
            }
        }
}

/* Every line of the batch: its windows' first element in x, its first in y. */
#define LINES(body)                                                                                         \
    for (int64_t plane = 0; plane < (step == 1 ? p->images : p->images * p->channels); plane++)             \
        for (int64_t i = 0; i < e; i++)                                                                     \
            for (int64_t k = 0; k < (step == 1 ? e : 1); k++) {                                             \
                int64_t from = ((plane * s + STRIDE * i) * s + STRIDE * k) * right, to = ((plane * e + i) * e + k) * right; \
                body                                                                                        \
            }

typedef struct { int64_t outputs, inputs; } counts;

INLINE counts of(const argument *p)
{
    int64_t planes = p->images * p->channels;
    return (counts){planes * p->edge * p->edge, planes * p->size * p->size};
}

#define SIZES                                                                                               \
    int64_t s = p->size, e = p->edge, right = step == 1 ? p->channels : 1, down = s * right,                \
            n = step == 1 ? p->channels : e;

INLINE void forward(const argument *p, const float *x, int step, int w, int average, int relu, int8_t *index)
{
    SIZES
    float *y = p->y;
    LINES(if (average) line_avg(x + from, y + to, n, step, w, down, right);
          else line_max(x + from, y + to, index ? index + to : 0, n, step, w, down, right, relu);)
}

/* By the indices; without them by looking for the maxima again. */
INLINE void backward(const argument *p, const float *x, const float *d, int step, int w, int average, const int8_t *index)
{
    SIZES
    int8_t again[n + LANES];
    float *g = p->dx;
    memset(g, 0, 4 * of(p).inputs);
    LINES(if (!average && !index) line_max(x + from, 0, again, n, step, w, down, right, 0);
          line_back(d + to, average ? 0 : index ? index + to : again, g + from, n, step, w, down, right);)
}

static void rectify(const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

/* g = d where y is positive */
static void rectify_back(const float *y, const float *d, float *g, int64_t n)
{
    for (int64_t i = 0; i < n; i++) g[i] = y[i] > 0 ? d[i] : 0;
}

/* Where floats of the scratch begin: behind the indices. */
INLINE float *floats(const argument *p) { return (float *)((char *)p->scratch + (of(p).outputs + 63) / 64 * 64); }

/* ReLU of all of x, then the pooling; back through both. */
INLINE void before(const argument *p, int step, int w, int whole)
{
    float *positive = floats(p), *g = p->dx;
    rectify(p->x, positive, of(p).inputs);
    forward(p, positive, step, w, 0, 0, whole ? p->scratch : 0);
    if (!whole) return;
    backward(p, positive, p->dy, step, w, 0, p->scratch);
    rectify_back(positive, g, g, of(p).inputs);
}

/* The pooling, then ReLU of its result, a quarter of x; back through both. */
INLINE void after(const argument *p, int step, int w, int whole)
{
    float *slope = floats(p);
    forward(p, p->x, step, w, 0, 0, whole ? p->scratch : 0);
    rectify(p->y, p->y, of(p).outputs);
    if (!whole) return;
    rectify_back(p->y, p->dy, slope, of(p).outputs);
    backward(p, p->x, slope, step, w, 0, p->scratch);
}

/* Forward and step of each kind: maxima with stored indices, maxima looked for again, averages, ReLU in the same
 * pass, before it, after it. */
#define STEP(name, step, w, average, relu, stored)                                                          \
    void name##_forward(const argument *p) { forward(p, p->x, step, w, average, relu, 0); }                 \
    void name##_step(const argument *p)                                                                     \
    {                                                                                                       \
        forward(p, p->x, step, w, average, relu, stored ? p->scratch : 0);                                  \
        backward(p, p->x, p->dy, step, w, average, stored ? p->scratch : 0);                                 \
    }
#define EACH(layout, step, w)                                                                               \
    STEP(max_##layout##w, step, w, 0, 0, 1)                                                                 \
    STEP(again_##layout##w, step, w, 0, 0, 0)                                                               \
    STEP(avg_##layout##w, step, w, 1, 0, 0)                                                                 \
    STEP(relu_##layout##w, step, w, 0, 1, 1)                                                                \
    void before_##layout##w##_forward(const argument *p) { before(p, step, w, 0); }                         \
    void before_##layout##w##_step(const argument *p) { before(p, step, w, 1); }                            \
    void after_##layout##w##_forward(const argument *p) { after(p, step, w, 0); }                           \
    void after_##layout##w##_step(const argument *p) { after(p, step, w, 1); }

EACH(nchw, STRIDE, 2)
EACH(nchw, STRIDE, 3)
EACH(nhwc, 1, 2)
EACH(nhwc, 1, 3)
