/* Winograd's F(M, 3) in both dimensions, stride 1: tiles of A × A numbers, A = M + 2, of which M × M outputs come by
 * one product for each of their A² places. Compiled for each M and set of points, with -DM and the matrices -DBT, -DG,
 * -DOUT (cook_toom.py).
 * Vectors hold LANES channels of one pixel. Rows of pixels are brought into that order first (`strip`), so that layouts
 * share the rest, no tile is cut and what is not image is zeros. V[A²][tiles][channels read], U[A²][channels read]
 * [channels written], their products M[A²][tiles][channels written]; of the filters' gradient U[A²][K][C]. Leading
 * dimensions are multiples of LANES, and what is beyond the channels no product reads. */
enum { TAPS = 3, A = M + TAPS - 1, ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112, BLOCK = 16 };

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 9")

typedef void (*sgemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                        float, float *, int);
typedef void (*sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t,
                        const float *, int64_t, float, float *, int64_t);

/* Images in memory: floats from one to the next, of `block` to the next BLOCK channels. */
typedef struct {
    int64_t channels, height, width, image, row, pixel, channel, block;
} images;

/* Filters likewise, as rows and columns of U: channels and filters, or filters and channels. */
typedef struct {
    int64_t rows, columns, row, row_block, column, column_block, tap;
} filters;

/* first: images that are transformed; second: filters, or for the filters' gradient that of the output. kept: the
 * launch and the address of the filters whose transform u holds. rows of tiles: of an image, and in a block. */
typedef struct {
    const float *first, *second;
    float *result;
    void *sgemm;
    float *v, *m, *u, *strip;
    int64_t *kept;
    images source, target;
    filters of;
    int64_t count, top, left, down, across, rows;
    int64_t ld_from, ld_to, ld_u, step_v, step_m, step_u, serial;
    int32_t wide, turned;
} winograd;

static const float in[A * A] = BT, taps[A * TAPS] = G, out[A * M] = OUT;

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* A sum of which nothing is there yet has no zero to add. */
typedef struct {
    vec sum;
    int any;
} partial;

INLINE void add(partial *p, float factor, vec x)
{
    if (factor == 0) return;
    p->sum = p->any ? p->sum + factor * x : factor * x;
    p->any = 1;
}

INLINE vec value(partial p) { return p.any ? p.sum : all(0); }

INLINE vec row_of(const float *row, int count, const vec *d, int step)
{
    partial whole = {0};
    UNROLLED for (int j = 0; j < count; j++) add(&whole, row[j], d[j * step]);
    return value(whole);
}

/* o = matrix · d, A × count, by pairs of rows that differ in some signs: what they share is computed once. */
INLINE void expand(const float *matrix, int count, const vec *d, int step, vec *o, int step_o)
{
    o[0] = row_of(matrix, count, d, step);
    UNROLLED for (int i = 1; i < A - 1; i += 2) {
        const float *row = matrix + i * count;
        partial same = {0}, other = {0};
        UNROLLED for (int j = 0; j < count; j++)
            add(row[j] == row[j + count] ? &same : &other, row[j], d[j * step]);
        o[i * step_o] = value(same) + value(other);
        o[(i + 1) * step_o] = value(same) - value(other);
    }
    o[(A - 1) * step_o] = row_of(matrix + (A - 1) * count, count, d, step);
}

/* o = matrixᵀ · d, the matrix A × count. */
INLINE void contract(const float *matrix, int count, const vec *d, int step, vec *o, int step_o)
{
    vec sum[A], difference[A];
    UNROLLED for (int i = 1; i < A - 1; i += 2) {
        sum[i] = d[i * step] + d[(i + 1) * step];
        difference[i] = d[i * step] - d[(i + 1) * step];
    }
    UNROLLED for (int j = 0; j < count; j++) {
        partial whole = {0};
        add(&whole, matrix[j], d[0]);
        UNROLLED for (int i = 1; i < A - 1; i += 2) {
            const float *row = matrix + i * count + j;
            add(&whole, *row, row[0] == row[count] ? sum[i] : difference[i]);
        }
        add(&whole, matrix[(A - 1) * count + j], d[(A - 1) * step]);
        o[j * step_o] = value(whole);
    }
}

/* Rows of LANES × LANES to columns, by exchanging halves, quarters … */
INLINE void transpose(vec *r)
{
    UNROLLED for (int d = LANES / 2; d; d /= 2) {
        ivec low, high;
        UNROLLED for (int l = 0; l < LANES; l++) {
            low[l] = l & d ? LANES + l - d : l;
            high[l] = l & d ? LANES + l : l + d;
        }
        _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) {
            if (i & d) continue;
            vec a = r[i], b = r[i + d];
            r[i] = __builtin_shuffle(a, b, low);
            r[i + d] = __builtin_shuffle(a, b, high);
        }
    }
}

INLINE int64_t offset(const images *g, int64_t channel)
{
    return channel / BLOCK * g->block + channel % BLOCK * g->channel;
}

/* A row of pixels first … last − 1 of some channels at p, into vectors. */
static void read_row(const images *g, const float *p, int64_t lanes, int64_t first, int64_t last, float *strip)
{
    if (g->channel == 1) {
        for (int64_t x = first; x < last; x++, strip += LANES)
            store(strip, lanes == LANES ? load(p + x * g->pixel) : load_some(p + x * g->pixel, lanes, 0));
        return;
    }
    for (int64_t x = first; x < last; x += LANES, strip += LANES * LANES) {
        vec r[LANES];
        int64_t some = last - x;
        for (int l = 0; l < LANES; l++) {
            const float *q = p + l * g->channel + x;
            r[l] = l >= lanes ? all(0) : some >= LANES ? load(q) : load_some(q, some, 0);
        }
        transpose(r);
        for (int l = 0; l < LANES; l++) store(strip + l * LANES, r[l]);
    }
}

/* The first `count` pixels of a row back. */
static void write_row(const images *g, float *p, int64_t lanes, int64_t count, const float *strip)
{
    if (g->channel == 1) {
        for (int64_t x = 0; x < count; x++, strip += LANES)
            if (lanes == LANES) store(p + x * g->pixel, load(strip));
            else store_some(p + x * g->pixel, load(strip), lanes);
        return;
    }
    for (int64_t x = 0; x < count; x += LANES, strip += LANES * LANES) {
        vec r[LANES];
        for (int l = 0; l < LANES; l++) r[l] = load(strip + l * LANES);
        transpose(r);
        for (int l = 0; l < lanes; l++)
            if (count - x >= LANES) store(p + l * g->channel + x, r[l]);
            else store_some(p + l * g->channel + x, r[l], count - x);
    }
}

/* Of tiles with a corner at every M-th pixel, `window` wide and high, the transforms: Bᵀ d B of an image, A dy Aᵀ of an
 * output's gradient. Those of one row of tiles that the next one shares are read once. */
INLINE void transform(const winograd *p, const images *g, const float *x, int window, const float *matrix, int64_t top,
                      int64_t left, int64_t block, float *o, int64_t ld, int64_t step)
{
    int64_t first = block * p->rows, last = least(first + p->rows, p->count * p->down);
    int64_t span = p->across * M + window - M, size = (span + LANES) * LANES;
    int64_t begin = left < 0 ? -left : 0, end = least(g->width, span - left);
    for (int64_t c = 0; c < g->channels; c += LANES) {
        float *row[A], *to = o + c;
        for (int i = 0; i < window; i++) row[i] = p->strip + i * size;
        memset(p->strip, 0, 4 * window * size);
        for (int64_t r = first; r < last; r++) {
            int64_t n = r / p->down, y = r % p->down * M - top;
            const float *plane = x + n * g->image + offset(g, c);
            int there = r == first || r % p->down == 0 ? 0 : window - M;
            for (int i = 0; i < there; i++) {
                float *other = row[i];
                row[i] = row[i + M], row[i + M] = other;
            }
            for (int i = there; i < window; i++)
                if (y + i >= 0 && y + i < g->height && begin < end)
                    read_row(g, plane + (y + i) * g->row, least(LANES, g->channels - c), begin, end,
                             row[i] + (begin + left) * LANES);
                else
                    memset(row[i], 0, 4 * span * LANES);
            for (int64_t t = 0; t < p->across; t++, to += ld) {
                vec d[A], between[A * A], whole[A];
                UNROLLED for (int j = 0; j < window; j++) {
                    UNROLLED for (int i = 0; i < window; i++) d[i] = load(row[i] + (t * M + j) * LANES);
                    expand(matrix, window, d, 1, between + j, window);
                }
                UNROLLED for (int i = 0; i < A; i++) {
                    expand(matrix, window, between + i * window, 1, whole, 1);
                    UNROLLED for (int j = 0; j < A; j++) store(to + (i * A + j) * step, whole[j]);
                }
            }
        }
    }
}

static void input(const winograd *p, int64_t block)
{
    transform(p, &p->source, p->first, A, in, p->top, p->left, block, p->v, p->ld_from, p->step_v);
}

static void gradient(const winograd *p, int64_t block)
{
    transform(p, &p->target, p->second, M, out, 0, 0, block, p->m, p->ld_to, p->step_m);
}

/* Pixels of a row of the result that read padding alone are nothing, and not the roundings of their tile's others. */
static void clear(const winograd *p, int64_t y, float *strip)
{
    int64_t width = p->target.width, first = p->left - TAPS + 1, last = p->left + p->source.width;
    if (y < p->top - TAPS + 1 || y >= p->top + p->source.height) last = first = 0;
    if (first > 0) memset(strip, 0, 4 * LANES * least(first, width));
    if (last < width) memset(strip + last * LANES, 0, 4 * LANES * (width - last));
}

/* Aᵀ M A to the pixels of the result. */
static void output(const winograd *p, int64_t block)
{
    const images *g = &p->target;
    int64_t first = block * p->rows, last = least(first + p->rows, p->count * p->down);
    int64_t size = (p->across * M + LANES) * LANES;
    for (int64_t c = 0; c < g->channels; c += LANES) {
        const float *from = p->m + c;
        for (int64_t r = first; r < last; r++) {
            int64_t n = r / p->down, y = r % p->down * M;
            for (int64_t t = 0; t < p->across; t++, from += p->ld_to) {
                vec d[A], between[M * A], whole[M];
                UNROLLED for (int j = 0; j < A; j++) {
                    UNROLLED for (int i = 0; i < A; i++) d[i] = load(from + (i * A + j) * p->step_m);
                    contract(out, M, d, 1, between + j, A);
                }
                UNROLLED for (int i = 0; i < M; i++) {
                    contract(out, M, between + i * A, 1, whole, 1);
                    UNROLLED for (int j = 0; j < M; j++) store(p->strip + i * size + (t * M + j) * LANES, whole[j]);
                }
            }
            float *plane = p->result + n * g->image + offset(g, c);
            for (int i = 0; i < M && y + i < g->height; i++) {
                clear(p, y + i, p->strip + i * size);
                write_row(g, plane + (y + i) * g->row, least(LANES, g->channels - c), g->width, p->strip + i * size);
            }
        }
    }
}

/* Taps of BLOCK rows from r on and LANES columns from c on: where the first is, and each one's place from there. */
INLINE int64_t block_of(const filters *f, int64_t r, int64_t c)
{
    return r / BLOCK * f->row_block + c / BLOCK * f->column_block + c % BLOCK * f->column;
}

/* Taps of a block of rows from r on to p->strip, with LANES columns side by side; of the gradient of the images turned
 * around. */
static void gather(const winograd *p, int64_t r, int64_t rows)
{
    const filters *f = &p->of;
    for (int64_t c = 0; c < f->columns; c++) {
        const float *w = p->second + block_of(f, r, c);
        float *to = p->strip + c / LANES * rows * TAPS * TAPS * LANES + c % LANES;
        for (int64_t k = 0; k < rows; k++)
            for (int i = 0; i < TAPS * TAPS; i++, to += LANES)
                *to = w[k * f->row + (p->turned ? TAPS * TAPS - 1 - i : i) * f->tap];
    }
}

/* G g Gᵀ. */
void winograd_filter(const winograd *p)
{
    const filters *f = &p->of;
    for (int64_t r = 0; r < f->rows; r += BLOCK) {
        int64_t rows = least(BLOCK, f->rows - r);
        gather(p, r, rows);
        for (int64_t k = 0; k < rows; k++)
            for (int64_t c = 0; c < f->columns; c += LANES) {
                vec d[TAPS * TAPS], between[A * TAPS], whole[A];
                const float *w = p->strip + (c * rows + k * LANES) * TAPS * TAPS;
                float *u = p->u + (r + k) * p->ld_u + c;
                UNROLLED for (int i = 0; i < TAPS * TAPS; i++) d[i] = load(w + i * LANES);
                UNROLLED for (int j = 0; j < TAPS; j++) expand(taps, TAPS, d + j, TAPS, between + j, TAPS);
                UNROLLED for (int i = 0; i < A; i++) {
                    expand(taps, TAPS, between + i * TAPS, 1, whole, 1);
                    UNROLLED for (int j = 0; j < A; j++) store(u + (i * A + j) * p->step_u, whole[j]);
                }
            }
    }
}

/* Gᵀ dU G. */
void winograd_filter_gradient(const winograd *p)
{
    const filters *f = &p->of;
    for (int64_t r = 0; r < f->rows; r++)
        for (int64_t c = 0; c < f->columns; c += LANES) {
            vec d[A], between[TAPS * A], whole[TAPS];
            const float *u = p->u + r * p->ld_u + c;
            float piece[TAPS * TAPS * LANES], *w = p->result + block_of(f, r, c) + r % BLOCK * f->row;
            UNROLLED for (int j = 0; j < A; j++) {
                UNROLLED for (int i = 0; i < A; i++) d[i] = load(u + (i * A + j) * p->step_u);
                contract(taps, TAPS, d, 1, between + j, A);
            }
            UNROLLED for (int i = 0; i < TAPS; i++) {
                contract(taps, TAPS, between + i * A, 1, whole, 1);
                UNROLLED for (int j = 0; j < TAPS; j++) store(piece + (i * TAPS + j) * LANES, whole[j]);
            }
            for (int64_t l = 0; l < least(LANES, f->columns - c); l++)
                for (int i = 0; i < TAPS * TAPS; i++) w[l * f->column + i * f->tap] = piece[i * LANES + l];
        }
}

static void multiply(const winograd *p, int ta, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    if (p->wide)
        ((sgemm64)p->sgemm)(ROW_MAJOR, ta, NO_TRANS, m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
    else
        ((sgemm32)p->sgemm)(ROW_MAJOR, ta, NO_TRANS, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

static int64_t blocks(const winograd *p) { return (p->count * p->down + p->rows - 1) / p->rows; }

static int64_t tiles(const winograd *p, int64_t block)
{
    return least(p->rows, p->count * p->down - block * p->rows) * p->across;
}

/* M = V·U. */
static void products(const winograd *p, int64_t block)
{
    for (int64_t i = 0; i < A * A; i++)
        multiply(p, NO_TRANS, tiles(p, block), p->target.channels, p->source.channels, p->v + i * p->step_v, p->ld_from,
                 p->u + i * p->step_u, p->ld_u, 0, p->m + i * p->step_m, p->ld_to);
}

/* dU += dMᵀ·V. */
static void sums(const winograd *p, int64_t block)
{
    for (int64_t i = 0; i < A * A; i++)
        multiply(p, TRANS, p->target.channels, p->source.channels, tiles(p, block), p->m + i * p->step_m, p->ld_to,
                 p->v + i * p->step_v, p->ld_from, block ? 1 : 0, p->u + i * p->step_u, p->ld_u);
}

/* All of it. */
static void transformed(const winograd *p)
{
    for (int64_t b = 0; b < blocks(p); b++) {
        input(p, b);
        products(p, b);
        output(p, b);
    }
}

void winograd_images(const winograd *p)
{
    winograd_filter(p);
    transformed(p);
}

/* The filters' transform is made where this launch at this address finds another one's. */
void winograd_kept(const winograd *p)
{
    int64_t now[2] = {p->serial, (int64_t)(intptr_t)p->second};
    if (memcmp(p->kept, now, sizeof now)) {
        winograd_filter(p);
        memcpy(p->kept, now, sizeof now);
    }
    transformed(p);
}

void winograd_filters(const winograd *p)
{
    for (int64_t b = 0; b < blocks(p); b++) {
        input(p, b);
        gradient(p, b);
        sums(p, b);
    }
    winograd_filter_gradient(p);
}
