/* What a kernel may leave behind in its process, as the processor and the system hold it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>

/* Floating point of this thread: how it rounds, whether it takes numbers below the normal ones for zero,
 * which exceptions would stop it. */
typedef struct {
    uint64_t rounding, flush, trap;
} floating;

#if defined(__x86_64__)
enum { ROUND = 0x6000, FLUSH = 0x8040, MASK = 0x1F80, LONG_ROUND = 0x0C00, LONG_MASK = 0x3F };

static uint32_t sse(void)
{
    uint32_t word;
    __asm__ volatile("stmxcsr %0" : "=m"(word));
    return word;
}

static uint16_t x87(void)
{
    uint16_t word;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    return word;
}

void state_floating(floating *f)
{
    f->rounding = (sse() & ROUND) | (uint64_t)(x87() & LONG_ROUND) << 32;
    f->flush = sse() & FLUSH;
    f->trap = (sse() & MASK) | (uint64_t)(x87() & LONG_MASK) << 32;
}

void state_restore(const floating *f)
{
    uint32_t word = (uint32_t)(f->rounding & ROUND) | (uint32_t)f->flush | (uint32_t)(f->trap & MASK);
    uint16_t control = (uint16_t)((x87() & ~(LONG_ROUND | LONG_MASK)) | (f->rounding >> 32) | (f->trap >> 32));
    __asm__ volatile("ldmxcsr %0" : : "m"(word));
    __asm__ volatile("fnclex; fldcw %0" : : "m"(control));
}
#elif defined(__aarch64__)
enum { ROUND = 3 << 22, FLUSH = 1 << 24 | 1 << 19, MASK = 0x9F00 };

void state_floating(floating *f)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    f->rounding = word & ROUND, f->flush = word & FLUSH, f->trap = word & MASK;
}

void state_restore(const floating *f)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    word = (word & ~(uint64_t)(ROUND | FLUSH | MASK)) | f->rounding | f->flush | f->trap;
    __asm__ volatile("msr fpcr, %0" : : "r"(word));
}
#else
void state_floating(floating *f) { memset(f, 0, sizeof *f); }
void state_restore(const floating *f) { (void)f; }
#endif

/* How a signal is handled. */
typedef struct {
    void (*function)(int);
    int64_t flags;
} handler;

enum { OURS = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER };

static handler of(int number)
{
    struct sigaction now;
    memset(&now, 0, sizeof now);
    sigaction(number, 0, &now);
    return (handler){now.sa_handler, now.sa_flags & (int)OURS};
}

void state_handlers(const int32_t *signals, int64_t count, handler *kept)
{
    for (int64_t i = 0; i < count; i++) kept[i] = of(signals[i]);
}

/* Puts back those that are handled otherwise by now. */
void state_handle(const int32_t *signals, int64_t count, const handler *kept)
{
    for (int64_t i = 0; i < count; i++) {
        handler now = of(signals[i]);
        struct sigaction then;
        if (now.function == kept[i].function && now.flags == kept[i].flags) continue;
        memset(&then, 0, sizeof then);
        then.sa_handler = kept[i].function;
        then.sa_flags = (int)kept[i].flags;
        sigaction(signals[i], &then, 0);
    }
}
