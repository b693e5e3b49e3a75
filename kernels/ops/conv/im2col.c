/* Convolutions as matrix products of a library: the taps of every output copied side by side (im2col), a whole image
 * or a block of outputs at a time, or an image as it lies where each output reads one pixel. Compiled behind
 * kernels/maths.c. Layout nchw: columns are taps × outputs; nhwc: outputs × taps, the channels of a tap together. */

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef void (*sgemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                        int);
typedef void (*sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                        int64_t, float, float *, int64_t);

/* x, w, y: the operands or their gradients. columns: NULL where an image itself is the columns. block: how many
 * outputs at a time. wide: the library's integers have 64 bits. */
typedef struct {
    float *x, *w, *y, *columns;
    void *sgemm;
    int64_t images, channels, height, width, filters, rows, taps_across, stride, top, left, dilation, groups, down,
        across, block;
    int32_t wide, last; /* last: the channels are */
} problem;

/* Of one group, with one block of the outputs of one image. */
typedef struct {
    float *x, *w, *y, *columns;
    int64_t channels, filters, taps, first, count, ldcol, ldy;
    float beta; /* of a filter's gradient: 0 of the first part */
} part;

static void product(const problem *p, int ta, int tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                    const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    if (p->wide)
        ((sgemm64)p->sgemm)(ROW_MAJOR, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
    else
        ((sgemm32)p->sgemm)(ROW_MAJOR, ta, tb, (int)m, (int)n, (int)k, 1.0f, a, (int)lda, b, (int)ldb, beta, c,
                            (int)ldc);
}

static inline void copy(float *to, const float *from, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) store(to + i, load(from + i));
    if (i < count) store_some(to + i, load_some(from + i, count - i, 0), count - i);
}

static inline void add(float *to, const float *from, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) store(to + i, load(to + i) + load(from + i));
    if (i < count) {
        vec sum = load_some(to + i, count - i, 0) + load_some(from + i, count - i, 0);
        store_some(to + i, sum, count - i);
    }
}

static inline void clear(float *to, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) store(to + i, all(0));
    if (i < count) store_some(to + i, all(0), count - i);
}

/* Which of the places first … end − 1 lie inside a line of `size`: the first at `at`, one `step` from the next. */
static inline void inside(int64_t at, int64_t step, int64_t size, int64_t *first, int64_t *end)
{
    int64_t low = at < 0 ? (step - 1 - at) / step : 0, high = at < size ? (size - 1 - at) / step + 1 : 0;
    if (*first < low) *first = low;
    if (*end > high) *end = high;
    if (*end < *first) *end = *first;
}

static inline void gather_row(float *to, const float *from, int64_t stride, int64_t count)
{
    if (stride == 1)
        copy(to, from, count);
    else if (stride == 2)
        for (int64_t i = 0; i < count; i++) to[i] = from[2 * i];
    else
        for (int64_t i = 0; i < count; i++) to[i] = from[i * stride];
}

static inline void scatter_row(float *to, const float *from, int64_t stride, int64_t count)
{
    if (stride == 1)
        add(to, from, count);
    else if (stride == 2)
        for (int64_t i = 0; i < count; i++) to[2 * i] += from[i];
    else
        for (int64_t i = 0; i < count; i++) to[i * stride] += from[i];
}

/* One tap of one channel, of all outputs of the block, to a row of the columns or from there added to the image. */
static void tap(const problem *p, const part *q, float *plane, int64_t r, int64_t s, float *row, int back)
{
    for (int64_t output = q->first, end = q->first + q->count; output < end;) {
        int64_t o = output / p->across, begin = output % p->across, y = o * p->stride + r * p->dilation - p->top;
        int64_t length = p->across - begin < end - output ? p->across - begin : end - output;
        int64_t at = begin * p->stride + s * p->dilation - p->left, low = 0;
        int64_t high = y < 0 || y >= p->height ? 0 : length;
        inside(at, p->stride, p->width, &low, &high);
        if (high == low) low = high = 0;
        float *line = plane + y * p->width + at + low * p->stride;
        if (back) {
            if (high > low) scatter_row(line, row + low, p->stride, high - low);
        } else {
            clear(row, low);
            if (high > low) gather_row(row + low, line, p->stride, high - low);
            clear(row + high, length - high);
        }
        row += length, output += length;
    }
}

/* All taps of one output, the channels last: a tap row at once where it lies together. */
static void output_row(const problem *p, const part *q, int64_t output, float *row, int back)
{
    int64_t y = output / p->across * p->stride - p->top, x = output % p->across * p->stride - p->left;
    int64_t together = p->dilation == 1 && p->groups == 1, run = q->channels * (together ? p->taps_across : 1);
    for (int64_t r = 0; r < p->rows; r++, y += p->dilation) {
        for (int64_t s = 0; s < p->taps_across; s += together ? p->taps_across : 1, row += run) {
            int64_t at = x + s * p->dilation, low = 0, high = together ? p->taps_across : 1;
            if (y < 0 || y >= p->height) high = 0;
            inside(at, 1, p->width, &low, &high);
            if (high == low) low = high = 0;
            float *pixels = q->x + (y * p->width + at + low) * p->channels;
            int64_t before = low * q->channels, count = (high - low) * q->channels;
            if (back) {
                if (count) add(pixels, row + before, count);
            } else {
                clear(row, before);
                if (count) copy(row + before, pixels, count);
                clear(row + before + count, run - before - count);
            }
        }
    }
}

/* Fill the columns of a part, or add them to its image. */
static void columns(const problem *p, const part *q, int back)
{
    if (!p->columns) return;
    if (p->last) {
        for (int64_t i = 0; i < q->count; i++) output_row(p, q, q->first + i, q->columns + i * q->taps, back);
        return;
    }
    float *row = q->columns;
    for (int64_t c = 0; c < q->channels; c++)
        for (int64_t r = 0; r < p->rows; r++)
            for (int64_t s = 0; s < p->taps_across; s++, row += q->count)
                tap(p, q, q->x + c * p->height * p->width, r, s, row, back);
}

static part part_of(const problem *p, int64_t image, int64_t group, int64_t first)
{
    int64_t outputs = p->down * p->across, c = p->channels / p->groups, k = p->filters / p->groups;
    part q = {.channels = c, .filters = k, .taps = c * p->rows * p->taps_across, .first = first};
    q.beta = image || first;
    q.count = outputs - first < p->block ? outputs - first : p->block;
    q.w = p->w + group * k * q.taps;
    q.x = p->x + image * p->channels * p->height * p->width + group * c * (p->last ? 1 : p->height * p->width);
    q.y = p->y + image * p->filters * outputs;
    q.y += p->last ? first * p->filters + group * k : group * k * outputs + first;
    q.ldy = p->last ? p->filters : outputs;
    q.columns = p->columns ? p->columns : q.x + first * (p->last ? p->channels : 1);
    q.ldcol = !p->last ? (p->columns ? q.count : outputs) : p->columns ? q.taps : p->channels;
    return q;
}

static void each(const problem *p, void (*pass)(const problem *, const part *))
{
    for (int64_t image = 0; image < p->images; image++)
        for (int64_t group = 0; group < p->groups; group++)
            for (int64_t first = 0; first < p->down * p->across; first += p->block) {
                part q = part_of(p, image, group, first);
                pass(p, &q);
            }
}

static void forward(const problem *p, const part *q)
{
    columns(p, q, 0);
    if (p->last)
        product(p, NO_TRANS, TRANS, q->count, q->filters, q->taps, q->columns, q->ldcol, q->w, q->taps, 0, q->y,
                q->ldy);
    else
        product(p, NO_TRANS, NO_TRANS, q->filters, q->count, q->taps, q->w, q->taps, q->columns, q->ldcol, 0, q->y,
                q->ldy);
}

static void dgrad(const problem *p, const part *q)
{
    if (p->last)
        product(p, NO_TRANS, NO_TRANS, q->count, q->taps, q->filters, q->y, q->ldy, q->w, q->taps, 0, q->columns,
                q->ldcol);
    else
        product(p, TRANS, NO_TRANS, q->taps, q->count, q->filters, q->w, q->taps, q->y, q->ldy, 0, q->columns,
                q->ldcol);
    columns(p, q, 1);
}

static void wgrad(const problem *p, const part *q)
{
    columns(p, q, 0);
    if (p->last)
        product(p, TRANS, NO_TRANS, q->filters, q->taps, q->count, q->y, q->ldy, q->columns, q->ldcol, q->beta, q->w,
                q->taps);
    else
        product(p, NO_TRANS, TRANS, q->filters, q->taps, q->count, q->y, q->ldy, q->columns, q->ldcol, q->beta, q->w,
                q->taps);
}

void im2col_forward(const problem *p) { each(p, forward); }

void im2col_dgrad(const problem *p)
{
    if (p->columns) clear(p->x, p->images * p->channels * p->height * p->width);
    each(p, dgrad);
}

void im2col_wgrad(const problem *p) { each(p, wgrad); }
