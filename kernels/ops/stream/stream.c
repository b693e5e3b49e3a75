/* Read, copy and triad over contiguous floats; plain stores, so that a cached array stays cached. */
#include <stdint.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { STREAMS = 4 };

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));

typedef struct {
    const float *a, *b;
    float *y;
    int64_t count;
} argument;

/* Four streams at once, as most kernels have: one alone leaves the prefetchers idle. */
void stream_read(const argument *p)
{
    vec sum[2 * STREAMS] = {{0}};
    int64_t part = p->count / STREAMS / (2 * LANES) * (2 * LANES), done = STREAMS * part;
    for (int64_t i = 0; i < part; i += 2 * LANES)
        for (int s = 0; s < STREAMS; s++) {
            sum[2 * s] += *(const vec *)(p->a + s * part + i);
            sum[2 * s + 1] += *(const vec *)(p->a + s * part + i + LANES);
        }
    float total = 0;
    for (; done < p->count; done++) total += p->a[done];
    for (int s = 1; s < 2 * STREAMS; s++) sum[0] += sum[s];
    for (int l = 0; l < LANES; l++) total += sum[0][l];
    *p->y = total;
}

void stream_copy(const argument *p)
{
    int64_t i = 0;
    for (; i + 4 * LANES <= p->count; i += 4 * LANES)
        for (int s = 0; s < 4; s++) *(vec *)(p->y + i + s * LANES) = *(const vec *)(p->a + i + s * LANES);
    for (; i < p->count; i++) p->y[i] = p->a[i];
}

void stream_triad(const argument *p)
{
    int64_t i = 0;
    for (; i + 4 * LANES <= p->count; i += 4 * LANES)
        for (int s = 0; s < 4; s++) {
            int64_t at = i + s * LANES;
            *(vec *)(p->y + at) = *(const vec *)(p->a + at) + 3.0f * *(const vec *)(p->b + at);
        }
    for (; i < p->count; i++) p->y[i] = p->a[i] + 3.0f * p->b[i];
}
