/* A whole look in one call: every visit of every round in the order and at the placements handed in,
 * with nothing between the launches but the loop. */
#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>

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

/* wall, cpu: seconds of each visit, all its launches together. The processor-time clock is a system
 * call of half a microsecond and brackets the wall clock. process: time of all threads, not this one.
 * running: the label of the
 * entry under way, for whoever must say which one crashed. stop: set by an entry that cannot go on. */
void run_look(const entry *entries, int64_t visits, const int32_t *which, const int64_t *start,
              const int64_t *addresses, double *wall, double *cpu, int32_t process,
              volatile int32_t *running, const volatile int32_t *stop)
{
    clockid_t own = process ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID;
    for (int64_t v = 0; v < visits; v++) {
        const entry *e = entries + which[v];
        *running = (int32_t)e->label;
        place(e, addresses + start[v]);
        for (int64_t i = 0; i < e->warm; i++) e->single(e->argument + e->single_offset);
        double own0 = seconds(own), wall0 = seconds(CLOCK_MONOTONIC);
        if (e->step)
            rotate(e, addresses + start[v]);
        else
            for (int64_t i = 0; i < e->launches; i++) e->function(e->argument);
        double wall1 = seconds(CLOCK_MONOTONIC), own1 = seconds(own);
        if (*stop) return;
        wall[v] = wall1 - wall0;
        cpu[v] = own1 - own0;
    }
    *running = -1;
}
