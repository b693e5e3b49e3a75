/* The gradient of filters, summed directly: filters in lanes, a tile of filters × channels and taps across in vector
 * registers over all outputs of a band of rows. Compiled behind layout.c. */

enum { BAND = 512 }; /* outputs at a time */

typedef struct {
    const problem *p;
    images x, y;
    int64_t channels, filters, blocks, planes; /* of a group; of WIDE filters; channels × taps across */
    int64_t high, lines, plane;                /* rows of outputs at a time, of the image for them; floats of one */
    float *frame, *gradient, *lanes;
} gradients;

static gradients gradients_of(const problem *p, int64_t *size)
{
    gradients q = {.p = p};
    q.x = images_of(p, p->channels, p->height, p->width), q.y = images_of(p, p->filters, p->down, p->across);
    q.channels = p->channels / p->groups, q.filters = p->filters / p->groups;
    q.blocks = ceiling(q.filters, WIDE), q.planes = q.channels * p->taps_across;
    q.high = least(p->down, most(1, BAND / p->across));
    q.lines = least(p->height, (q.high - 1) * p->stride + (p->rows - 1) * p->dilation + 1);
    q.plane = p->across % 32 ? p->across : p->across + 16;
    float *place = p->scratch;
    q.frame = place, place += rounded(q.lines * q.planes * q.plane);
    q.gradient = place, place += q.blocks * q.planes * p->rows * WIDE;
    q.lanes = place, place += q.high * p->across * WIDE;
    *size = 4 * (place - p->scratch);
    return q;
}

/* Of each channel and tap across, what all outputs of a row read, for the rows first … end − 1 of the image. */
static void spread(const gradients *q, const float *image, int64_t group, int64_t first, int64_t end)
{
    const problem *p = q->p;
    int64_t taps = p->taps_across, stride = p->stride, apart = stride * q->x.pixel, beside = q->x.pixel > 1 ? LANES : 1;
    for (int64_t c = 0; c < q->channels; c += beside) {
        if (c + beside > q->channels) beside = 1;
        const float *source = image + at(q->x.channel, group * q->channels + c);
        for (int64_t y = first; y < end; y++)
            for (int64_t s = 0; s < taps; s++) {
                int64_t shift = s * p->dilation - p->left;
                int64_t begin = least(p->across, most(0, -below(shift, stride)));
                int64_t last = most(begin, least(p->across, below(p->width - 1 - shift, stride) + 1));
                float *to = q->frame + ((y - first) * q->planes + c * taps + s) * q->plane;
                const float *from = source + (y * p->width + shift) * q->x.pixel;
                for (int64_t i = 0; i < beside; i++) {
                    for (int64_t j = 0; j < begin; j++) to[i * taps * q->plane + j] = 0;
                    for (int64_t j = last; j < p->across; j++) to[i * taps * q->plane + j] = 0;
                }
                put_apart(to + begin, from + begin * apart, apart, beside > 1, taps * q->plane, last - begin);
            }
    }
}

/* The result's gradient with the filters of a block in lanes, for the rows first … end − 1. */
static void in_lanes(const gradients *q, const float *image, int64_t filter, int64_t lanes, int64_t first, int64_t end)
{
    int64_t wide = wide_of(lanes), pixels = (end - first) * q->y.width;
    for (int64_t i = 0; i < lanes; i += LANES) {
        int64_t some = least(LANES, lanes - i);
        const float *source = image + at(q->y.channel, filter + i) + first * q->y.width * q->y.pixel;
        float *to = q->lanes + i;
        if (q->y.pixel == 1)
            to_lanes(source, q->y.channel.outer, some, pixels, to, wide);
        else
            for (int64_t j = 0; j < pixels; j++) store(to + j * wide, load_some(source + j * q->y.pixel, some, 0));
    }
}

/* Sums over `rows` rows of outputs for planes of the frame `plane` apart; `place`: where each is kept. */
typedef struct {
    const float *x, *y;
    float *sums;
    int64_t place[TILE], plane, rows, outputs, line;
} task;

INLINE void tile(const int count, const int vectors, const task *t)
{
    vec sum[TILE][2];
    for (int i = 0; i < count; i++)
        for (int v = 0; v < vectors; v++) sum[i][v] = load(t->sums + t->place[i] + v * LANES);
    const float *y = t->y;
    for (int64_t o = 0; o < t->rows; o++) {
        const float *x = t->x + o * t->line;
        for (int64_t j = 0; j < t->outputs; j++, y += vectors * LANES, x++) {
            vec filter[2];
            for (int v = 0; v < vectors; v++) filter[v] = load(y + v * LANES);
#pragma GCC unroll 14
            for (int i = 0; i < count; i++)
                for (int v = 0; v < vectors; v++) sum[i][v] += all(x[i * t->plane]) * filter[v];
        }
    }
    for (int i = 0; i < count; i++)
        for (int v = 0; v < vectors; v++) store(t->sums + t->place[i] + v * LANES, sum[i][v]);
}

#define ONE(n) case n: tile(n, 1, t); break;
#define TWO(n) case n: tile(n, 2, t); break;

static void tile_of(int64_t count, int64_t wide, const task *t)
{
    if (wide == LANES) switch (count) { TILES(ONE) }
    else switch (count) { TILES(TWO) }
}

/* Add a band of outputs to the gradient of a block of filters; the frame begins with the image's row `top`. */
static void add_band(const gradients *q, int64_t block, int64_t lanes, int64_t first, int64_t end, int64_t top)
{
    const problem *p = q->p;
    int64_t parts = ceiling(q->planes, TILE), wide = wide_of(lanes), across = p->taps_across;
    for (int64_t i = 0; i < parts; i++) {
        int64_t left = q->planes * i / parts, right = q->planes * (i + 1) / parts;
        for (int64_t r = 0; r < p->rows; r++) {
            int64_t shift = r * p->dilation - p->top, begin = most(first, -below(shift, p->stride));
            int64_t last = least(end, below(p->height - 1 - shift, p->stride) + 1);
            if (last <= begin) continue;
            task t = {.plane = q->plane, .rows = last - begin, .outputs = p->across};
            t.line = p->stride * q->planes * q->plane;
            t.x = q->frame + left * q->plane + (begin * p->stride + shift - top) * q->planes * q->plane;
            t.y = q->lanes + (begin - first) * p->across * wide;
            t.sums = q->gradient + block * q->planes * p->rows * WIDE;
            for (int64_t k = left; k < right; k++)
                t.place[k - left] = ((k / across * p->rows + r) * across + k % across) * WIDE;
            tile_of(right - left, wide, &t);
        }
    }
}

static void gradient_to(const gradients *q, int64_t group, int64_t block, int64_t lanes)
{
    const problem *p = q->p;
    bank b = bank_of(p);
    int64_t taps = p->rows * p->taps_across, filter = group * q->filters + block * WIDE;
    const float *from = q->gradient + block * q->channels * taps * WIDE;
    if (p->layout == NCHW) {
        for (int64_t i = 0; i < lanes; i += LANES)
            from_lanes(from + i, WIDE, p->w + at(b.filter, filter + i), b.filter.outer, least(LANES, lanes - i),
                       q->channels * taps);
        return;
    }
    for (int64_t i = 0; i < lanes; i++)
        for (int64_t c = 0; c < q->channels; c++)
            for (int64_t tap = 0; tap < taps; tap++)
                p->w[at(b.filter, filter + i) + at(b.channel, c) + tap * b.tap] = from[(c * taps + tap) * WIDE + i];
}

void filters(const problem *p)
{
    int64_t size;
    gradients q = gradients_of(p, &size);
    for (int64_t group = 0; group < p->groups; group++) {
        memset(q.gradient, 0, 4 * q.blocks * q.planes * p->rows * WIDE);
        for (int64_t n = 0; n < p->images; n++)
            for (int64_t o = 0; o < p->down; o += q.high) {
                int64_t end = least(p->down, o + q.high), reach = (p->rows - 1) * p->dilation - p->top;
                int64_t first = most(0, o * p->stride - p->top);
                int64_t last = least(p->height, (end - 1) * p->stride + reach + 1);
                spread(&q, p->x + n * q.x.image, group, first, last);
                for (int64_t i = 0; i < q.blocks; i++) {
                    int64_t lanes = least(WIDE, q.filters - i * WIDE);
                    in_lanes(&q, p->y + n * q.y.image, group * q.filters + i * WIDE, lanes, o, end);
                    add_band(&q, i, lanes, o, end, first);
                }
            }
        for (int64_t i = 0; i < q.blocks; i++) gradient_to(&q, group, i, least(WIDE, q.filters - i * WIDE));
    }
}

/* Bytes. */
int64_t filters_workspace(const problem *p)
{
    int64_t size;
    gradients_of(p, &size);
    return size;
}
