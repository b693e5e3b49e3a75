/* Direct convolutions whose groups have few outputs: a first layer's gradient of the image, a filter for each channel.
 * Lanes are pixels. Compiled behind layout.c.
 *
 * The source is copied between zeros on all sides; rows and columns that a stride parts lie apart. Outputs are counted
 * through the rows of such a frame, its ends among them: then all that one tap reads of a channel lies together, and
 * vectors run over ends of rows, whose sums nobody reads. */

enum { FEW = 4, LONG = 8 }; /* outputs at a time; vectors of pixels, of one output */

typedef struct {
    const problem *p;
    images from, to;
    reach down, across;
    int64_t inputs, outputs, blocks;   /* of a group; of FEW outputs */
    int64_t high, wide, plane, length; /* a frame's part: rows, columns; a channel; sums of one output */
    float *frame, *packed, *sums;
    int64_t *row, *row_shift, *column, *column_shift, *offset;
} plan;

static plan plan_of(const problem *p, int64_t *size)
{
    plan q = {.p = p};
    images x = images_of(p, p->channels, p->height, p->width), y = images_of(p, p->filters, p->down, p->across);
    int gradient = p->direction == DGRAD;
    q.from = gradient ? y : x, q.to = gradient ? x : y;
    q.inputs = (gradient ? p->filters : p->channels) / p->groups;
    q.outputs = (gradient ? p->channels : p->filters) / p->groups;
    q.blocks = ceiling(q.outputs, FEW);
    q.down = reach_of(p, p->rows, p->top, p->down, p->height);
    q.across = reach_of(p, p->taps_across, p->left, p->across, p->width);
    q.high = ceiling(q.down.span, q.down.step), q.wide = ceiling(q.across.span, q.across.step);
    q.plane = rounded(q.down.step * q.across.step * q.high * q.wide);
    if (q.plane % 32 == 0) q.plane += 16; /* channels a power of two apart would share few lines of a cache */
    q.length = rounded(ceiling(q.to.height, q.down.phases) * q.wide) + LANES;
    int64_t taps = p->rows * p->taps_across, each = p->direction == WGRAD ? LANES : 1;
    float *place = p->scratch;
    q.frame = place, place += q.inputs * q.plane + rounded(LANES);
    q.packed = place, place += rounded((p->direction == WGRAD ? 1 : p->groups) * q.outputs * q.inputs * taps * each);
    q.sums = place, place += FEW * q.length;
    q.row = (int64_t *)place;
    q.row_shift = q.row + p->rows, q.column = q.row_shift + p->rows;
    q.column_shift = q.column + p->taps_across, q.offset = q.column_shift + p->taps_across;
    *size = 4 * (place - p->scratch) + 8 * (2 * (p->rows + p->taps_across) + taps);
    return q;
}

INLINE int64_t some_of(const plan *q, int64_t block) { return least(FEW, q->outputs - block * FEW); }

/* The taps of a phase, and where in the frame each reads. */
static int64_t phase_of(const plan *q, int64_t a, int64_t b)
{
    int64_t rows = taps_of(&q->down, a, q->row, q->row_shift);
    int64_t columns = taps_of(&q->across, b, q->column, q->column_shift);
    for (int64_t k = 0; k < rows * columns; k++) {
        int64_t y = q->row_shift[k / columns] - q->down.low, x = q->column_shift[k % columns] - q->across.low;
        int64_t step = q->across.step, part = y % step * step + x % step;
        q->offset[k] = (part * q->high + y / step) * q->wide + x / step;
    }
    return rows * columns;
}

/* Filters by group, block of outputs, phase, input and tap, the outputs side by side. */
static void pack(const plan *q, int64_t group, float *to)
{
    const problem *p = q->p;
    bank b = bank_of(p);
    int forward = p->direction == FORWARD;
    for (int64_t block = 0; block < q->blocks; block++)
        for (int64_t phase = 0; phase < q->down.phases * q->across.phases; phase++) {
            int64_t rows = taps_of(&q->down, phase / q->across.phases, q->row, q->row_shift);
            int64_t columns = taps_of(&q->across, phase % q->across.phases, q->column, q->column_shift);
            for (int64_t c = 0; c < q->inputs; c++)
                for (int64_t k = 0; k < rows * columns; k++)
                    for (int64_t i = 0; i < some_of(q, block); i++) {
                        int64_t tap = q->row[k / columns] * p->taps_across + q->column[k % columns];
                        int64_t output = block * FEW + i;
                        int64_t filter = group * (forward ? q->outputs : q->inputs) + (forward ? output : c);
                        *to++ = p->w[at(b.filter, filter) + at(b.channel, forward ? c : output) + tap * b.tap];
                    }
        }
}

/* A group of an image between the zeros that stand in the frame. */
static void fill(const plan *q, const float *image, int64_t group)
{
    const images *m = &q->from;
    int64_t step = q->across.step, beside = m->pixel > 1 ? LANES : 1, apart = step * m->pixel;
    for (int64_t c = 0; c < q->inputs; c += beside) {
        if (c + beside > q->inputs) beside = 1;
        const float *source = image + at(m->channel, group * q->inputs + c);
        for (int64_t part = 0; part < step * step; part++) {
            int64_t y = q->down.low + part / step, x = q->across.low + part % step;
            int64_t first = most(0, -below(x, step)), end = least(q->wide, below(m->width - 1 - x, step) + 1);
            int64_t last = least(q->high, below(m->height - 1 - y, step) + 1);
            for (int64_t v = most(0, -below(y, step)); v < last && first < end; v++) {
                float *to = q->frame + c * q->plane + (part * q->high + v) * q->wide;
                const float *from = source + ((y + v * step) * m->width + x) * m->pixel;
                put_apart(to + first, from + first * apart, apart, beside > 1, q->plane, end - first);
            }
        }
    }
}

/* ---- y, or the gradient of x ---- */

typedef struct {
    const float *x, *w;
    float *sums;
    const int64_t *offset;
    int64_t channels, taps, plane, length;
} task;

INLINE void tile(const int outputs, const int vectors, const task *t)
{
    vec sum[FEW][LONG];
    for (int i = 0; i < outputs; i++)
        for (int v = 0; v < vectors; v++) sum[i][v] = all(0);
    const float *x = t->x, *w = t->w;
    for (int64_t c = 0; c < t->channels; c++, x += t->plane)
        for (int64_t k = 0; k < t->taps; k++, w += outputs)
            for (int v = 0; v < vectors; v++) {
                vec pixels = load(x + t->offset[k] + v * LANES);
                for (int i = 0; i < outputs; i++) sum[i][v] += all(w[i]) * pixels;
            }
    for (int i = 0; i < outputs; i++)
        for (int v = 0; v < vectors; v++) store(t->sums + i * t->length + v * LANES, sum[i][v]);
}

/* Sums that fit the registers beside a vector of pixels and a number of each output. */
#if defined(__AVX512F__) || defined(__aarch64__)
static const int64_t longest[FEW] = {8, 6, 6, 6};
#define SIZES(DO) DO(1, 1) DO(1, 2) DO(1, 3) DO(1, 4) DO(1, 5) DO(1, 6) DO(1, 7) DO(1, 8) \
    DO(2, 1) DO(2, 2) DO(2, 3) DO(2, 4) DO(2, 5) DO(2, 6) DO(3, 1) DO(3, 2) DO(3, 3) DO(3, 4) DO(3, 5) DO(3, 6) \
    DO(4, 1) DO(4, 2) DO(4, 3) DO(4, 4) DO(4, 5) DO(4, 6)
#else
static const int64_t longest[FEW] = {8, 5, 3, 2};
#define SIZES(DO) DO(1, 1) DO(1, 2) DO(1, 3) DO(1, 4) DO(1, 5) DO(1, 6) DO(1, 7) DO(1, 8) \
    DO(2, 1) DO(2, 2) DO(2, 3) DO(2, 4) DO(2, 5) DO(3, 1) DO(3, 2) DO(3, 3) DO(4, 1) DO(4, 2)
#endif
#define SIZE(outputs, vectors) case outputs * 16 + vectors: tile(outputs, vectors, &t); break;

/* The sums of a phase of a block of outputs. */
static void sums_of(const plan *q, const float *w, int64_t outputs, int64_t taps, int64_t length)
{
    int64_t vectors = ceiling(length, LANES), parts = ceiling(vectors, longest[outputs - 1]);
    task t = {.w = w, .offset = q->offset, .channels = q->inputs, .taps = taps, .plane = q->plane, .length = q->length};
    for (int64_t i = 0; i < parts; i++) {
        int64_t first = vectors * i / parts, end = vectors * (i + 1) / parts;
        t.x = q->frame + first * LANES, t.sums = q->sums + first * LANES;
        switch (outputs * 16 + end - first) { SIZES(SIZE) }
    }
}

/* … to the result, whose first pixel is the phase's. */
static void write(const plan *q, float *to, int64_t channel, int64_t outputs, int64_t down, int64_t across)
{
    const images *m = &q->to;
    int64_t apart = q->across.phases * m->pixel;
    for (int64_t i = 0; i < outputs; i++)
        for (int64_t o = 0; o < down; o++) {
            float *line = to + at(m->channel, channel + i) + o * q->down.phases * m->width * m->pixel;
            const float *sums = q->sums + i * q->length + o * q->wide;
            if (apart == 1)
                put(line, sums, across);
            else
                for (int64_t j = 0; j < across; j++) line[j * apart] = sums[j];
        }
}

static void group_of(const plan *q, float *image, int64_t group, const float *w)
{
    const images *m = &q->to;
    for (int64_t block = 0; block < q->blocks; block++)
        for (int64_t a = 0; a < q->down.phases; a++)
            for (int64_t b = 0; b < q->across.phases; b++) {
                int64_t down = ceiling(m->height - a, q->down.phases), across = ceiling(m->width - b, q->across.phases);
                int64_t outputs = some_of(q, block), channel = group * q->outputs + block * FEW;
                int64_t taps = phase_of(q, a, b);
                if (down > 0 && across > 0) {
                    sums_of(q, w, outputs, taps, (down - 1) * q->wide + across);
                    write(q, image + (a * m->width + b) * m->pixel, channel, outputs, down, across);
                }
                w += q->inputs * taps * outputs;
            }
}

/* ---- the gradient of the filters: the same pixels times those of the result's gradient, lane by lane ---- */

typedef struct {
    const float *x, *y;
    float *sums;
    int64_t offset[LONG], vectors, length, apart;
} filters_task;

INLINE void filters_tile(const int outputs, const int taps, const filters_task *t)
{
    vec sum[FEW][LONG];
    for (int i = 0; i < outputs; i++)
        for (int k = 0; k < taps; k++) sum[i][k] = load(t->sums + i * t->apart + k * LANES);
    for (int64_t v = 0; v < t->vectors; v++)
        for (int k = 0; k < taps; k++) {
            vec pixels = load(t->x + t->offset[k] + v * LANES);
            for (int i = 0; i < outputs; i++) sum[i][k] += load(t->y + i * t->length + v * LANES) * pixels;
        }
    for (int i = 0; i < outputs; i++)
        for (int k = 0; k < taps; k++) store(t->sums + i * t->apart + k * LANES, sum[i][k]);
}

#define FILTERS_SIZE(outputs, taps) case outputs * 16 + taps: filters_tile(outputs, taps, &t); break;

/* Add what an image gives: its pixels lie in the frame, those of a block of the result's gradient in the sums. */
static void add_image(const plan *q, int64_t block, int64_t taps)
{
    int64_t outputs = some_of(q, block), all_taps = q->inputs * taps, parts = ceiling(all_taps, longest[outputs - 1]);
    int64_t length = (q->to.height - 1) * q->wide + q->to.width;
    filters_task t = {.x = q->frame, .y = q->sums, .vectors = ceiling(length, LANES), .length = q->length};
    t.apart = all_taps * LANES;
    for (int64_t i = 0; i < parts; i++) {
        int64_t first = all_taps * i / parts, end = all_taps * (i + 1) / parts;
        for (int64_t k = first; k < end; k++) t.offset[k - first] = k / taps * q->plane + q->offset[k % taps];
        t.sums = q->packed + (block * FEW * all_taps + first) * LANES;
        switch (outputs * 16 + end - first) { SIZES(FILTERS_SIZE) }
    }
}

/* A block of an image of the result's gradient, between zeros at the ends of rows. */
static void between_zeros(const plan *q, const float *image, int64_t channel, int64_t outputs)
{
    const images *m = &q->to;
    for (int64_t i = 0; i < outputs; i++)
        for (int64_t o = 0; o < m->height; o++) {
            const float *line = image + at(m->channel, channel + i) + o * m->width * m->pixel;
            float *to = q->sums + i * q->length + o * q->wide;
            if (m->pixel == 1)
                put(to, line, m->width);
            else
                for (int64_t j = 0; j < m->width; j++) to[j] = line[j * m->pixel];
        }
}

static void filters_of(const plan *q, int64_t group)
{
    const problem *p = q->p;
    bank b = bank_of(p);
    int64_t taps = phase_of(q, 0, 0);
    memset(q->packed, 0, 4 * q->outputs * q->inputs * taps * LANES);
    for (int64_t n = 0; n < p->images; n++) {
        fill(q, p->x + n * q->from.image, group);
        for (int64_t block = 0; block < q->blocks; block++) {
            between_zeros(q, p->y + n * q->to.image, group * q->outputs + block * FEW, some_of(q, block));
            add_image(q, block, taps);
        }
    }
    const float *sums = q->packed;
    for (int64_t k = 0; k < q->outputs; k++)
        for (int64_t c = 0; c < q->inputs; c++)
            for (int64_t tap = 0; tap < taps; tap++, sums += LANES)
                p->w[at(b.filter, group * q->outputs + k) + at(b.channel, c) + tap * b.tap] = sum_of(load(sums));
}

void few_channels(const problem *p)
{
    int64_t size, filters;
    plan q = plan_of(p, &size);
    memset(q.frame, 0, 4 * (q.inputs * q.plane + LANES));
    if (p->direction == WGRAD) {
        memset(q.sums, 0, 4 * FEW * q.length);
        for (int64_t group = 0; group < p->groups; group++) filters_of(&q, group);
        return;
    }
    filters = q.outputs * q.inputs * p->rows * p->taps_across;
    for (int64_t group = 0; group < p->groups; group++) pack(&q, group, q.packed + group * filters);
    for (int64_t n = 0; n < p->images; n++)
        for (int64_t group = 0; group < p->groups; group++) {
            fill(&q, (p->direction == DGRAD ? p->y : p->x) + n * q.from.image, group);
            group_of(&q, (p->direction == DGRAD ? p->x : p->y) + n * q.to.image, group, q.packed + group * filters);
        }
}

/* Bytes. */
int64_t few_channels_workspace(const problem *p)
{
    int64_t size;
    plan_of(p, &size);
    return size;
}
