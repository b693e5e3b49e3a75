/* The kernels that every rung reaches, and the rungs that reach them from C: a loop of `chain` calls
 * through a function pointer, which no compiler can see through. */
#include <stdint.h>

enum { N = 8, ROW_MAJOR = 101, NO_TRANS = 111 };

typedef float row __attribute__((vector_size(4 * N), aligned(4)));

/* c = a b, 8x8, row-major: b's rows and a row of c stay in registers. */
void launch_gemm(const float *restrict a, const float *restrict b, float *restrict c)
{
    const row *in = (const row *)b;
    row *out = (row *)c;
    for (int i = 0; i < N; i++, a += N) {
        row even = a[0] * in[0] + a[2] * in[2] + a[4] * in[4] + a[6] * in[6];
        row odd = a[1] * in[1] + a[3] * in[3] + a[5] * in[5] + a[7] * in[7];
        out[i] = even + odd;
    }
}

void launch_empty(float *x) { (void)x; }

typedef struct {
    const float *a, *b;
    float *c;
    void *function;
    int64_t chain;
} product;

typedef struct {
    float *x;
    void (*function)(float *);
    int64_t chain;
} nothing;

typedef void (*gemm)(const float *, const float *, float *);
typedef void (*sgemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                        float, float *, int);
typedef void (*sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t,
                        const float *, int64_t, float, float *, int64_t);

void call_gemm(const product *p)
{
    for (int64_t i = 0; i < p->chain; i++) ((gemm)p->function)(p->a, p->b, p->c);
}

void call_cblas32(const product *p)
{
    for (int64_t i = 0; i < p->chain; i++)
        ((sgemm32)p->function)(ROW_MAJOR, NO_TRANS, NO_TRANS, N, N, N, 1.0f, p->a, N, p->b, N, 0.0f, p->c, N);
}

void call_cblas64(const product *p)
{
    for (int64_t i = 0; i < p->chain; i++)
        ((sgemm64)p->function)(ROW_MAJOR, NO_TRANS, NO_TRANS, N, N, N, 1.0f, p->a, N, p->b, N, 0.0f, p->c, N);
}

void call_empty(const nothing *p)
{
    for (int64_t i = 0; i < p->chain; i++) p->function(p->x);
}

/* What the harness itself costs: an entry that returns at once. */
void call_nothing(const nothing *p) { (void)p; }

/* cuLaunchKernel from a C loop: one block of a kernel whose parameters stand ready. Its first status that
 * is no success is kept. */
typedef int (*launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             void *, void **, void **);

typedef struct {
    void *function, *kernel, *stream;
    void **parameters;
    int64_t chain;
    int32_t width, height, status;
} driver_launch;

void call_driver(driver_launch *p)
{
    for (int64_t i = 0; i < p->chain; i++) {
        int status = ((launch_kernel)p->function)(p->kernel, 1, 1, 1, (unsigned)p->width, (unsigned)p->height,
                                                  1, 0, p->stream, p->parameters, 0);
        if (status && !p->status) p->status = status;
    }
}
