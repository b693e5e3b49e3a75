/* What memory costs besides its use. Every launch writes all of it, 4 KiB at a time, in one way wherever the
 * memory comes from; it leaves the last line of each 4 KiB alone and reads it, so that new memory (zero) is
 * told from old (marked with 1); it counts its own page faults. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

enum { CHUNK = 4096, LINE = 64, SUMS = 1 << 24 };
enum { MAP, CLEAR, COPY };

/* What a prepared case keeps between its launches. */
typedef struct {
    char *base, *raw, *source, *source_raw;
    int64_t size, behind, page, what, small; /* small: small pages must be asked for, huge ones are everybody's */
    double pause;
    int32_t fresh, failed;
} region;

typedef struct {
    float *y;
    region *r;
} argument;

typedef struct {
    int64_t written, alone, chunks;
} sums;

static int64_t whole(const region *r) { return r->behind + r->size; }

static int64_t room(const region *r) { return whole(r) + (r->page > CHUNK ? r->page : 0); }

static char *aligned(const region *r, char *raw)
{
    char *base = (char *)(((uintptr_t)raw + (uintptr_t)r->page - 1) & ~((uintptr_t)r->page - 1));
    if (r->page > CHUNK)
        madvise(base, (size_t)whole(r), MADV_HUGEPAGE);
    else if (r->small)
        madvise(base, (size_t)whole(r), MADV_NOHUGEPAGE);
    return base;
}

static char *map(region *r, char **raw)
{
    *raw = mmap(0, (size_t)room(r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*raw == MAP_FAILED) {
        *raw = 0;
        r->failed = 1;
        return 0;
    }
    return aligned(r, *raw);
}

static void unmap(region *r, char **base, char **raw)
{
    if (*raw) munmap(*raw, (size_t)room(r));
    *base = *raw = 0;
}

static void mark(char *base, int64_t size)
{
    for (int64_t at = 0; at < size; at += CHUNK) memset(base + at, 1, CHUNK);
}

/* The bytes are read back as volatile: a compiler knows what memset leaves. */
static sums work(const region *r, char *base, int value)
{
    sums s = {0, 0, 0};
    if (r->what == MAP || !base) return s;
    for (int64_t at = 0; at < r->size; at += CHUNK, s.chunks++) {
        char *p = base + at;
        if (r->what == COPY)
            memcpy(p, r->source + at, CHUNK - LINE);
        else
            memset(p, value, CHUNK - LINE);
        s.written += *(volatile char *)(p + CHUNK - LINE - 1);
        s.alone += *(volatile char *)(p + CHUNK - LINE);
    }
    if (r->what == COPY) s.written *= value;
    return s;
}

static int64_t faults(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return u.ru_minflt + u.ru_majflt;
}

static int seeded(const float *y)
{
    uint32_t bits;
    memcpy(&bits, y, sizeof bits);
    return 1 + (int)((bits * 2654435761u >> 16) % 15);
}

static void tell(const argument *a, sums s, int64_t before)
{
    a->y[0] = (float)(s.written % SUMS), a->y[1] = (float)(s.alone % SUMS);
    a->y[2] = a->r->failed ? -1.0f : (float)(faults() - before), a->y[3] = (float)(s.chunks % SUMS);
}

static void ready_source(region *r)
{
    if (r->what != COPY || r->source) return;
    r->source = map(r, &r->source_raw);
    for (int64_t i = 0; r->source && i < r->size / CHUNK; i++)
        memset(r->source + i * CHUNK, 1 + (int)(i % 13), CHUNK);
}

void touched_ready(const argument *a)
{
    ready_source(a->r);
    if (a->r->base) return;
    if ((a->r->base = map(a->r, &a->r->raw))) mark(a->r->base, a->r->size);
}

void touched(const argument *a)
{
    touched_ready(a);
    int64_t before = faults();
    tell(a, work(a->r, a->r->base, seeded(a->y)), before);
}

static void renew(region *r, double pause)
{
    if (r->fresh) return;
    unmap(r, &r->base, &r->raw);
    struct timespec t = {(time_t)pause, (long)((pause - (double)(time_t)pause) * 1e9)};
    if (pause > 0) nanosleep(&t, 0);
    r->base = map(r, &r->raw);
    r->fresh = 1;
}

/* Untimed, before a visit: the old mapping goes, the pause if there is one, the new mapping comes. What lies
 * `behind` is touched at once: the pages that are given out first are those that others gave back last. */
void fresh_ready(const argument *a)
{
    region *r = a->r;
    ready_source(r);
    if (r->fresh) return;
    renew(r, r->pause);
    for (int64_t at = r->size; r->base && at < whole(r); at += CHUNK) *(volatile char *)(r->base + at) = 1;
}

/* Where it was not made ready (a call too long to be warmed up, a second launch in one visit) the exchange
 * of the mappings is within the launch. */
void fresh(const argument *a)
{
    ready_source(a->r);
    renew(a->r, 0);
    int64_t before = faults();
    sums s = work(a->r, a->r->base, seeded(a->y));
    a->r->fresh = 0;
    tell(a, s, before);
}

void mapped_ready(const argument *a) { ready_source(a->r); }

void mapped(const argument *a)
{
    char *raw, *base = map(a->r, &raw);
    int64_t before = faults();
    sums s = work(a->r, base, seeded(a->y));
    tell(a, s, before);
    unmap(a->r, &base, &raw);
}

#ifdef __GLIBC__
/* default: what glibc does with any block above 32 MiB, whatever its moving threshold is. keep: as under
 * MALLOC_MMAP_MAX_=0 and MALLOC_TRIM_THRESHOLD_=-1. Either ends the moving of the threshold in this process;
 * that the default is set again after each launch, so that no other case works under `keep`. */
static void policy(int keep)
{
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    mallopt(M_MMAP_MAX, keep ? 0 : 65536);
    mallopt(M_TRIM_THRESHOLD, keep ? -1 : 128 << 10);
}

/* Blocks of the heap that the default would be served from, left by `keep` or by others' frees. */
enum { PLUGS = 64 };
static char *plugs[PLUGS];
static int plugged;

/* Compilers leave out a malloc whose block nobody writes to. */
static void *(*volatile taken)(size_t) = malloc;

/* glibc notes in the word before a block whether it was mapped for it alone. */
static int mapped_alone(const char *raw) { return (int)(((const size_t *)raw)[-1] >> 1 & 1); }

static char *heap_block(region *r, char **raw)
{
    *raw = taken((size_t)(r->size + r->page));
    if (!*raw) r->failed = 1;
    return *raw ? aligned(r, *raw) : 0;
}

/* What the heap still has is taken from it, until a block as large is mapped for itself. */
static char *mapped_block(region *r, char **raw)
{
    char *base = heap_block(r, raw);
    while (base && !mapped_alone(*raw) && plugged < PLUGS) {
        plugs[plugged++] = *raw;
        base = heap_block(r, raw);
    }
    return base;
}

static void heap(const argument *a, int keep)
{
    policy(keep);
    int64_t before = faults();
    char *raw, *base = keep ? heap_block(a->r, &raw) : mapped_block(a->r, &raw);
    sums s = work(a->r, base, seeded(a->y));
    tell(a, s, before);
    free(raw);
    policy(0);
}

/* Untimed; launches too long to be made ready for do it within. */
void default_ready(const argument *a)
{
    ready_source(a->r);
    policy(0);
    char *raw;
    if (mapped_block(a->r, &raw)) free(raw);
}

/* Untimed: the heap gets, and keeps, what the launches take from it; at first without pages that somebody
 * else made huge. */
void keep_ready(const argument *a)
{
    region *r = a->r;
    ready_source(r);
    policy(1);
    while (plugged) free(plugs[--plugged]);
    char *raw, *base = heap_block(r, &raw);
    if (base && !r->fresh && r->page == CHUNK) {
        madvise(base, (size_t)r->size, MADV_NOHUGEPAGE);
        madvise(base, (size_t)r->size, MADV_DONTNEED);
        r->fresh = 1;
    }
    if (base) mark(base, r->size);
    free(raw);
    policy(0);
}

void heap_default(const argument *a) { heap(a, 0); }
void heap_keep(const argument *a) { heap(a, 1); }
int32_t heap_known(void) { return 1; }
#else
void default_ready(const argument *a) { (void)a; }
void keep_ready(const argument *a) { (void)a; }
void heap_default(const argument *a) { a->y[2] = -1; }
void heap_keep(const argument *a) { a->y[2] = -1; }
int32_t heap_known(void) { return 0; }
#endif

void release(region *r)
{
    unmap(r, &r->base, &r->raw);
    unmap(r, &r->source, &r->source_raw);
}

/* Faults of touching all of a fresh mapping once: what pages the kernel really gives. */
int64_t given(region *r)
{
    renew(r, 0);
    int64_t before = faults();
    for (int64_t at = 0; r->base && at < r->size; at += CHUNK) *(volatile char *)(r->base + at) = 1;
    r->fresh = 0;
    return r->failed ? -1 : faults() - before;
}

static double both(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

/* `rounds` first touches of a fresh mapping of 4 KiB pages; system time, user time and faults of each. */
void account(region *r, int64_t rounds, double *system, double *user, double *count)
{
    for (int64_t i = 0; i < rounds; i++) {
        struct rusage u, v;
        renew(r, 0);
        getrusage(RUSAGE_THREAD, &u);
        work(r, r->base, 1);
        getrusage(RUSAGE_THREAD, &v);
        r->fresh = 0;
        system[i] = both(v.ru_stime) - both(u.ru_stime), user[i] = both(v.ru_utime) - both(u.ru_utime);
        count[i] = (double)(v.ru_minflt - u.ru_minflt);
    }
}
