/* A function of one structure, with an outer axis of its problem divided among OpenMP's threads: each calls it with a
 * copy of the structure that has its part of the axis. */
#include <omp.h>
#include <stdint.h>
#include <string.h>

enum { MOST = 512 }; /* bytes of a structure */

typedef struct {
    int64_t offset, stride; /* a pointer's place in the structure, and bytes by which it moves */
} moved;

typedef struct {
    void (*run)(void *);
    const moved *by_part, *by_thread;
    int64_t parts, own, threads, total, grain, count, size;
    /* the kernel's own structure follows, of `size` bytes; `count` is the place of its axis' length */
} divided;

static void move(char *argument, const moved *each, int64_t many, int64_t steps)
{
    for (int64_t i = 0; i < many; i++) {
        char **place = (char **)(argument + each[i].offset);
        if (*place) *place += steps * each[i].stride;
    }
}

void divided_run(const divided *d)
{
#pragma omp parallel num_threads((int)d->threads)
    {
        int64_t pieces = (d->total + d->grain - 1) / d->grain, me = omp_get_thread_num(), many = omp_get_num_threads();
        int64_t from = pieces * me / many * d->grain, to = pieces * (me + 1) / many * d->grain;
        if (to > d->total) to = d->total;
        if (from < to) {
            _Alignas(64) char argument[MOST];
            memcpy(argument, d + 1, (size_t)d->size);
            move(argument, d->by_part, d->parts, from);
            move(argument, d->by_thread, d->own, me);
            *(int64_t *)(argument + d->count) = to - from;
            d->run(argument);
        }
    }
}

/* How many threads there really are where so many are asked for. */
int64_t divided_threads(int64_t asked)
{
    int64_t there = 0;
#pragma omp parallel num_threads((int)asked)
    {
#pragma omp single
        there = omp_get_num_threads();
    }
    return there;
}
