/* y = y/2 + x over rows of two matrices, and two ways to take them out of the caches. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>

enum { LINE = 64, CHUNK = 4096 };

typedef struct {
    const float *x;
    float *y;
    int64_t count, rows, passes, sweep;
    volatile char **swept; /* where what is read to sweep lies, mapped at the first need */
} argument;

void saxpy(const argument *a)
{
    for (int64_t pass = 0; pass < a->passes; pass++) {
        int64_t at = pass % a->rows * a->count;
        const float *x = a->x + at;
        float *y = a->y + at;
        for (int64_t i = 0; i < a->count; i++) y[i] = 0.5f * y[i] + x[i];
    }
}

static void flush(const char *from, int64_t size)
{
    for (const char *p = (const char *)((uintptr_t)from & -(uintptr_t)LINE); p < from + size; p += LINE) {
#if defined(__CLFLUSHOPT__)
        __builtin_ia32_clflushopt((void *)p);
#elif defined(__x86_64__)
        __builtin_ia32_clflush(p);
#elif defined(__aarch64__)
        __asm__ volatile("dc civac, %0" ::"r"(p) : "memory");
#endif
    }
}

int32_t flushes(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
    return 1;
#else
    return 0;
#endif
}

/* Untimed, before a visit. */
void warm_ready(const argument *a) { saxpy(a); }

void flushed_ready(const argument *a)
{
    int64_t size = a->rows * a->count * (int64_t)sizeof(float);
    flush((const char *)a->x, size);
    flush((const char *)a->y, size);
    __sync_synchronize();
}

void swept_ready(const argument *a)
{
    if (!*a->swept) {
        char *block =
            mmap(0, (size_t)a->sweep, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) return;
        madvise(block, (size_t)a->sweep, MADV_HUGEPAGE);
        for (int64_t i = 0; i < a->sweep; i += CHUNK) block[i] = 1; /* untouched, all would be one page */
        *a->swept = block;
    }
    for (int64_t i = 0; i < a->sweep; i += LINE) (void)(*a->swept)[i];
}

void release(argument *a)
{
    if (*a->swept) munmap((void *)*a->swept, (size_t)a->sweep);
    *a->swept = 0;
}
