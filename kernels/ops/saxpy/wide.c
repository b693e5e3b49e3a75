/* y = y/2 + x in vectors of LANES floats, four a turn, by the argument that saxpy.c takes. One source for every
 * width, compiled for the instruction set that has it: what differs is the width. */
#include <stdint.h>

enum { TURN = 4 * LANES };

#if LANES > 1
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));
#else
typedef float vec;
#endif

typedef struct {
    const float *x;
    float *y;
    int64_t count, rows, passes, sweep;
    volatile char **swept;
} argument;

void saxpy(const argument *a)
{
    int64_t whole = a->count / TURN * TURN;
    for (int64_t pass = 0; pass < a->passes; pass++) {
        const float *restrict x = a->x;
        float *restrict y = a->y;
        for (int64_t i = 0; i < whole; i += TURN)
            for (int64_t at = i; at < i + TURN; at += LANES)
                *(vec *)(y + at) = 0.5f * *(vec *)(y + at) + *(const vec *)(x + at);
        for (int64_t i = whole; i < a->count; i++) y[i] = 0.5f * y[i] + x[i];
    }
}
