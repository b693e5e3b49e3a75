/* An entire batch of rounds in one call: every sample in the order and at the placements handed in,
 * with nothing between the launches but the loop. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define OWN CLOCK_PROCESS_CPUTIME_ID

/* A case: function(argument), which is copied to one place for all cases: where in its page a kernel reads its argument
 * costs a call of 0.1 µs a cycle more or less, and would be fixed for the contest. slots: byte offsets in the argument
 * at which the operands' addresses stand. step: 0 where all launches of a visit share one placement; slots where each
 * takes the next. */
typedef struct {
    void (*function)(void *);
    char *argument;
    int64_t argument_bytes;
    const int64_t *slots;
    int64_t slot_count, launches, warm, step, label;
    void (*single)(void *); /* one call, where a launch is several, of the argument so far on */
    int64_t single_offset;
} entry;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void place(const entry *e, char *argument, const int64_t *addresses)
{
    for (int64_t i = 0; i < e->slot_count; i++)
        *(int64_t *)(argument + e->slots[i]) = addresses[i];
}

/* Bytes that are moved while the clock stands. */
typedef struct {
    const void *from;
    void *to;
    int64_t nbytes;
} copy;

/* A launch of a visit whose answer is looked at: what is written before it, what is kept behind it. */
typedef struct {
    int64_t visit, launch;
    const copy *before, *behind;
    int64_t before_count, behind_count;
} witness;

static void move(const copy *c, int64_t count)
{
    for (int64_t i = 0; i < count; i++) memcpy(c[i].to, c[i].from, (size_t)c[i].nbytes);
}

typedef struct {
    double wall, cpu;
    int64_t pieces; /* of time, of which each holds the cost of reading the clock */
} span;

/* Launches first … last − 1 of a visit. The processor-time clock is a system call of half a microsecond and
 * brackets the wall clock; it is of all threads of the process, since a kernel's helper is the kernel. */
static void timed(const entry *e, char *argument, const int64_t *addresses, int64_t first, int64_t last, span *s)
{
    double own0 = seconds(OWN), wall0 = seconds(CLOCK_MONOTONIC);
    if (e->step)
        for (int64_t i = first; i < last; i++) {
            place(e, argument, addresses + i * e->step);
            e->function(argument);
        }
    else
        for (int64_t i = first; i < last; i++) e->function(argument);
    double wall1 = seconds(CLOCK_MONOTONIC), own1 = seconds(OWN);
    s->wall += wall1 - wall0;
    s->cpu += own1 - own0;
    s->pieces++;
}

/* The cost of an empty launch is the loop's. */
void nothing(void *argument)
{
    (void)argument;
}

/* Seconds that a visit of nothing takes longer by the processor-time clock than by the wall, at least. One that was
 * interrupted between its two clocks seems to take less than none, and is ignored. */
double clock_cost(void)
{
    double least = 1;
    for (int i = 0; i < 8; i++) {
        double own0 = seconds(OWN), wall0 = seconds(CLOCK_MONOTONIC);
        double wall1 = seconds(CLOCK_MONOTONIC), own1 = seconds(OWN);
        double cost = (own1 - own0) - (wall1 - wall0);
        if (cost >= 0 && cost < least) least = cost;
    }
    return least < 1 ? least : 0;
}

/* Floating point of this thread as a kernel may leave it: how to read it, what it was before the first visit, and the
 * first visit that left it otherwise, -1 where none did. */
enum { WORDS = 3 };
typedef struct {
    void (*read)(uint64_t *words);
    uint64_t before[WORDS];
    int64_t changed_at;
} floating;

static int changed(const floating *f)
{
    uint64_t now[WORDS];
    f->read(now);
    return memcmp(now, f->before, sizeof now) != 0;
}

/* wall, cpu: seconds of each visit, all its launches together. more: its untimed launches beyond its case's. queued:
 * what a visit can have lost to others, by `begin` and `end` of run_queue.c; none where the contest has several threads.
 * running: the label of the entry under way, which identifies a crash. stop: set by an entry that cannot
 * go on. w: verified launches, sorted by visit and launch, ended by one of no visit. argument: where it
 * is for all cases. cost: seconds of cpu's clock itself, once a piece of a visit. f: compared after each visit, since
 * what one case leaves would be the next one's; the look ends there. */
void run_look(const entry *entries, int64_t visits, const int32_t *which, const int32_t *more, const int64_t *start,
              const int64_t *addresses, double *wall, double *cpu, double *queued, int64_t (*begin)(void),
              double (*end)(int64_t), volatile int32_t *running, const volatile int32_t *stop, const witness *w,
              char *argument, double cost, floating *f)
{
    f->changed_at = -1;
    f->read(f->before);
    for (int64_t v = 0; v < visits; v++) {
        const entry here = entries[which[v]], *e = &here; /* it too is read by every launch */
        const int64_t *at = addresses + start[v];
        span s = {0, 0, 0};
        *running = (int32_t)e->label;
        memcpy(argument, e->argument, (size_t)e->argument_bytes);
        place(e, argument, at);
        if (begin) begin();
        for (int64_t i = -more[v]; i < e->warm; i++) e->single(argument + e->single_offset);
        int64_t before = begin ? begin() : 0; /* reads again where these took long */
        int64_t done = 0;
        for (; w->visit == v; w++) {
            if (w->launch > done) timed(e, argument, at, done, w->launch, &s);
            move(w->before, w->before_count);
            timed(e, argument, at, w->launch, w->launch + 1, &s);
            move(w->behind, w->behind_count);
            done = w->launch + 1;
        }
        if (done < e->launches) timed(e, argument, at, done, e->launches, &s);
        memcpy(e->argument, argument, (size_t)e->argument_bytes); /* some kernels count in it */
        if (*stop) return;
        wall[v] = s.wall;
        double own = s.cpu - cost * (double)s.pieces;
        cpu[v] = own > 0 ? own : 0; /* fmax of the C library made 60 launches of 1 µs of AVX-512 take 5 % longer */
        queued[v] = end && s.wall > s.cpu ? end(before) : INFINITY;
        if (changed(f)) {
            f->changed_at = v;
            return;
        }
    }
    *running = -1;
}
