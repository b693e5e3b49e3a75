/* Batch normalization of NCHW, channel by channel, so that what the statistics read is still in cache when it is
 * normalized, and operation by operation over the whole batch; local response normalization. A step is the forward of
 * the whole batch, then the gradients of the whole batch: in a network other layers come between. */

typedef struct {
    const float *x, *scale, *shift, *dy;
    float *y, *mean, *rstd;                 /* statistics of this batch */
    float *dx, *dscale, *dshift;
    const float *kept_mean, *kept_variance; /* of earlier ones */
    float *scratch;
    int64_t images, channels, area;
} argument;

#define INLINE static inline __attribute__((always_inline))
#define EPSILON 1e-5f

typedef struct { float mean, variance; } statistics;

/* Σ (x − about) and Σ (x − about)² of a channel, plane by plane. */
INLINE void sums(const argument *p, int64_t channel, float about, double *first, double *second)
{
    *first = *second = 0;
    for (int64_t i = 0; i < p->images; i++) {
        const float *x = p->x + (i * p->channels + channel) * p->area;
        vec one[UNROLL] = {{0}}, two[UNROLL] = {{0}};
        int64_t j = 0;
        for (; j + UNROLL * LANES <= p->area; j += UNROLL * LANES)
            for (int s = 0; s < UNROLL; s++) {
                vec v = load(x + j + s * LANES) - about;
                one[s] += v;
                two[s] += v * v;
            }
        for (; j < p->area; j += LANES) {
            int64_t left = p->area - j < LANES ? p->area - j : LANES;
            vec v = load_some(x + j, left, about) - about;
            one[0] += v;
            two[0] += v * v;
        }
        *first += sum_of((one[0] + one[1]) + (one[2] + one[3]));
        *second += sum_of((two[0] + two[1]) + (two[2] + two[3]));
    }
}

/* One pass: about the channel's first element, lest the squares swallow the variance. */
INLINE statistics in_one_pass(const argument *p, int64_t channel)
{
    double n = (double)p->images * p->area, first, second;
    float about = p->x[channel * p->area];
    sums(p, channel, about, &first, &second);
    return (statistics){about + first / n, (second - first * first / n) / n};
}

INLINE statistics in_two_passes(const argument *p, int64_t channel)
{
    double n = (double)p->images * p->area, first, second, rest;
    sums(p, channel, 0, &first, &second);
    float mean = first / n;
    sums(p, channel, mean, &rest, &second);
    return (statistics){mean, (second - rest * rest / n) / n};
}

/* Welford 1962, in every lane its own, then joined (Chan, Golub and LeVeque 1979). */
INLINE statistics by_welford(const argument *p, int64_t channel)
{
    vec mean = {0}, rest = {0};
    double n = 0, middle = 0, squares = 0;
    float count = 0;
    for (int64_t i = 0; i < p->images; i++) {
        const float *x = p->x + (i * p->channels + channel) * p->area;
        int64_t j = 0;
        for (; j + LANES <= p->area; j += LANES) {
            vec v = load(x + j), away = v - mean;
            count += 1;
            mean += away * (1 / count);
            rest += away * (v - mean);
        }
        for (; j < p->area; j++) {
            double away = x[j] - middle;
            n += 1;
            middle += away / n;
            squares += away * (x[j] - middle);
        }
    }
    for (int l = 0; l < LANES && count > 0; l++) {
        double away = mean[l] - middle, all = n + count;
        squares += rest[l] + away * away * n * count / all;
        middle += away * count / all;
        n = all;
    }
    return (statistics){middle, squares / n};
}

INLINE void normalize(const argument *p, int64_t channel, statistics s)
{
    float rstd = 1 / sqrtf(s.variance + EPSILON), slope = p->scale[channel] * rstd, mean = s.mean;
    float shift = p->shift[channel];
    if (p->mean) p->mean[channel] = mean, p->rstd[channel] = rstd;
    for (int64_t i = 0; i < p->images; i++) {
        int64_t from = (i * p->channels + channel) * p->area;
        const float *x = p->x + from;
        float *y = p->y + from;
        for (int64_t j = 0; j < p->area; j++) y[j] = (x[j] - mean) * slope + shift;
    }
}

#define BATCH(name, told)                                                                       \
    void name(const argument *p)                                                                \
    {                                                                                           \
        for (int64_t c = 0; c < p->channels; c++) normalize(p, c, told);                        \
    }

BATCH(batch_train, in_one_pass(p, c))
BATCH(batch_train_two_passes, in_two_passes(p, c))
BATCH(batch_train_welford, by_welford(p, c))
BATCH(batch_frozen, ((statistics){p->kept_mean[c], p->kept_variance[c]}))

/* Each operation over all of the batch: y = F(y, value of the channel). */
#define OVER_ALL(expression)                                                                    \
    for (int64_t i = 0; i < p->images; i++)                                                     \
        for (int64_t c = 0; c < p->channels; c++) {                                             \
            int64_t from = (i * p->channels + c) * p->area;                                     \
            const float *x = p->x + from;                                                       \
            float *y = p->y + from, *squares = spare + from;                                    \
            (void)x, (void)squares;                                                             \
            for (int64_t j = 0; j < p->area; j++) { expression; }                               \
        }

static void finish(const argument *p, const float *slope, float *spare)
{
    OVER_ALL(y[j] = y[j] * slope[c])
    OVER_ALL(y[j] = y[j] * p->scale[c])
    OVER_ALL(y[j] = y[j] + p->shift[c])
}

void batch_train_ops(const argument *p)
{
    int64_t n = p->channels, count = p->images * n * p->area;
    float *mean = p->mean, *slope = p->rstd, *spare = p->scratch;
    double first, second;
    for (int64_t c = 0; c < n; c++) {
        sums(p, c, 0, &first, &second);
        mean[c] = first / ((double)count / n);
    }
    OVER_ALL(y[j] = x[j] - mean[c])
    OVER_ALL(squares[j] = y[j] * y[j])
    argument squared = *p;
    squared.x = spare;
    for (int64_t c = 0; c < n; c++) {
        sums(&squared, c, 0, &first, &second);
        slope[c] = 1 / sqrtf(first / ((double)count / n) + EPSILON);
    }
    finish(p, slope, spare);
}

void batch_frozen_ops(const argument *p)
{
    float *slope = p->scratch, *spare = slope + p->channels;
    for (int64_t c = 0; c < p->channels; c++) slope[c] = 1 / sqrtf(p->kept_variance[c] + EPSILON);
    OVER_ALL(y[j] = x[j] - p->kept_mean[c])
    finish(p, slope, spare);
}

/* Σ dy and Σ dy·(x − mean) of a channel. */
INLINE void slopes(const argument *p, int64_t channel, float mean, double *first, double *second)
{
    *first = *second = 0;
    for (int64_t i = 0; i < p->images; i++) {
        int64_t from = (i * p->channels + channel) * p->area, j = 0;
        const float *x = p->x + from, *dy = p->dy + from;
        vec one[UNROLL] = {{0}}, two[UNROLL] = {{0}};
        for (; j + UNROLL * LANES <= p->area; j += UNROLL * LANES)
            for (int s = 0; s < UNROLL; s++) {
                vec v = load(dy + j + s * LANES);
                one[s] += v;
                two[s] += v * (load(x + j + s * LANES) - mean);
            }
        for (; j < p->area; j += LANES) {
            int64_t left = p->area - j < LANES ? p->area - j : LANES;
            vec v = load_some(dy + j, left, 0);
            one[0] += v;
            two[0] += v * (load_some(x + j, left, mean) - mean);
        }
        *first += sum_of((one[0] + one[1]) + (one[2] + one[3]));
        *second += sum_of((two[0] + two[1]) + (two[2] + two[3]));
    }
}

/* `own`: mean and variance are the batch's, and dx goes through them too. */
INLINE void gradients(const argument *p, int64_t channel, float mean, float rstd, int own)
{
    double n = (double)p->images * p->area, first, second;
    slopes(p, channel, mean, &first, &second);
    p->dshift[channel] = first;
    p->dscale[channel] = second * rstd;
    float slope = p->scale[channel] * rstd, level = first / n, tilt = second * rstd * rstd / n;
    for (int64_t i = 0; i < p->images; i++) {
        int64_t from = (i * p->channels + channel) * p->area;
        const float *x = p->x + from, *dy = p->dy + from;
        float *dx = p->dx + from;
        for (int64_t j = 0; j < p->area; j++)
            dx[j] = own ? (dy[j] - level - (x[j] - mean) * tilt) * slope : dy[j] * slope;
    }
}

void batch_train_step(const argument *p)
{
    batch_train(p);
    for (int64_t c = 0; c < p->channels; c++) gradients(p, c, p->mean[c], p->rstd[c], 1);
}

void batch_frozen_step(const argument *p)
{
    batch_frozen(p);
    for (int64_t c = 0; c < p->channels; c++)
        gradients(p, c, p->kept_mean[c], 1 / sqrtf(p->kept_variance[c] + EPSILON), 0);
}

/* Each operation over all of the batch: `normal` is (x − mean)·rstd. */
#define BACK_OVER_ALL(expression)                                                               \
    for (int64_t i = 0; i < p->images; i++)                                                     \
        for (int64_t c = 0; c < p->channels; c++) {                                             \
            int64_t from = (i * p->channels + c) * p->area;                                     \
            const float *x = p->x + from, *dy = p->dy + from;                                   \
            float *dx = p->dx + from, *normal = spare + from;                                   \
            (void)x, (void)dy, (void)dx, (void)normal;                                          \
            for (int64_t j = 0; j < p->area; j++) { expression; }                               \
        }

INLINE void back(const argument *p, const float *mean, const float *rstd, float *spare, int own)
{
    double n = (double)p->images * p->area, first, second;
    argument other = *p;
    BACK_OVER_ALL(normal[j] = x[j] - mean[c])
    BACK_OVER_ALL(normal[j] = normal[j] * rstd[c])
    BACK_OVER_ALL(dx[j] = dy[j] * normal[j])
    for (int64_t c = 0; c < p->channels; c++) {
        other.x = p->dx;
        sums(&other, c, 0, &first, &second);
        p->dscale[c] = first;
        other.x = p->dy;
        sums(&other, c, 0, &first, &second);
        p->dshift[c] = first;
    }
    if (own) {
        BACK_OVER_ALL(dx[j] = normal[j] * (float)(p->dscale[c] / n))
        BACK_OVER_ALL(dx[j] = dy[j] - dx[j])
        BACK_OVER_ALL(dx[j] = dx[j] - (float)(p->dshift[c] / n))
        BACK_OVER_ALL(dx[j] = dx[j] * p->scale[c])
    } else {
        BACK_OVER_ALL(dx[j] = dy[j] * p->scale[c])
    }
    BACK_OVER_ALL(dx[j] = dx[j] * rstd[c])
}

void batch_train_ops_step(const argument *p)
{
    batch_train_ops(p);
    back(p, p->mean, p->rstd, p->scratch, 1);
}

void batch_frozen_ops_step(const argument *p)
{
    batch_frozen_ops(p);
    back(p, p->kept_mean, p->scratch, p->scratch + p->channels, 0);
}

/* Of each element the squares of its neighbors anew: from cache, five planes away at most. t^−¾ = 1/(√t √√t).
 * `kept`: where t is left for the gradient. */
INLINE void local(const argument *p, float *kept)
{
    int64_t n = p->channels, area = p->area;
    for (int64_t i = 0; i < p->images; i++)
        for (int64_t c = 0; c < n; c++) {
            int64_t low = c < 2 ? 0 : c - 2, high = c + 2 < n ? c + 2 : n - 1, from = (i * n + c) * area;
            const float *x = p->x + i * n * area;
            float *y = p->y + from;
            for (int64_t j = 0; j < area; j++) y[j] = 0;
            for (int64_t k = low; k <= high; k++)
                for (int64_t j = 0; j < area; j++) y[j] += x[k * area + j] * x[k * area + j];
            for (int64_t j = 0; j < area; j++) {
                float t = 2.0f + 1e-4f / 5 * y[j], root = sqrtf(t);
                if (kept) kept[from + j] = t;
                y[j] = x[c * area + j] / (root * sqrtf(root));
            }
        }
}

void lrn_train(const argument *p) { local(p, 0); }

/* dx = dy·t^−¾ − 3/2·α/5 · x·Σ dy·y/t over the neighbors. */
void lrn_train_step(const argument *p)
{
    int64_t n = p->channels, area = p->area;
    float *kept = p->scratch, *quotients = kept + p->images * n * area;
    local(p, kept);
    for (int64_t i = 0; i < p->images; i++) {
        int64_t image = i * n * area;
        for (int64_t j = 0; j < n * area; j++) quotients[j] = p->dy[image + j] * p->y[image + j] / kept[image + j];
        for (int64_t c = 0; c < n; c++) {
            int64_t low = c < 2 ? 0 : c - 2, high = c + 2 < n ? c + 2 : n - 1, from = image + c * area;
            const float *x = p->x + from, *dy = p->dy + from, *t = kept + from;
            float *dx = p->dx + from;
            for (int64_t j = 0; j < area; j++) dx[j] = 0;
            for (int64_t k = low; k <= high; k++)
                for (int64_t j = 0; j < area; j++) dx[j] += quotients[k * area + j];
            for (int64_t j = 0; j < area; j++) {
                float root = sqrtf(t[j]);
                dx[j] = dy[j] / (root * sqrtf(root)) - 1.5f * 1e-4f / 5 * x[j] * dx[j];
            }
        }
    }
}
