/* Bias and ReLU in one pass over the matrix or in one each, and the same of their gradients. Where x is no
 * address, y is read and written in place: it holds a product. */

typedef struct {
    const float *x, *dy, *b;
    float *y, *dx, *db;
    int64_t rows, cols;
} argument;

/* y = F(x, b) of every row */
#define ROWS(name, F)                                                                           \
    void name(const argument *p)                                                                \
    {                                                                                           \
        int64_t n = p->cols;                                                                    \
        const float *from = p->x ? p->x : p->y;                                                 \
        for (int64_t i = 0; i < p->rows; i++) {                                                 \
            const float *x = from + i * n;                                                      \
            float *y = p->y + i * n;                                                            \
            int64_t j = 0;                                                                      \
            for (; j + LANES <= n; j += LANES) {                                                \
                vec a = load(x + j), b = load(p->b + j);                                        \
                store(y + j, F(a, b));                                                          \
            }                                                                                   \
            if (j < n) {                                                                        \
                vec a = load_some(x + j, n - j, 0), b = load_some(p->b + j, n - j, 0);          \
                store_some(y + j, F(a, b), n - j);                                              \
            }                                                                                   \
        }                                                                                       \
    }

static inline vec both(vec a, vec b) { return larger(a + b, all(0)); }
static inline vec bias(vec a, vec b) { return a + b; }

ROWS(biasact_forward, both)
ROWS(add_bias, bias)

static void rectify(float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = y[i] > 0 ? y[i] : 0;
}

void biasact_forward_passes(const argument *p)
{
    add_bias(p);
    rectify(p->y, p->rows * p->cols);
}

/* The bias's gradient gathers in db, which stays in cache. */
void biasact_dgrad(const argument *p)
{
    int64_t n = p->cols;
    float *sums = p->db;
    memset(sums, 0, 4 * n);
    for (int64_t i = 0; i < p->rows; i++) {
        const float *x = p->x + i * n, *d = p->dy + i * n;
        float *y = p->dx + i * n;
        for (int64_t j = 0; j < n; j++) {
            float v = x[j] > 0 ? d[j] : 0;
            y[j] = v;
            sums[j] += v;
        }
    }
}

void biasact_dgrad_passes(const argument *p)
{
    int64_t n = p->cols, count = p->rows * n;
    float *sums = p->db;
    for (int64_t i = 0; i < count; i++) p->dx[i] = p->x[i] > 0 ? p->dy[i] : 0;
    memset(sums, 0, 4 * n);
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < n; j++) sums[j] += p->dx[i * n + j];
}
