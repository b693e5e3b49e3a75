/* shim.h under ThreadSanitizer (g++ -fsanitize=thread), as a program: each CUDA thread is a thread to TSan, though
 * they take turns. TSan goes by who has waited for whom, not by what happened to come first: two accesses to one
 * address, one of them a write, are a race unless a barrier lies between, in whichever order they ran. Threads of a
 * block are ordered by __syncthreads, lanes of a warp by __syncwarp, two blocks in a row by nothing, launches by
 * their end. */
#pragma once
#define SHIM_THREADS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

extern "C" { /* of libtsan: sanitizer/tsan_interface.h, and what a virtual machine for Java calls */
void *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_set_fiber_name(void *fiber, const char *name);
void *__tsan_get_current_fiber();
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_read_range(void *address, unsigned long size);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
void __tsan_java_init(uintptr_t heap, uintptr_t size);
void __tsan_java_alloc(uintptr_t at, uintptr_t size);
void __tsan_java_free(uintptr_t at, uintptr_t size);
}

namespace threads {

enum { GATES = 1 << 16, UNORDERED = 1 /* a switch after which nobody has waited for anybody */ };

/* An address for each rendezvous: whoever passes has before it what all did who came to it. */
typedef uint64_t *Gate;
static uint64_t gates[GATES];
static Gate before, end; /* of the launch */
static unsigned used, block_of_launch;

static void *scheduler, **thread_of;
static std::vector<void *> made[2]; /* for even and for odd blocks: a thread of TSan's takes a millisecond to make */

static Gate fresh_gate() { return &gates[used++ % GATES]; }

/* Around the shim's own variables, which are no business of TSan's. */
struct Inside {
    Gate gate = nullptr;
    Inside() { __tsan_ignore_thread_begin(); }
    void meets(Gate g) { gate = g, __tsan_release(g); }
    ~Inside()
    {
        __tsan_ignore_thread_end();
        if (gate) __tsan_acquire(gate);
    }
};

/* From inside: what an instruction reads of the kernel's memory. */
static void reads(char *place, size_t size)
{
    __tsan_ignore_thread_end();
    __tsan_read_range(place, size);
    __tsan_ignore_thread_begin();
}

/* No function may begin or end between a switch and its swapcontext: TSan keeps a call stack of each thread. */
#define IN_PLACE static inline __attribute__((always_inline))
IN_PLACE void enter(int i) { __tsan_switch_to_fiber(thread_of[i], UNORDERED); }
IN_PLACE void leave()
{
    if (__tsan_get_current_fiber() != scheduler) __tsan_switch_to_fiber(scheduler, UNORDERED);
}

static void begin_thread() { __tsan_acquire(before); }
static void end_thread() { __tsan_release(end); }

static void begin_launch()
{
    before = end, end = fresh_gate();
    block_of_launch = 0;
}

/* Neither its stacks nor its shared memory are those of the block before it, though they lie where those lay. */
static void forget(char *stacks, size_t size, char *shared, char *stop)
{
    mmap(stacks, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    uintptr_t begin = (uintptr_t)shared / 8 * 8, length = ((uintptr_t)stop + 7) / 8 * 8 - begin;
    if (!length) return;
    static bool known;
    if (!known) __tsan_java_init(begin, length);
    else __tsan_java_free(begin, length);
    known = true;
    __tsan_java_alloc(begin, length);
}

static void begin_block(int count, char *stacks, size_t stack, char *shared, char *stop)
{
    std::vector<void *> &threads = made[block_of_launch % 2];
    forget(stacks, count * stack, shared, stop);
    while ((int)threads.size() < count) threads.push_back(__tsan_create_fiber(UNORDERED));
    for (int i = 0; i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "block %u, thread %d", block_of_launch, i);
        __tsan_set_fiber_name(threads[i], name);
    }
    thread_of = threads.data();
    block_of_launch++;
}

} // namespace threads

#include "shim.h"

namespace threads {

typedef const char *Entry(const unsigned *grid, const unsigned *block, int backward, void **arguments, int given);

/* One launch of the plan; `at` moves behind it. Of an argument there are two words: whether it is a place in the
 * image, and the place, or the value. */
static const char *launch(const std::vector<Entry *> &entries, const uint64_t *&at, char *image, bool backward)
{
    Entry *entry = entries[*at++];
    unsigned grid[3], block[3];
    for (unsigned &extent : grid) extent = *at++;
    for (unsigned &extent : block) extent = *at++;
    std::vector<uint64_t> values(*at++);
    std::vector<void *> places;
    for (uint64_t &value : values) {
        value = at[0] ? (uint64_t)(uintptr_t)(image + at[1]) : at[1];
        at += 2, places.push_back(&value);
    }
    begin_launch();
    return entry(grid, block, backward, places.data(), places.size());
}

/* A file in memory; what is written there is written to it. */
static char *map(const char *name)
{
    struct stat about;
    int file = open(name, O_RDWR);
    if (file < 0 || fstat(file, &about)) return (char *)MAP_FAILED;
    return (char *)mmap(nullptr, about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

/* program PLAN IMAGE: the launches that the plan tells, on the operands in the image. Tells of each launch that it
 * begins, and of the first that fails, why. */
static int program(char **files, const std::vector<Entry *> &entries)
{
    char *plan = map(files[1]), *image = map(files[2]);
    if (plan == MAP_FAILED || image == MAP_FAILED) return perror("plan or image"), 2;
    const uint64_t *at = (const uint64_t *)plan;
    const char *wrong = nullptr;
    scheduler = __tsan_get_current_fiber();
    __tsan_ignore_thread_begin();
    before = end = fresh_gate();
    for (uint64_t left = *at++; left && !wrong; left--) {
        uint64_t number = *at++, backward = *at++;
        printf("%d\n", (int)number), fflush(stdout);
        wrong = launch(entries, at, image, backward);
    }
    if (wrong) fprintf(stderr, "%s\n", wrong);
    __tsan_ignore_thread_end();
    return wrong ? 1 : 0;
}

} // namespace threads
