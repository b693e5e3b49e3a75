/* x <- x/2 + d, `steps` times in each chain, with the widest vectors of the instruction set this file is
 * compiled for. Where it has no fused multiply-add the compiler emits a multiply and an add. */
#include <stdint.h>

#if defined(__AVX512FP16__)
typedef _Float16 number; /* only where half precision is asked for: kernels/ops/fma/problem.py */
enum { LANES = 32 };
#elif defined(FP64)
typedef double number;
#if defined(__AVX512F__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
#elif defined(__AVX512F__)
typedef float number;
enum { LANES = 16 };
#elif defined(__AVX__)
typedef float number;
enum { LANES = 8 };
#else
typedef float number;
enum { LANES = 4 };
#endif

typedef number vec __attribute__((vector_size(LANES * sizeof(number)), aligned(sizeof(number))));

typedef struct {
    const number *d;
    number *x;
    int64_t steps;
} argument;

#if defined(__aarch64__)
#define REGISTER "w"
#elif defined(__AVX512VL__)
#define REGISTER "v"
#else
#define REGISTER "x"
#endif

/* The empty statement keeps the compiler from hoisting or merging the chains. */
#define PINNED(x) __asm__ volatile("" : "+" REGISTER(x));
#define STEP(i) x##i = x##i * half + d; PINNED(x##i)
#define HALVE(i) x##i = x##i - x##i * half; PINNED(x##i)
#define ADD(i) x##i = x##i + d * one; PINNED(x##i)
#define LOAD(i) vec x##i = *(const vec *)(x + i * apart);
#define STORE(i) *(vec *)(x + i * apart) = x##i;

#define EACH1(DO) DO(0)
#define EACH10(DO) EACH1(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9)
#define EACH14(DO) EACH10(DO) DO(10) DO(11) DO(12) DO(13)
#define EACH16(DO) EACH14(DO) DO(14) DO(15)

/* Where a multiply-add can only add to one of the two that it multiplies, a step is one instruction. Arm's adds its
 * product to the register that it writes, so that a step would be a copy and a multiply-add: there every two of them
 * are x - x/2 and x + d, one instruction each. */
#if defined(__aarch64__) || defined(ACCUMULATES)
#define STEPS(EACH) \
    const vec one = d - d + (number)1; \
    for (; steps > 1; steps -= 2) { EACH(HALVE) EACH(ADD) } \
    if (steps) { EACH(STEP) }
#else
#define STEPS(EACH) \
    for (; steps > 0; steps--) { EACH(STEP) }
#endif

/* `apart`: numbers from one chain to the next. */
#define CHAINS(EACH, name) \
    static void name(const number *addend, number *x, int64_t apart, int64_t steps) \
    { \
        const vec d = *(const vec *)addend, half = d - d + (number)0.5; \
        EACH(LOAD) \
        STEPS(EACH) \
        EACH(STORE) \
    } \
    void fma_##name(const argument *p) { name(p->d, p->x, LANES, p->steps); }

CHAINS(EACH1, chains1)
CHAINS(EACH10, chains10)
CHAINS(EACH14, chains14)
#if !defined(__x86_64__) || defined(__AVX512VL__)
CHAINS(EACH16, chains16) /* with the two constants more than the sixteen registers of others */
#define MOST chains16
#else
#define MOST chains14
#endif

/* The same by each member of a team (kernels/team.c), with chains of its own: `steps` of them are a slice. */
typedef struct {
    void *team[2];
    int64_t members, slices, passes;
    const number *d;
    number *x;
    int64_t steps;
} shared_argument;

void fma_part(const shared_argument *p, int64_t member, int64_t slice)
{
    (void)slice;
    MOST(p->d + member * LANES, p->x + member * LANES, p->members * LANES, p->steps);
}
