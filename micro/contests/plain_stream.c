/* Copy and triad as STREAM writes them (McCalpin 1995). */
#include <stdint.h>

typedef struct {
    const float *a, *b;
    float *y;
    int64_t count;
} argument;

void plain_copy(const argument *p)
{
    const float *restrict a = p->a;
    float *restrict y = p->y;
    for (int64_t i = 0; i < p->count; i++) y[i] = a[i];
}

void plain_triad(const argument *p)
{
    const float *restrict a = p->a, *restrict b = p->b;
    float *restrict y = p->y;
    for (int64_t i = 0; i < p->count; i++) y[i] = a[i] + 3.0f * b[i];
}
