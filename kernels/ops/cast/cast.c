/* Conversions, clears and fills over contiguous elements: plain loops, which the compiler makes vectors of. */

typedef struct {
    const void *x;
    void *y;
    int64_t values;
} argument;

void cast_f64_f32(const argument *p)
{
    const double *x = p->x;
    float *y = p->y;
    for (int64_t i = 0; i < p->values; i++) y[i] = (float)x[i];
}

void cast_f32_f32(const argument *p)
{
    const float *x = p->x;
    float *y = p->y;
    int64_t i = 0, n = p->values;
    for (; i + LANES <= n; i += LANES) store(y + i, load(x + i)); /* no call of memcpy */
    for (; i < n; i++) y[i] = x[i];
}

/* To nearest, ties to even. */
void cast_f32_bf16(const argument *p)
{
    const uint32_t *x = p->x;
    uint16_t *y = p->y;
    for (int64_t i = 0; i < p->values; i++) {
        uint32_t bits = x[i], rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        y[i] = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded; /* a NaN must stay one */
    }
}

void cast_bf16_f32(const argument *p)
{
    const uint16_t *x = p->x;
    uint32_t *y = p->y;
    for (int64_t i = 0; i < p->values; i++) y[i] = (uint32_t)x[i] << 16;
}

static inline void set(const argument *p, vec value)
{
    float *y = p->y;
    int64_t i = 0, n = p->values;
    for (; i + LANES <= n; i += LANES) store(y + i, value);
    if (i < n) store_some(y + i, value, n - i);
}

void cast_clear(const argument *p) { set(p, all(0)); }
void cast_fill(const argument *p) { set(p, all(1.5f)); }
void cast_memset(const argument *p) { memset(p->y, 0, 4 * p->values); }
