/* What the suite is held against: cblas_sgemm of an OpenBLAS in a plain loop, C = A * B, row-major, one
 * thread, without Python and without the suite.
 *
 * usage: gemm_loop LIBRARY SGEMM 32|64 SET_THREADS M N K SECONDS
 *
 * SGEMM and SET_THREADS are names of symbols, 32 or 64 the bits of the library's integers, SECONDS what a
 * visit fills. Each line on stdin is answered by the seconds of one call in a visit. Exit 2 with one line on
 * stderr for anything it cannot do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, LINE = 64, WARM = 2, HUGE_PAGE = 2 << 20 };

static const double SHORT = 60e-6;    /* seconds of a visit from which the clock tells */
static const double CPU_CLOCK = 1e-3; /* seconds of a visit from which the thread's own clock times it */
static const int64_t ROOM = 8 << 20;  /* bytes of play for placements, at least */

typedef void (*sgemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                        float, float *, int);
typedef void (*sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t,
                        const float *, int64_t, float, float *, int64_t);

typedef struct {
    char *base;
    int64_t lines;
} arena;

/* Products go to an arena of their own: where A or B lay on old ones, the numbers would grow without end. */
typedef struct {
    void *sgemm;
    int wide;
    int64_t m, n, k;
    float *a, *b, *c;
    arena in, out;
} product;

static uint64_t state;

static void fail(const char *what, const char *which)
{
    fprintf(stderr, "gemm_loop: %s%s\n", what, which);
    exit(2);
}

/* splitmix64 */
static uint64_t draw(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Sum of four uniform numbers, mean 0, variance 1: near enough to a normal one. */
static float normal(void)
{
    uint64_t bits = draw();
    double sum = 0;
    for (int i = 0; i < 4; i++, bits >>= 16) sum += (double)(bits & 0xffff) / 65536;
    return (float)((sum - 2) * sqrt(3));
}

/* Cache lines that hold so many floats. */
static int64_t lines(int64_t floats)
{
    return (floats * (int64_t)sizeof(float) + LINE - 1) / LINE;
}

/* Twice the operands, with room for small ones. In huge pages, as NumPy asks for in arrays so large: with
 * small ones the loop would miss the TLB more often than the suite and look slow. */
static arena reserve(int64_t operands)
{
    int64_t bytes = operands * LINE, play = bytes > ROOM ? bytes : ROOM;
    arena made = {NULL, operands + play / LINE};
    void *block = NULL;
    size_t whole = ((size_t)(made.lines * LINE) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (posix_memalign(&block, HUGE_PAGE, whole)) fail("out of memory", "");
#ifdef MADV_HUGEPAGE
    madvise(block, whole, MADV_HUGEPAGE);
#endif
    made.base = block;
    float *numbers = block;
    for (int64_t i = 0; i < made.lines * LINE / (int64_t)sizeof(float); i++) numbers[i] = normal();
    return made;
}

/* A line number from 0 to `last`, both included. */
static int64_t gap(int64_t last)
{
    return (int64_t)(draw() % (uint64_t)(last + 1));
}

/* Fresh places as micro/worker/placement.py draws them: random order, random gaps of whole lines, no overlap. */
static void place(product *p)
{
    int64_t a = lines(p->m * p->k), b = lines(p->k * p->n), c = lines(p->m * p->n);
    int64_t slack = p->in.lines - a - b, first = gap(slack), second = gap(slack);
    if (first > second) {
        int64_t swap = first;
        first = second, second = swap;
    }
    int a_first = (int)(draw() >> 63);
    p->a = (float *)(p->in.base + (a_first ? first : second + b) * LINE);
    p->b = (float *)(p->in.base + (a_first ? second + a : first) * LINE);
    p->c = (float *)(p->out.base + gap(p->out.lines - c) * LINE);
}

static void launch(const product *p, int64_t count)
{
    if (p->wide)
        for (int64_t i = 0; i < count; i++)
            ((sgemm64)p->sgemm)(ROW_MAJOR, NO_TRANS, NO_TRANS, p->m, p->n, p->k, 1, p->a, p->k, p->b,
                                p->n, 0, p->c, p->n);
    else
        for (int64_t i = 0; i < count; i++)
            ((sgemm32)p->sgemm)(ROW_MAJOR, NO_TRANS, NO_TRANS, (int)p->m, (int)p->n, (int)p->k, 1, p->a,
                                (int)p->k, p->b, (int)p->n, 0, p->c, (int)p->n);
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one call. */
static double visit(product *p, int64_t warm, int64_t count, clockid_t clock)
{
    place(p);
    launch(p, warm);
    double start = now(clock);
    launch(p, count);
    return (now(clock) - start) / (double)count;
}

static int64_t filling(double seconds, double call)
{
    return call < seconds ? (int64_t)ceil(seconds / call) : 1;
}

/* Seconds of one call, roughly: a cold first one tells nothing. */
static double calibrate(product *p)
{
    double call = SHORT;
    for (int i = 0; i < 4; i++) {
        call = visit(p, 0, filling(SHORT, call), CLOCK_MONOTONIC);
        if (call < 1e-9) call = 1e-9;
    }
    return call;
}

static void serve(product *p, double seconds)
{
    double call = calibrate(p);
    int64_t count = filling(seconds, call);
    int is_long = seconds >= CPU_CLOCK || call >= CPU_CLOCK;
    clockid_t clock = is_long ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%.9e\n", visit(p, WARM, count, clock));
        fflush(stdout);
    }
}

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) fail("the library exports no ", name);
    return found;
}

int main(int argc, char **argv)
{
    if (argc != 9) fail("usage: gemm_loop LIBRARY SGEMM 32|64 SET_THREADS M N K SECONDS", "");
    product p = {.wide = !strcmp(argv[3], "64")};
    p.m = atoll(argv[5]), p.n = atoll(argv[6]), p.k = atoll(argv[7]);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fail("", dlerror());
    p.sgemm = find(library, argv[2]);
    ((void (*)(int))find(library, argv[4]))(1);
    state = (uint64_t)getpid() << 32 ^ (uint64_t)(now(CLOCK_REALTIME) * 1e9);
    p.in = reserve(lines(p.m * p.k) + lines(p.k * p.n));
    p.out = reserve(lines(p.m * p.n));
    serve(&p, atof(argv[8]));
    return 0;
}
