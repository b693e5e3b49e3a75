/* A pointer chase: every load's address is what the load before it brought. */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, STOPS = 16, CHUNK = 4096, EXACT = 1 << 24, CACHED = 1 << 20 };

typedef struct {
    char *base, *raw;
    int64_t lines, steps, page, small; /* small: small pages must be asked for */
} region;

typedef struct {
    float *y;
    const region *r;
} argument;

/* Position on the cycle to line, as in problem.py: one to one, and no prefetcher follows it. */
static uint64_t place(uint64_t i, uint64_t lines, int bits)
{
    static const uint64_t factor[] = {0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35};
    static const uint64_t more[] = {0x7F4A7C15, 0x165667B1, 0x27D4EB2F};
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    do
        for (int k = 0; k < 3; k++) {
            i = (i * factor[k] + more[k]) & mask;
            i ^= i >> (bits / 2 + 1);
        }
    while (i >= lines);
    return i;
}

static int width(uint64_t lines)
{
    int bits = 1;
    while (((uint64_t)1 << bits) < lines) bits++;
    return bits;
}

static int64_t room(const region *r)
{
    return (r->lines * LINE + r->page - 1) / r->page * r->page + (r->page > CHUNK ? r->page : 0);
}

/* 0: the system maps no more. */
int32_t build(region *r)
{
    uint64_t lines = (uint64_t)r->lines;
    int bits = width(lines);
    r->raw = mmap(0, (size_t)room(r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r->raw == MAP_FAILED) {
        r->raw = 0;
        return 0;
    }
    r->base = (char *)(((uintptr_t)r->raw + (uintptr_t)r->page - 1) & ~((uintptr_t)r->page - 1));
    int64_t whole = (r->lines * LINE + r->page - 1) / r->page * r->page;
    if (r->page > CHUNK)
        madvise(r->base, (size_t)whole, MADV_HUGEPAGE);
    else if (r->small)
        madvise(r->base, (size_t)whole, MADV_NOHUGEPAGE);
    char *at = r->base + LINE * place(0, lines, bits), *next;
    for (uint64_t i = 1; i <= lines; i++, at = next) {
        next = r->base + LINE * place(i % lines, lines, bits);
        *(char **)at = next;
    }
    return 1;
}

void walk(const argument *a)
{
    const region *r = a->r;
    uint32_t seed;
    memcpy(&seed, a->y, sizeof seed);
    uint64_t first = (uint64_t)(seed * 2654435761u) * (uint64_t)r->lines >> 32;
    char *p = r->base + LINE * place(first, (uint64_t)r->lines, width((uint64_t)r->lines));
    for (int stop = 0; stop < STOPS; stop++) {
        for (int64_t i = 0; i < r->steps / STOPS; i++) p = *(char **)p;
        a->y[stop] = (float)((p - r->base) / LINE % EXACT);
    }
}

/* Untimed, before a visit: every line once, unless there are more than any cache holds. */
void ready(const argument *a)
{
    const region *r = a->r;
    for (int64_t i = 0; r->lines <= CACHED && i < r->lines; i++) (void)*(volatile char *)(r->base + i * LINE);
}

void release(region *r)
{
    if (r->raw) munmap(r->raw, (size_t)room(r));
    r->base = r->raw = 0;
}
