/* x <- x/2 + d, `steps` times in each chain, with the widest vectors of the instruction set this file is
 * compiled for. Where it has no fused multiply-add the compiler emits a multiply and an add. */
#include <stdint.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));

typedef struct {
    const float *d;
    float *x;
    int64_t steps;
} argument;

/* The empty statement keeps the compiler from hoisting or merging the chains. */
#define STEP(x) x = x * half + d; __asm__ volatile("" : "+x"(x));

void fma_chains10(const argument *p)
{
    vec *x = (vec *)p->x, d = *(const vec *)p->d, half = d - d + 0.5f;
    vec x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3], x4 = x[4], x5 = x[5], x6 = x[6], x7 = x[7], x8 = x[8],
        x9 = x[9];
    for (int64_t s = p->steps; s > 0; s--) {
        STEP(x0) STEP(x1) STEP(x2) STEP(x3) STEP(x4) STEP(x5) STEP(x6) STEP(x7) STEP(x8) STEP(x9)
    }
    x[0] = x0, x[1] = x1, x[2] = x2, x[3] = x3, x[4] = x4, x[5] = x5, x[6] = x6, x[7] = x7, x[8] = x8,
    x[9] = x9;
}

void fma_chains1(const argument *p)
{
    vec *x = (vec *)p->x, d = *(const vec *)p->d, half = d - d + 0.5f, x0 = x[0];
    for (int64_t s = p->steps; s > 0; s--) {
        STEP(x0)
    }
    x[0] = x0;
}
