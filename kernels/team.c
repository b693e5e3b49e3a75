/* A job done by several threads that are always the same ones, each on a core of its own: the ceilings of several
 * threads. Whoever calls is a member too. Between two jobs that follow at once the others spin, so that a start costs a
 * microsecond; after SPIN they sleep, so as not to disturb what is measured next. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* `part` does one slice, as `member`. Each member has `slices` of its own, which it goes through `passes` times; who is
 * done with its own takes those of others, so that a core that was taken away, or is a slower one, does not decide the
 * time. `done` sums up. The kernel's own fields follow. */
typedef struct {
    void (*part)(const void *plan, int64_t member, int64_t slice);
    void (*done)(const void *plan, int64_t passes);
    int64_t members, slices, passes;
} team_plan;

enum { MOST = 1024, SPIN = 30000 /* nanoseconds */, GLANCE = 64, BITS = 16 };

typedef struct {
    _Alignas(128) _Atomic int64_t taken; /* slices of a member that somebody has begun */
} counter;

static counter counters[MOST];
static int cores[MOST]; /* of each member */
static pthread_t threads[MOST];
static int64_t size = 1; /* members there are, the caller among them */
static const team_plan *job;
static int64_t job_passes;
static _Atomic uint64_t turn; /* the job's number and how many are in it, in one word: nobody reads half of a change */
static _Atomic int64_t working;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void rest(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void work(int64_t member)
{
    const team_plan *p = job;
    int64_t each = p->slices * job_passes;
    p->part(p, member, member * p->slices); /* the first of its own is nobody else's: every member does one */
    for (int64_t k = 0; k < p->members; k++) {
        int64_t owner = (member + k) % p->members, i;
        while ((i = atomic_fetch_add_explicit(&counters[owner].taken, 1, memory_order_relaxed)) < each)
            p->part(p, member, owner * p->slices + i % p->slices);
    }
}

static uint64_t next_turn(uint64_t seen)
{
    uint64_t here;
    for (int64_t end = now() + SPIN; now() < end;)
        for (int i = 0; i < GLANCE; i++) {
            if ((here = atomic_load_explicit(&turn, memory_order_acquire)) != seen) return here;
            rest();
        }
    pthread_mutex_lock(&lock);
    while ((here = atomic_load_explicit(&turn, memory_order_acquire)) == seen) pthread_cond_wait(&begun, &lock);
    pthread_mutex_unlock(&lock);
    return here;
}

static void *member_main(void *number)
{
    int64_t member = (intptr_t)number;
    uint64_t seen = 0;
    for (;;) {
        seen = next_turn(seen);
        if (member >= (int64_t)(seen & ((1 << BITS) - 1))) continue;
        work(member);
        if (atomic_fetch_sub_explicit(&working, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&lock);
            pthread_cond_signal(&ended);
            pthread_mutex_unlock(&lock);
        }
    }
    return 0;
}

static void pin(int64_t member)
{
#if defined(__linux__)
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cores[member], &one);
    pthread_setaffinity_np(threads[member], sizeof one, &one);
#else
    (void)member;
#endif
}

/* The caller may be moved among its cores: a member on the one where it is goes to the one that it left. */
static void make_way(void)
{
#if defined(__linux__)
    int here = sched_getcpu(), left = cores[0];
    if (here == left) return;
    for (int64_t i = 1; i < size; i++)
        if (cores[i] == here) {
            cores[0] = here, cores[i] = left;
            pin(i);
            return;
        }
    cores[0] = here;
#endif
}

/* Cores that this thread may run on, in order; 0 where the system does not tell. */
static int64_t allowed(int *found)
{
    int64_t count = 0;
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 0;
    for (int core = 0; core < CPU_SETSIZE && count < MOST; core++)
        if (CPU_ISSET(core, &set)) found[count++] = core;
#else
    (void)found;
#endif
    return count;
}

/* A team of so many, each on a core of its own of those that this thread may run on; whether there is one. */
int32_t team_gather(int64_t members)
{
    int list[MOST];
    if (members > MOST || members > allowed(list)) return 0;
    if (size == 1) cores[0] = list[0];
    for (; size < members; size++) {
        cores[size] = list[size];
        if (pthread_create(&threads[size], 0, member_main, (void *)(intptr_t)size)) return 0;
        pin(size);
    }
    return 1;
}

static void run(const team_plan *p, int64_t passes)
{
    job = p, job_passes = passes;
    make_way();
    for (int64_t i = 0; i < p->members; i++) atomic_store_explicit(&counters[i].taken, 1, memory_order_relaxed);
    atomic_store_explicit(&working, p->members - 1, memory_order_relaxed);
    pthread_mutex_lock(&lock);
    uint64_t number = (atomic_load_explicit(&turn, memory_order_relaxed) >> BITS) + 1;
    atomic_store_explicit(&turn, number << BITS | (uint64_t)p->members, memory_order_release);
    pthread_cond_broadcast(&begun);
    pthread_mutex_unlock(&lock);
    work(0);
    for (int64_t end = now() + SPIN; atomic_load_explicit(&working, memory_order_acquire) && now() < end;) rest();
    pthread_mutex_lock(&lock);
    while (atomic_load_explicit(&working, memory_order_acquire)) pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
    if (p->done) p->done(p, passes);
}

void team_run(const team_plan *p) { run(p, p->passes); }

/* The same work on the same memory, as little of it as every slice takes: wakes the members. */
void team_wake(const team_plan *p) { run(p, 1); }
