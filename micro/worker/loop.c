/* A whole look in one call: every visit of every round in the order and at the placements handed in,
 * with nothing between the launches but the loop. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <time.h>

#define OWN CLOCK_PROCESS_CPUTIME_ID

/* A case: function(argument). slots: byte offsets in the argument at which the operands' addresses
 * stand. step: 0 where all launches of a visit share one placement; slots where each takes the next. */
typedef struct {
    void (*function)(void *);
    char *argument;
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

static void place(const entry *e, const int64_t *addresses)
{
    for (int64_t i = 0; i < e->slot_count; i++)
        *(int64_t *)(e->argument + e->slots[i]) = addresses[i];
}

static void rotate(const entry *e, const int64_t *addresses)
{
    for (int64_t i = 0; i < e->launches; i++, addresses += e->step) {
        place(e, addresses);
        e->function(e->argument);
    }
}

/* What a launch of nothing costs is the loop's own. */
void nothing(void *argument)
{
    (void)argument;
}

/* Seconds that a visit of nothing takes longer by the processor-time clock than by the wall, at least. */
double clock_cost(void)
{
    double least = 1;
    for (int i = 0; i < 8; i++) {
        double own0 = seconds(OWN), wall0 = seconds(CLOCK_MONOTONIC);
        double wall1 = seconds(CLOCK_MONOTONIC), own1 = seconds(OWN);
        double cost = (own1 - own0) - (wall1 - wall0);
        least = cost < least ? cost : least;
    }
    return least;
}

/* wall, cpu: seconds of each visit, all its launches together. The processor-time clock is a system
 * call of half a microsecond and brackets the wall clock; it is of all threads of the process, since a kernel's helper
 * is the kernel. queued: what a visit can have lost to others, by `begin` and `end` of run_queue.c; none where
 * the contest has several threads. running: the label of the entry under way, for whoever must say which one crashed.
 * stop: set by an entry that cannot go on. */
void run_look(const entry *entries, int64_t visits, const int32_t *which, const int64_t *start,
              const int64_t *addresses, double *wall, double *cpu, double *queued, int64_t (*begin)(void),
              double (*end)(int64_t), volatile int32_t *running, const volatile int32_t *stop)
{
    for (int64_t v = 0; v < visits; v++) {
        const entry *e = entries + which[v];
        *running = (int32_t)e->label;
        place(e, addresses + start[v]);
        if (begin) begin();
        for (int64_t i = 0; i < e->warm; i++) e->single(e->argument + e->single_offset);
        int64_t before = begin ? begin() : 0; /* reads again where these took long */
        double own0 = seconds(OWN), wall0 = seconds(CLOCK_MONOTONIC);
        if (e->step)
            rotate(e, addresses + start[v]);
        else
            for (int64_t i = 0; i < e->launches; i++) e->function(e->argument);
        double wall1 = seconds(CLOCK_MONOTONIC), own1 = seconds(OWN);
        if (*stop) return;
        wall[v] = wall1 - wall0;
        cpu[v] = own1 - own0;
        queued[v] = end && wall[v] > cpu[v] ? end(before) : INFINITY;
    }
    *running = -1;
}
