/* Read, copy and triad over contiguous floats; no non-temporal stores, so that a cached array stays cached. */
#include <stdint.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { STREAMS = 4 };

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));

typedef struct {
    const float *a, *b;
    float *y;
    int64_t count;
} argument;

typedef struct {
    const float *a;
    float *y;
    int64_t count, again;
} read_argument;

/* Four streams at once, as most kernels have: one alone leaves the prefetchers idle. */
#define EACH_OF_FOUR(DO) \
    for (int64_t i = 0; i < part; i += 2 * LANES) \
        for (int s = 0; s < STREAMS; s++) { \
            DO(2 * s, *(const vec *)(a + s * part + i)) \
            DO(2 * s + 1, *(const vec *)(a + s * part + i + LANES)) \
        }

#if defined(__aarch64__)
#define REGISTER "w"
#else
#define REGISTER "x"
#endif
#define SUM(at, value) sum[at] += value;
#define TOUCH(at, value) __asm__ volatile("" ::REGISTER(value)); /* read, and nothing else */

static float sum_of(const float *a, int64_t count)
{
    vec sum[2 * STREAMS] = {{0}};
    int64_t part = count / STREAMS / (2 * LANES) * (2 * LANES), done = STREAMS * part;
    EACH_OF_FOUR(SUM)
    for (; done + LANES <= count; done += LANES) sum[0] += *(const vec *)(a + done);
    float total = 0;
    for (; done < count; done++) total += a[done];
    for (int s = 1; s < 2 * STREAMS; s++) sum[0] += sum[s];
    for (int l = 0; l < LANES; l++) total += sum[0][l];
    return total;
}

/* Several times: of a little, to sum up the sums takes longer than to read it. */
static float read_again(const float *a, int64_t count, int64_t again)
{
    int64_t part = count / STREAMS / (2 * LANES) * (2 * LANES);
    for (; again > 1; again--) {
        EACH_OF_FOUR(TOUCH)
        for (int64_t i = STREAMS * part; i < count; i++) TOUCH(0, a[i])
    }
    return sum_of(a, count);
}

void stream_read(const read_argument *p) { *p->y = read_again(p->a, p->count, p->again); }

/* The same by a team (kernels/team.c): a slice is `length` floats, each read `again` times. A member's sum has a cache
 * line to itself. */
enum { APART = 16 };

typedef struct {
    void *team[2];
    int64_t members, slices, passes;
    const float *a;
    float *y;
    double *sums;
    int64_t count, length, again;
} shared_argument;

void stream_read_part(const shared_argument *p, int64_t member, int64_t slice)
{
    int64_t first = slice * p->length, left = p->count - first;
    int64_t length = left < 0 ? 0 : left < p->length ? left : p->length;
    p->sums[APART * member] += read_again(p->a + first, length, p->again);
}

void stream_read_done(const shared_argument *p, int64_t passes)
{
    double total = 0;
    for (int64_t i = 0; i < p->members; i++) {
        total += p->sums[APART * i];
        p->sums[APART * i] = 0;
    }
    *p->y = (float)(total / (double)passes);
}

/* Between the first and the second cache `rep movsb` fetches no line that it is to overwrite: on Zen 5 1.3 to 1.7
 * times as fast as loads and stores, which win below, and above where it drops to 0.6. */
enum { STRING_FROM = 28 << 10, STRING_TO = 1 << 20 };

static int string_moves;

__attribute__((constructor)) static void ask_for_string_moves(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    string_moves = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 9 & 1; /* ERMS */
#endif
}

static void move_string(float *y, const float *x, int64_t size)
{
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(y), "+S"(x), "+c"(size)::"memory");
#else
    (void)y, (void)x, (void)size;
#endif
}

void stream_copy(const argument *p)
{
    int64_t i = 0, size = 4 * p->count;
    if (string_moves && size > STRING_FROM && size <= STRING_TO) {
        move_string(p->y, p->a, size);
        return;
    }
    for (; i + 4 * LANES <= p->count; i += 4 * LANES)
        for (int s = 0; s < 4; s++) *(vec *)(p->y + i + s * LANES) = *(const vec *)(p->a + i + s * LANES);
    for (; i < p->count; i++) p->y[i] = p->a[i];
}

void stream_triad(const argument *p)
{
    int64_t i = 0;
    for (; i + 4 * LANES <= p->count; i += 4 * LANES)
        for (int s = 0; s < 4; s++) {
            int64_t at = i + s * LANES;
            *(vec *)(p->y + at) = *(const vec *)(p->a + at) + 3.0f * *(const vec *)(p->b + at);
        }
    for (; i < p->count; i++) p->y[i] = p->a[i] + 3.0f * p->b[i];
}
