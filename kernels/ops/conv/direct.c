/* Convolutions summed directly: a tile of the result, pixels × filters, stays in vector registers while all taps of some
 * channels are added to it (Georganas et al., SC 2018). Compiled behind kernels/maths.c.
 *
 * Lanes are channels of the result (of a filter's gradient: filters). The image is copied with zeros at the sides
 * only, columns that a stride parts lie apart, so that neighboring outputs read neighbors; rows outside are left
 * out. A gradient of an image with stride s is s·s such sums, each with the taps that meet its pixels. */

#define INLINE static inline __attribute__((always_inline))
#if defined(__AVX512F__) || defined(__aarch64__)
#define TILES(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14)
enum { TILE = 14 }; /* times two vectors of sums, two of filters, one of the image: 31 of 32 registers */
#else
#define TILES(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)
enum { TILE = 6 }; /* of 16 */
#endif
enum { WIDE = 2 * LANES, BLOCK = 16 };
enum { NCHW, NHWC, NCHW16C };
enum { FORWARD, DGRAD, WGRAD };
enum { FILTERS = 6144 };                 /* floats of packed filters at a time: they stay in the first cache */
enum { BAND = 1024, GRADIENT_BAND = 512 }; /* outputs at a time */

typedef struct {
    float *x, *w, *y, *scratch;
    int64_t images, channels, height, width, filters, rows, taps_across, stride, top, left, dilation, groups, down,
        across, layout, direction;
} problem;

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }
INLINE int64_t below(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/* Where an index of an axis lies that may be in blocks. */
typedef struct {
    int64_t block, outer, inner;
} axis;

INLINE int64_t at(axis a, int64_t i) { return i / a.block * a.outer + i % a.block * a.inner; }

/* Images in their layout: channels, pixels side by side, all of an image. */
typedef struct {
    axis channel;
    int64_t pixel, height, width, image;
} images;

static images images_of(const problem *p, int64_t channels, int64_t height, int64_t width)
{
    images m = {.height = height, .width = width, .image = channels * height * width};
    m.pixel = p->layout == NCHW ? 1 : p->layout == NHWC ? channels : BLOCK;
    m.channel = p->layout == NCHW16C ? (axis){BLOCK, BLOCK * height * width, 1}
                                     : (axis){1, p->layout == NHWC ? 1 : height * width, 0};
    return m;
}

typedef struct {
    axis filter, channel;
    int64_t tap;
} bank;

static bank bank_of(const problem *p)
{
    int64_t taps = p->rows * p->taps_across, channels = p->channels / p->groups;
    if (p->layout == NCHW) return (bank){{1, channels * taps, 0}, {1, taps, 0}, 1};
    if (p->layout == NHWC) return (bank){{1, channels * taps, 0}, {1, 1, 0}, channels};
    int64_t square = BLOCK * BLOCK;
    return (bank){{BLOCK, channels / BLOCK * taps * square, 1}, {BLOCK, taps * square, BLOCK}, square};
}

/* ---- lanes: channels of images side by side, a pixel a row ---- */

/* LANES × LANES floats transposed: each round puts the first half's rows between the second half's. */
INLINE void transposed(vec *a)
{
    ivec low, high;
    for (int i = 0; i < LANES; i++) {
        low[i] = i / 2 + i % 2 * LANES;
        high[i] = low[i] + LANES / 2;
    }
    for (int round = 1; round < LANES; round *= 2) {
        vec b[LANES];
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = __builtin_shuffle(a[i], a[i + LANES / 2], low);
            b[2 * i + 1] = __builtin_shuffle(a[i], a[i + LANES / 2], high);
        }
        for (int i = 0; i < LANES; i++) a[i] = b[i];
    }
}

/* `count` rows of `length`, `step` from one to the next, to columns: row i to lane i, of a pixel every `pitch`. */
static void to_lanes(const float *rows, int64_t step, int64_t count, int64_t length, float *lanes, int64_t pitch)
{
    for (int64_t first = 0; first < length; first += LANES) {
        int64_t some = least(LANES, length - first);
        vec a[LANES];
        if (some == LANES && count == LANES)
            for (int64_t i = 0; i < LANES; i++) a[i] = load(rows + i * step + first);
        else
            for (int64_t i = 0; i < LANES; i++) a[i] = i < count ? load_some(rows + i * step + first, some, 0) : all(0);
        transposed(a);
        for (int64_t i = 0; i < some; i++) store(lanes + (first + i) * pitch, a[i]);
    }
}

static void from_lanes(const float *lanes, int64_t pitch, float *rows, int64_t step, int64_t count, int64_t length)
{
    for (int64_t first = 0; first < length; first += LANES) {
        int64_t some = least(LANES, length - first);
        vec a[LANES];
        for (int64_t i = 0; i < LANES; i++) a[i] = i < some ? load(lanes + (first + i) * pitch) : all(0);
        transposed(a);
        if (some == LANES)
            for (int64_t i = 0; i < count; i++) store(rows + i * step + first, a[i]);
        else
            for (int64_t i = 0; i < count; i++) store_some(rows + i * step + first, a[i], some);
    }
}

INLINE void put(float *to, const float *from, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) store(to + i, load(from + i));
    if (i < count) store_some(to + i, load_some(from + i, count - i, 0), count - i);
}

/* ---- what of the source an output meets ---- */

/* Of one axis: output o of a phase reads, for a tap, the place `step` * o + shift of the source, `low` or more; a phase
 * is every `phases`th place of the result. */
typedef struct {
    int64_t phases, step, taps, stride, before, dilation, low, span;
    int gradient;
} reach;

static reach reach_of(const problem *p, int64_t taps, int64_t before, int64_t outputs, int64_t size)
{
    int64_t s = p->stride, last = (taps - 1) * p->dilation;
    if (p->direction != DGRAD)
        return (reach){1, s, taps, s, before, p->dilation, -before, (outputs - 1) * s + last + 1, 0};
    int64_t low = below(before - last, s);
    return (reach){s, 1, taps, s, before, p->dilation, low, below(size - 1 + before, s) - low + 1, 1};
}

/* The taps that a phase has, and their shifts. */
static int64_t taps_of(const reach *r, int64_t phase, int64_t *tap, int64_t *shift)
{
    int64_t count = 0;
    for (int64_t t = 0; t < r->taps; t++) {
        int64_t place = t * r->dilation - r->before;
        if (r->gradient) {
            if ((phase - place) % r->stride) continue;
            place = (phase - place) / r->stride;
        }
        tap[count] = t, shift[count++] = place;
    }
    return count;
}

/* ---- y, or the gradient of x ---- */

typedef struct {
    const problem *p;
    images from, to;
    reach down, across;
    int64_t inputs, outputs, blocks; /* of a group; of WIDE outputs */
    int64_t part, pitch, line;       /* of the frame: from columns a stride parts, channels, rows to the next */
    float *frame, *packed, *sums;
    int64_t *row, *row_shift, *column, *column_shift, *offset;
} plan;

static int64_t rounded(int64_t floats) { return ceiling(floats, 16) * 16; }

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
INLINE int64_t wide_of(int64_t lanes) { return lanes > LANES ? WIDE : LANES; }

/* Filters of a block of outputs, by phase, input and tap, the outputs in lanes. */
static void pack(const plan *q, int64_t group, int64_t block, float *to)
{
    const problem *p = q->p;
    bank b = bank_of(p);
    int64_t lanes = lanes_of(q, block), wide = wide_of(lanes), taps = p->rows * p->taps_across;
    int forward = p->direction == FORWARD;
    const float *source[WIDE], *w = p->w;
    for (int64_t i = 0; i < lanes; i++)
        source[i] = w + (forward ? at(b.filter, group * q->outputs + block * WIDE + i) : at(b.channel, block * WIDE + i));
    if (forward && p->layout == NCHW) {
        for (int64_t i = 0; i < lanes; i += LANES)
            to_lanes(source[i], q->inputs * taps, least(LANES, lanes - i), q->inputs * taps, to + i, wide);
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
                int64_t first = most(0, -below(low + i, step)), end = least(q->part, below(m->width - 1 - low - i, step) + 1);
                float *to = q->frame + c * q->pitch + y * q->line + i * q->part;
                const float *from = source + (low + i) * m->pixel;
                if (end <= first) continue;
                if (beside > 1)
                    from_lanes(from + first * apart, apart, to + first, q->pitch, LANES, end - first);
                else if (apart == 1)
                    put(to + first, from + first, end - first);
                else
                    for (int64_t v = first; v < end; v++) to[v] = from[v * apart];
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
            while (begin < last && (y + q->row_shift[begin] < 0 || y + q->row_shift[begin] >= q->from.height)) begin++;
            while (last > begin && (y + q->row_shift[last - 1] < 0 || y + q->row_shift[last - 1] >= q->from.height)) last--;
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
    int64_t lanes = lanes_of(q, block), wide = wide_of(lanes);
    const images *m = &q->to;
    for (int64_t a = 0; a < q->down.phases; a++) {
        int64_t rows = taps_of(&q->down, a, q->row, q->row_shift), outputs_down = ceiling(m->height - a, q->down.phases);
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
                write(q, image + (a * m->width + b) * m->pixel, group * q->outputs + block * WIDE, lanes, o, end, outputs);
            }
            w += rows * columns * q->inputs * wide;
        }
    }
}

static void sums_of_images(const problem *p)
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

/* ---- the gradient of the filters ---- */

typedef struct {
    const problem *p;
    images x, y;
    int64_t channels, filters, blocks, planes; /* of a group; of WIDE filters; channels × taps across */
    int64_t high, lines, plane;                /* rows of outputs at a time, of the image for them; floats of a plane's row */
    float *frame, *gradient, *lanes;
} gradients;

static gradients gradients_of(const problem *p, int64_t *size)
{
    gradients q = {.p = p};
    q.x = images_of(p, p->channels, p->height, p->width), q.y = images_of(p, p->filters, p->down, p->across);
    q.channels = p->channels / p->groups, q.filters = p->filters / p->groups;
    q.blocks = ceiling(q.filters, WIDE), q.planes = q.channels * p->taps_across;
    q.high = least(p->down, most(1, GRADIENT_BAND / p->across));
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
                if (beside > 1)
                    from_lanes(from + begin * apart, apart, to + begin, taps * q->plane, LANES, last - begin);
                else if (apart == 1)
                    put(to + begin, from + begin, last - begin);
                else
                    for (int64_t j = begin; j < last; j++) to[j] = from[j * apart];
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
} filters_task;

INLINE void filters_tile(const int count, const int vectors, const filters_task *t)
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

#define ONE_OF_FILTERS(n) case n: filters_tile(n, 1, t); break;
#define TWO_OF_FILTERS(n) case n: filters_tile(n, 2, t); break;

static void filters_tile_of(int64_t count, int64_t wide, const filters_task *t)
{
    if (wide == LANES) switch (count) { TILES(ONE_OF_FILTERS) }
    else switch (count) { TILES(TWO_OF_FILTERS) }
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
            filters_task t = {.plane = q->plane, .rows = last - begin, .outputs = p->across};
            t.line = p->stride * q->planes * q->plane;
            t.x = q->frame + left * q->plane + (begin * p->stride + shift - top) * q->planes * q->plane;
            t.y = q->lanes + (begin - first) * p->across * wide;
            t.sums = q->gradient + block * q->planes * p->rows * WIDE;
            for (int64_t k = left; k < right; k++)
                t.place[k - left] = ((k / across * p->rows + r) * across + k % across) * WIDE;
            filters_tile_of(right - left, wide, &t);
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

static void sums_of_filters(const problem *p)
{
    int64_t size;
    gradients q = gradients_of(p, &size);
    for (int64_t group = 0; group < p->groups; group++) {
        memset(q.gradient, 0, 4 * q.blocks * q.planes * p->rows * WIDE);
        for (int64_t n = 0; n < p->images; n++)
            for (int64_t o = 0; o < p->down; o += q.high) {
                int64_t end = least(p->down, o + q.high), reach = (p->rows - 1) * p->dilation - p->top;
                int64_t first = most(0, o * p->stride - p->top), last = least(p->height, (end - 1) * p->stride + reach + 1);
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

void direct(const problem *p)
{
    if (p->direction == WGRAD) sums_of_filters(p);
    else sums_of_images(p);
}

/* Bytes. */
int64_t direct_workspace(const problem *p)
{
    int64_t size;
    if (p->direction == WGRAD) gradients_of(p, &size);
    else plan_of(p, &size);
    return size;
}
