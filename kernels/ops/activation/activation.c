/* Activations and their gradients over contiguous floats, by the vectors of ../../maths.c. In place, x (forward)
 * or dy (dgrad) is no address, and y is read in its stead. `libm_` are the same loops with the C library's
 * scalar functions. */

typedef struct {
    const float *x, *dy;
    float *y;
    int64_t count;
} argument;

/* y[i] = F(a) */
#define FORWARD(name, F)                                                                        \
    void forward_##name(const argument *p)                                                      \
    {                                                                                           \
        const float *x = p->x ? p->x : p->y;                                                    \
        float *y = p->y;                                                                        \
        int64_t i = 0, n = p->count;                                                            \
        for (; i + UNROLL * LANES <= n; i += UNROLL * LANES)                                    \
            for (int s = 0; s < UNROLL; s++) {                                                  \
                vec a = load(x + i + s * LANES);                                                \
                store(y + i + s * LANES, F(a));                                                 \
            }                                                                                   \
        for (; i < n; i += LANES) {                                                             \
            int64_t left = n - i < LANES ? n - i : LANES;                                       \
            vec a = load_some(x + i, left, 0);                                                  \
            store_some(y + i, F(a), left);                                                      \
        }                                                                                       \
    }

/* y[i] = d[i] · F(x[i]), x being what the forward gave */
#define BACKWARD(name, F)                                                                       \
    void dgrad_##name(const argument *p)                                                     \
    {                                                                                           \
        const float *x = p->x, *d = p->dy ? p->dy : p->y;                                         \
        float *y = p->y;                                                                        \
        int64_t i = 0, n = p->count;                                                            \
        for (; i + UNROLL * LANES <= n; i += UNROLL * LANES)                                    \
            for (int s = 0; s < UNROLL; s++) {                                                  \
                vec a = load(x + i + s * LANES), b = load(d + i + s * LANES);                   \
                store(y + i + s * LANES, F(a, b));                                              \
            }                                                                                   \
        for (; i < n; i += LANES) {                                                             \
            int64_t left = n - i < LANES ? n - i : LANES;                                       \
            vec a = load_some(x + i, left, 0), b = load_some(d + i, left, 0);                   \
            store_some(y + i, F(a, b), left);                                                   \
        }                                                                                       \
    }

static inline vec relu_of(vec a) { return larger(a, all(0)); }
static inline vec relu_slope(vec y, vec d) { return pick(y > 0, d, all(0)); }
static inline vec sigmoid_slope(vec y, vec d) { return d * (y * (1.0f - y)); }
static inline vec tanh_slope(vec y, vec d) { return d * (1.0f - y * y); }
static inline vec exp_slope(vec y, vec d) { return d * y; }

FORWARD(relu, relu_of)
FORWARD(sigmoid, sigmoid_of)
FORWARD(tanh, tanh_of)
FORWARD(exp, exp_of)
BACKWARD(relu, relu_slope)
BACKWARD(sigmoid, sigmoid_slope)
BACKWARD(tanh, tanh_slope)
BACKWARD(exp, exp_slope)

#define LIBM(name, F)                                                                           \
    void libm_##name(const argument *p)                                                         \
    {                                                                                           \
        const float *x = p->x ? p->x : p->y;                                                    \
        for (int64_t i = 0; i < p->count; i++) p->y[i] = F(x[i]);                               \
    }

static inline float sigmoid_float(float x) { return 1.0f / (1.0f + expf(-x)); }

LIBM(sigmoid, sigmoid_float)
LIBM(tanh, tanhf)
LIBM(exp, expf)
