/* A chain of loads by one thread, each address what the load before it brought, with nothing worked out in between: a
 * cycle through all lines of 64 bytes in a scrambled order, as kernels/ops/chase/problem.py has it. Built once, by a
 * thread a line. */
typedef long long index_t;
typedef unsigned long long wide_t;

enum { THREADS = 256, WORDS = 8, STOPS = 16, EXACT = 1 << 24, NEAR = 4096 };

/* The line at a position of the cycle: one to one. */
static __device__ __forceinline__ wide_t place(wide_t i, wide_t lines, int bits)
{
    wide_t mask = ((wide_t)1 << bits) - 1;
    int shift = bits / 2 + 1;
    do {
        i = (i * 0x9E3779B1ull + 0x7F4A7C15ull) & mask, i ^= i >> shift;
        i = (i * 0x85EBCA6Bull + 0x165667B1ull) & mask, i ^= i >> shift;
        i = (i * 0xC2B2AE35ull + 0x27D4EB2Full) & mask, i ^= i >> shift;
    } while (i >= lines);
    return i;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    chase_build(wide_t *__restrict__ cycle, index_t lines, index_t bits)
{
    index_t i = (index_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= lines) return;
    wide_t next = i + 1 < lines ? i + 1 : 0;
    cycle[place((wide_t)i, (wide_t)lines, (int)bits) * WORDS] =
        (wide_t)(cycle + place(next, (wide_t)lines, (int)bits) * WORDS);
}

/* Every line once, into the cache that all multiprocessors share. No line's address is 0. */
extern "C" __global__ void __launch_bounds__(THREADS) chase_touch(wide_t *cycle, index_t lines)
{
    index_t i = (index_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < lines && cycle[i * WORDS] == 0) cycle[i * WORDS] = 1;
}

/* What a multiprocessor's own cache may hold is read by the warp that then walks: the launch before ran anywhere. An
 * address that was loaded may be of any memory, which costs a load more than one that is known to be global. */
extern "C" __global__ void __launch_bounds__(32)
    chase_walk(float *y, wide_t *cycle, index_t lines, index_t bits, index_t steps)
{
#pragma unroll 8
    for (index_t i = threadIdx.x; lines <= NEAR && i < lines; i += 32)
        if (cycle[i * WORDS] == 0) cycle[i * WORDS] = 1;
    if (threadIdx.x) return;
    unsigned seed = __float_as_uint(y[0]);
    wide_t first = (wide_t)(seed * 2654435761u) * (wide_t)lines >> 32;
    const wide_t *at = cycle + place(first, (wide_t)lines, (int)bits) * WORDS;
    for (int stop = 0; stop < STOPS; stop++) {
        for (index_t i = 0; i < steps / STOPS; i++) {
            __builtin_assume(__isGlobal(at));
            at = (const wide_t *)*at;
        }
        y[stop] = (float)((wide_t)(at - cycle) / WORDS % EXACT);
    }
}
