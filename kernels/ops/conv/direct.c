/* y, or the gradient of x, summed directly: a tile of the result, pixels × channels, stays in vector registers while
 * all taps of some channels are added to it (Georganas et al., SC 2018). Compiled behind layout.c.
 *
 * Lanes are channels of the result. The source is copied with zeros at the sides only, columns that a stride parts
 * lie apart, so that neighboring outputs read neighbors; rows outside are left out. A gradient of an image with
 * stride s is s·s such sums, each with the taps that meet its pixels. */

enum { FILTERS = 6144 }; /* floats of packed filters at a time: they stay in the first cache */
enum { BAND = 1024 };    /* outputs at a time */

typedef struct {
    const problem *p;
    images from, to;
    reach down, across;
    int64_t inputs, outputs, blocks; /* of a group; of WIDE outputs */
    int64_t part, pitch, line;       /* of the frame: from columns a stride parts, channels, rows to the next */
    float *frame, *packed, *sums;
    int64_t *row, *row_shift, *column, *column_shift, *offset;
} plan;

static plan plan_of(const problem *p, int64_t *size)
{
    plan q = {.p = p};
    images x = images_of(p, p->channels, p->height, p->width), y = images_of(p, p->filters, p->down, p->across);
    int forward = p->direction == FORWARD;
    q.from = forward ? x : y, q.to = forward ? y : x;
    q.inputs = (forward ? p->channels : p->filters) / p->groups;
    q.outputs = (forward ? p->filters : p->channels) / p->groups;
    q.blocks = ceiling(q.outputs, WIDE);
    q.down = reach_of(p, p->rows, p->top, p->down, p->height);
    q.across = reach_of(p, p->taps_across, p->left, p->across, p->width);
    q.part = ceiling(q.across.span, q.across.step);
    q.pitch = q.part * q.across.step;
    if (q.pitch % 32 == 0) q.pitch += 16; /* channels a power of two apart would share few lines of a cache */
    q.line = q.inputs * q.pitch;
    int64_t taps = p->rows * p->taps_across, columns = ceiling(q.to.width, q.across.phases);
    float *place = p->scratch;
    q.frame = place, place += rounded(q.from.height * q.line);
    q.packed = place, place += p->groups * q.blocks * q.inputs * taps * WIDE;
    q.sums = place, place += rounded(most(BAND, columns)) * WIDE;
    q.row = (int64_t *)place;
    q.row_shift = q.row + p->rows, q.column = q.row_shift + p->rows;
    q.column_shift = q.column + p->taps_across, q.offset = q.column_shift + p->taps_across;
    *size = 4 * (place - p->scratch) + 8 * (2 * (p->rows + p->taps_across) + taps);
    return q;
}

INLINE int64_t lanes_of(const plan *q, int64_t block) { return least(WIDE, q->outputs - block * WIDE); }

/* Filters of a block of outputs, by phase, input and tap, the outputs in lanes. */
static void pack(const plan *q, int64_t group, int64_t block, float *to)
{
    const problem *p = q->p;
    bank b = bank_of(p);
    int64_t lanes = lanes_of(q, block), wide = wide_of(lanes), taps = p->rows * p->taps_across;
    int forward = p->direction == FORWARD;
    const float *source[WIDE], *w = p->w;
    for (int64_t i = 0; i < lanes; i++) {
        int64_t output = block * WIDE + i;
        source[i] = w + (forward ? at(b.filter, group * q->outputs + output) : at(b.channel, output));
    }
    if (forward && p->layout == NCHW) {
        for (int64_t i = 0; i < lanes; i += LANES)
            to_lanes(source[i], q->inputs * taps, least(LANES, lanes - i), q->inputs * taps, to + i, wide);
        return;
    }
    if (p->layout == NCHW && p->stride == 1) {
        for (int64_t c = 0; c < q->inputs; c++, to += taps * wide)
            for (int64_t i = 0; i < lanes; i += LANES) {
                const float *rows = source[i] + at(b.filter, group * q->inputs + c);
                to_lanes(rows, taps, least(LANES, lanes - i), taps, to + i, wide);
            }
        return;
    }
    for (int64_t phase = 0; phase < q->down.phases * q->across.phases; phase++) {
        int64_t rows = taps_of(&q->down, phase / q->across.phases, q->row, q->row_shift);
        int64_t columns = taps_of(&q->across, phase % q->across.phases, q->column, q->column_shift);
        for (int64_t c = 0; c < q->inputs; c++) {
            int64_t first = forward ? at(b.channel, c) : at(b.filter, group * q->inputs + c);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t s = 0; s < columns; s++, to += wide) {
                    int64_t tap = first + (q->row[r] * p->taps_across + q->column[s]) * b.tap;
                    for (int64_t i = 0; i < lanes; i++) to[i] = source[i][tap];
                    for (int64_t i = lanes; i < wide; i++) to[i] = 0;
                }
        }
    }
}

/* A group of an image between the zeros that stand in the frame. */
static void fill(const plan *q, const float *image, int64_t group)
{
    const images *m = &q->from;
    int64_t step = q->across.step, low = q->across.low, beside = m->pixel > 1 ? LANES : 1, apart = step * m->pixel;
    for (int64_t c = 0; c < q->inputs; c += beside) {
        if (c + beside > q->inputs) beside = 1;
        const float *source = image + at(m->channel, group * q->inputs + c);
        for (int64_t y = 0; y < m->height; y++, source += m->width * m->pixel)
            for (int64_t i = 0; i < step; i++) {
                int64_t first = most(0, -below(low + i, step));
                int64_t end = least(q->part, below(m->width - 1 - low - i, step) + 1);
                float *to = q->frame + c * q->pitch + y * q->line + i * q->part;
                const float *from = source + (low + i) * m->pixel;
                if (end <= first) continue;
                put_apart(to + first, from + first * apart, apart, beside > 1, q->pitch, end - first);
            }
    }
}

/* A tile's sums, and what is added to them: `channels` times `taps`. */
typedef struct {
    const float *x, *w;
    float *sums;
    const int64_t *offset;
    int64_t channels, taps, pitch, filter;
    int first;
} task;

INLINE void tile(const int count, const int vectors, const task *t)
{
    vec sum[TILE][2];
    for (int i = 0; i < count; i++)
        for (int v = 0; v < vectors; v++) sum[i][v] = t->first ? all(0) : load(t->sums + (i * vectors + v) * LANES);
    const float *x = t->x, *w = t->w;
    for (int64_t c = 0; c < t->channels; c++, x += t->pitch, w += t->filter)
        for (int64_t k = 0; k < t->taps; k++) {
            const float *pixel = x + t->offset[k];
            vec filter[2];
            for (int v = 0; v < vectors; v++) filter[v] = load(w + (k * vectors + v) * LANES);
#pragma GCC unroll 14
            for (int i = 0; i < count; i++)
                for (int v = 0; v < vectors; v++) sum[i][v] += all(pixel[i]) * filter[v];
        }
    for (int i = 0; i < count; i++)
        for (int v = 0; v < vectors; v++) store(t->sums + (i * vectors + v) * LANES, sum[i][v]);
}

#define ONE(n) case n: tile(n, 1, t); break;
#define TWO(n) case n: tile(n, 2, t); break;

static void tile_of(int64_t count, int64_t wide, const task *t)
{
    if (wide == LANES) switch (count) { TILES(ONE) }
    else switch (count) { TILES(TWO) }
}

INLINE int outside(const plan *q, int64_t row) { return row < 0 || row >= q->from.height; }

/* Rows first … end − 1 of a phase, of a block of outputs. */
static void band(const plan *q, int64_t rows, int64_t columns, const float *w, int64_t wide, int64_t first, int64_t end,
                 int64_t outputs)
{
    int64_t taps = rows * columns, some = taps ? most(1, FILTERS / (taps * wide)) : q->inputs;
    some = ceiling(q->inputs, ceiling(q->inputs, some));
    int64_t parts = ceiling(outputs, TILE);
    for (int64_t c = 0; c < q->inputs; c += some)
        for (int64_t o = first; o < end; o++) {
            int64_t y = o * q->down.step, begin = 0, last = rows;
            while (begin < last && outside(q, y + q->row_shift[begin])) begin++;
            while (last > begin && outside(q, y + q->row_shift[last - 1])) last--;
            task t = {.offset = q->offset + begin * columns, .taps = (last - begin) * columns, .pitch = q->pitch};
            t.channels = least(some, q->inputs - c), t.filter = taps * wide, t.first = c == 0;
            t.w = w + (c * taps + begin * columns) * wide;
            for (int64_t i = 0; i < parts; i++) {
                int64_t left = outputs * i / parts, right = outputs * (i + 1) / parts;
                t.x = q->frame + c * q->pitch + y * q->line + left;
                t.sums = q->sums + ((o - first) * outputs + left) * wide;
                tile_of(right - left, wide, &t);
            }
        }
}

/* The sums of a band to the result, which begins with its first channel and the phase's first pixel. */
static void write(const plan *q, float *to, int64_t channel, int64_t lanes, int64_t first, int64_t end, int64_t outputs)
{
    const images *m = &q->to;
    int64_t wide = wide_of(lanes), across = q->across.phases * m->pixel, down = q->down.phases * m->width * m->pixel;
    to += first * down;
    for (int64_t i = 0; i < lanes; i += LANES) {
        int64_t some = least(LANES, lanes - i);
        float *base = to + at(m->channel, channel + i);
        const float *sums = q->sums + i;
        if (m->pixel == 1 && across == 1) {
            from_lanes(sums, wide, base, m->channel.outer, some, (end - first) * outputs);
            continue;
        }
        for (int64_t o = first; o < end; o++, base += down)
            for (int64_t j = 0; j < outputs; j++, sums += wide)
                if (m->pixel > 1)
                    put(base + j * across, sums, some);
                else
                    for (int64_t c = 0; c < some; c++) base[c * m->channel.outer + j * across] = sums[c];
    }
}

/* A group of an image. */
static void each_phase(const plan *q, float *image, int64_t group, int64_t block, const float *w)
{
    int64_t lanes = lanes_of(q, block), wide = wide_of(lanes), channel = group * q->outputs + block * WIDE;
    const images *m = &q->to;
    for (int64_t a = 0; a < q->down.phases; a++) {
        int64_t rows = taps_of(&q->down, a, q->row, q->row_shift);
        int64_t outputs_down = ceiling(m->height - a, q->down.phases);
        for (int64_t b = 0; b < q->across.phases; b++) {
            int64_t columns = taps_of(&q->across, b, q->column, q->column_shift);
            int64_t outputs = ceiling(m->width - b, q->across.phases);
            for (int64_t k = 0; k < rows * columns; k++) {
                int64_t place = q->column_shift[k % columns] - q->across.low, step = q->across.step;
                q->offset[k] = q->row_shift[k / columns] * q->line + place % step * q->part + place / step;
            }
            int64_t high = outputs > 0 ? most(1, BAND / outputs) : 1;
            for (int64_t o = 0; outputs > 0 && o < outputs_down; o += high) {
                int64_t end = least(outputs_down, o + high);
                band(q, rows, columns, w, wide, o, end, outputs);
                write(q, image + (a * m->width + b) * m->pixel, channel, lanes, o, end, outputs);
            }
            w += rows * columns * q->inputs * wide;
        }
    }
}

void direct(const problem *p)
{
    int64_t size, filters;
    plan q = plan_of(p, &size);
    const float *from = p->direction == FORWARD ? p->x : p->y;
    float *to = p->direction == FORWARD ? p->y : p->x;
    filters = q.inputs * p->rows * p->taps_across * WIDE;
    for (int64_t i = 0; i < p->groups * q.blocks; i++) pack(&q, i / q.blocks, i % q.blocks, q.packed + i * filters);
    memset(q.frame, 0, 4 * q.from.height * q.line);
    for (int64_t n = 0; n < p->images; n++)
        for (int64_t group = 0; group < p->groups; group++) {
            fill(&q, from + n * q.from.image, group);
            for (int64_t i = 0; i < q.blocks; i++)
                each_phase(&q, to + n * q.to.image, group, i, q.packed + (group * q.blocks + i) * filters);
        }
}

/* Bytes. */
int64_t direct_workspace(const problem *p)
{
    int64_t size;
    plan_of(p, &size);
    return size;
}
