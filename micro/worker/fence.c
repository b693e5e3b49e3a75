/* Distinguishes a crash at a fence, the unreadable pages around operands, from any other. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>

static const int64_t *low, *high; /* of each fenced stretch of addresses, its fences included */
static int64_t count;
static volatile int32_t *flag; /* gets `word` when a fence is hit */
static int32_t word;
static struct sigaction before[2];

static void hit(int number, siginfo_t *info, void *context)
{
    int64_t at = (int64_t)info->si_addr;
    for (int64_t i = 0; i < count; i++)
        if (at >= low[i] && at < high[i]) *flag = word;
    (void)context;
    signal(number, SIG_DFL); /* the access is made again, and ends the process */
}

void fence_watch(const int64_t *lows, const int64_t *highs, int64_t stretches, volatile int32_t *cell, int32_t value)
{
    struct sigaction action = {.sa_sigaction = hit, .sa_flags = SA_SIGINFO};
    low = lows, high = highs, count = stretches, flag = cell, word = value;
    sigaction(SIGSEGV, &action, before);
    sigaction(SIGBUS, &action, before + 1);
}

void fence_leave(void)
{
    sigaction(SIGSEGV, before, 0);
    sigaction(SIGBUS, before + 1, 0);
    count = 0;
}
