/* CUDA C on a CPU, to test what a kernel computes: g++ -x c++ with this file in front of a .cu. Each thread
 * of a block is a fiber (ucontext), run until it waits; blocks run one after another. Barriers and shuffles
 * are rendezvous that count arrivals: nobody passes before the last has come. Shared memory starts each
 * block as NaN. Errors end the launch with a line of text. It knows nothing of speed, and of races only what a
 * switch at a barrier shows: threads.h includes it to tell ThreadSanitizer the rest. */
#pragma once
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <utility>
#include <sys/mman.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline)) /* TSan overlooks a struct passed by value to a call */
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("shared_memory")))
#define __isGlobal(at) true
#define __builtin_assume(what) ((void)0)

struct dim3 { unsigned x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static dim3 threadIdx, blockIdx, blockDim, gridDim;
static inline unsigned __float_as_uint(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float __uint_as_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline double __hiloint2double(int high, int low)
{
    uint64_t bits = (uint64_t)(unsigned)high << 32 | (unsigned)low;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The bounds of all shared variables of the file: made by the linker where there are any. */
extern "C" char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));

#ifndef SHIM_THREADS /* threads.h has these for ThreadSanitizer: who runs, and who has waited for whom */
namespace threads {
struct Gate {};
struct Inside { void meets(Gate) {} };
static inline Gate fresh_gate() { return {}; }
static inline void begin_block(int, char *, size_t, char *, char *) {}
static inline void begin_thread() {}
static inline void end_thread() {}
static inline void reads(char *, size_t) {}
static inline void enter(int) {}
static inline void leave() {}
} // namespace threads
#endif

namespace shim {

enum State { READY, AT_BARRIER, AT_WARP, DONE };
enum { MOST = 1024, WARP = 32, STACK = 1 << 16 };

struct Fiber { ucontext_t context; State state; dim3 index; int line; };

/* A warp's rendezvous. Two sets of slots: a fast lane fills the next before a slow one has read the last. */
struct Warp { unsigned arrived, mask, generation; float slot[2][WARP]; threads::Gate gate; };

static Fiber fibers[MOST];
static Warp warps[MOST / WARP];
static ucontext_t scheduler;
static sigjmp_buf aborted;
static char *stacks, message[200];
static int count, current, alive, waiting, line_of_barrier;
static void (*body)(void *);
static void (*at_block)(), (*at_barrier)(); /* what else happens where a block begins, where its barrier is passed */
static void *closure;
static threads::Gate gate_of_barrier;

[[noreturn]] static void fail(const char *text, int first = 0, int second = 0)
{
    threads::Inside inside;
    snprintf(message, sizeof message, text, first, second);
    threads::leave();
    siglongjmp(aborted, 1);
}

static void sleep_as(State state)
{
    fibers[current].state = state;
    threads::leave();
    swapcontext(&fibers[current].context, &scheduler);
}

static void release_block()
{
    if (at_barrier) at_barrier();
    for (int i = 0; i < count; i++)
        if (fibers[i].state == AT_BARRIER) fibers[i].state = READY;
    waiting = 0;
}

/* All threads that have not returned, as on sm_70 and later; all of them at one line. */
static void barrier(int line)
{
    threads::Inside inside;
    if (waiting == 0) line_of_barrier = line, gate_of_barrier = threads::fresh_gate();
    inside.meets(gate_of_barrier);
    if (line != line_of_barrier) fail("threads of a block wait at different barriers: lines %d and %d", line_of_barrier, line);
    fibers[current].line = line;
    if (++waiting < alive) return sleep_as(AT_BARRIER);
    release_block();
}

static unsigned live_lanes(int warp)
{
    unsigned lanes = 0;
    for (int i = warp * WARP; i < count && i < (warp + 1) * WARP; i++)
        if (fibers[i].state != DONE) lanes |= 1u << i % WARP;
    return lanes;
}

/* Gives `value`, waits for every lane of the mask, takes what lane `from` gave. Only where it `orders` is memory
 * written before it there to be read after it: PTX promises that of bar.warp.sync, and not of shfl.sync. */
static float exchange(unsigned mask, float value, int from, bool orders = false)
{
    threads::Inside inside;
    Warp &w = warps[current / WARP];
    int lane = current % WARP;
    if (!(mask >> lane & 1)) fail("lane %d is not in its own mask", lane);
    if (mask & ~live_lanes(current / WARP)) fail("warp %d: its mask names a lane that has returned", current / WARP);
    if (w.arrived && w.mask != mask) fail("warp %d: its lanes name different masks", current / WARP);
    if (orders && !w.arrived) w.gate = threads::fresh_gate();
    if (orders) inside.meets(w.gate);
    float *slot = w.slot[w.generation % 2];
    slot[lane] = value, w.mask = mask, w.arrived |= 1u << lane;
    if (w.arrived != mask) sleep_as(AT_WARP);
    else {
        w.arrived = 0, w.generation++;
        for (int i = current / WARP * WARP; i < count && i < (current / WARP + 1) * WARP; i++)
            if (fibers[i].state == AT_WARP) fibers[i].state = READY;
    }
    if (!(mask >> from & 1)) fail("lane %d reads lane %d, which is not in the mask", lane, from);
    return slot[from];
}

static void run_fiber()
{
    threads::begin_thread();
    body(closure);
    {
        threads::Inside inside;
        fibers[current].state = DONE;
        if (--alive && waiting == alive) release_block();
    }
    threads::end_thread();
    threads::leave();
    swapcontext(&fibers[current].context, &scheduler);
}

static void start(int i)
{
    Fiber &f = fibers[i];
    f.state = READY;
    f.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
    f.context.uc_stack.ss_size = STACK;
    makecontext(&f.context, run_fiber, 0);
}

/* `backward`: the last thread goes first. A race that one order hides the other may show. */
static void run_block(bool backward)
{
    if (&__start_shared_memory[0] != nullptr)
        memset(__start_shared_memory, 0xff, __stop_shared_memory - __start_shared_memory);
    memset(warps, 0, sizeof warps);
    if (at_block) at_block();
    alive = count, waiting = 0;
    threads::begin_block(count, stacks, STACK, __start_shared_memory, __stop_shared_memory);
    for (int i = 0; i < count; i++) start(i);
    while (alive) {
        bool moved = false;
        for (int s = 0; s < count; s++) {
            current = backward ? count - 1 - s : s;
            if (fibers[current].state != READY) continue;
            moved = true, threadIdx = fibers[current].index;
            threads::enter(current);
            swapcontext(&scheduler, &fibers[current].context);
        }
        if (!moved) fail("%d of %d threads wait for ever", alive, count);
    }
}

static void on_signal(int signal)
{
    fail(signal == SIGILL ? "an index outside its array, a misaligned address, or an overflow"
                          : "an address outside every operand");
}

static void run_grid(bool backward)
{
    stacks = (char *)mmap(nullptr, (size_t)MOST * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) run_block(backward);
}

/* Runs the grid; returns what went wrong, or nullptr. */
static const char *launch(const unsigned *grid, const unsigned *block, bool backward, void (*f)(void *), void *x)
{
    static char alternate[1 << 16];
    const int signals[] = {SIGILL, SIGSEGV, SIGBUS};
    struct sigaction before[3], ours = {};
    stack_t stack = {}, old;
    gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block[0], block[1], block[2]};
    if ((uint64_t)block[0] * block[1] * block[2] > MOST) return "a block has at most 1024 threads";
    count = block[0] * block[1] * block[2], body = f, closure = x;
    stack.ss_sp = alternate, stack.ss_size = sizeof alternate;
    sigaltstack(&stack, &old);
    ours.sa_handler = on_signal, ours.sa_flags = SA_ONSTACK;
    for (int s = 0; s < 3; s++) sigaction(signals[s], &ours, &before[s]);
    message[0] = 0;
    if (!sigsetjmp(aborted, 1)) run_grid(backward);
    for (int s = 0; s < 3; s++) sigaction(signals[s], &before[s], nullptr);
    sigaltstack(&old, nullptr);
    munmap(stacks, (size_t)MOST * STACK);
    return message[0] ? message : nullptr;
}

template <typename... P> struct Call { void (*kernel)(P...); void **arguments; };

template <typename... P, size_t... I> void unpack(Call<P...> *c, std::index_sequence<I...>)
{
    c->kernel(*(std::remove_const_t<P> *)c->arguments[I]...);
}

template <typename... P> void call(void *c)
{
    unpack((Call<P...> *)c, std::index_sequence_for<P...>());
}

template <typename... P>
const char *invoke(void (*kernel)(P...), const unsigned *grid, const unsigned *block, bool backward, void **arguments,
                   int given)
{
    if (given != sizeof...(P)) return "another number of arguments than the kernel has";
    Call<P...> c = {kernel, arguments};
    return launch(grid, block, backward, call<P...>, &c);
}

} // namespace shim

#define __syncthreads() shim::barrier(__LINE__)

static inline float __shfl_down_sync(unsigned mask, float value, unsigned delta, int width = shim::WARP)
{
    int lane = shim::current % shim::WARP, from = lane + (int)delta;
    return shim::exchange(mask, value, lane % width + (int)delta < width ? from : lane);
}

static inline float __shfl_xor_sync(unsigned mask, float value, int with)
{
    return shim::exchange(mask, value, shim::current % shim::WARP ^ with);
}

static inline void __syncwarp(unsigned mask = 0xffffffff)
{
    shim::exchange(mask, 0, shim::current % shim::WARP, true);
}

/* Atomic for ThreadSanitizer: the threads of a block take turns. */
static inline float atomicAdd(float *to, float value)
{
    float old, sum;
    __atomic_load(to, &old, __ATOMIC_RELAXED);
    do sum = old + value;
    while (!__atomic_compare_exchange(to, &old, &sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

/* One entry a kernel, for ctypes: `arguments` are the addresses of its arguments, as in cuLaunchKernel. */
#define ENTRY(name) \
    extern "C" const char *launch_##name(const unsigned *grid, const unsigned *block, int backward, void **arguments, int given) \
    { return shim::invoke(name, grid, block, backward, arguments, given); }
