/* Copies of floats, buffer by buffer: through the caches, or past them by non-temporal stores, which fetch no line that
 * they are to overwrite; by one thread, or by a team (kernels/team.c), each buffer by all of it. */
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#define STREAM(at, value) _mm512_stream_ps(at, (__m512)(value))
#elif defined(__AVX__)
enum { LANES = 8 };
#define STREAM(at, value) _mm256_stream_ps(at, (__m256)(value))
#elif defined(__x86_64__)
enum { LANES = 4 };
#define STREAM(at, value) _mm_stream_ps(at, (__m128)(value))
#else
enum { LANES = 4 };
#endif
enum { AT_ONCE = 4, LINE = 64 };
/* Past the caches so many pages in turn, so many floats of each, as the C library's memcpy copies what is large (glibc:
 * large_memcpy_4x): several pages are fetched ahead at once, where page after page leaves memory waiting. */
enum { PAGES = 4, PAGE = 1024, TURN = 64 };

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));

typedef struct {
    const float *x;
    float *y;
    const int64_t *lengths; /* of each buffer */
    int64_t buffers, past;  /* past: the caches */
} argument;

/* Whether there are stores past the caches here. */
int32_t transfer_streams(void)
{
#if defined(STREAM)
    return 1;
#else
    return 0;
#endif
}

static int64_t plain(float *y, const float *x, int64_t count)
{
    int64_t i = 0;
    for (; i + AT_ONCE * LANES <= count; i += AT_ONCE * LANES)
        for (int s = 0; s < AT_ONCE; s++) *(vec *)(y + i + s * LANES) = *(const vec *)(x + i + s * LANES);
    return i;
}

#if defined(STREAM)
static int64_t past(float *y, const float *x, int64_t count)
{
    int64_t i = -(uintptr_t)y % LINE / sizeof *y; /* a line begins there */
    if (i >= count) return 0;
    for (int64_t j = 0; j < i; j++) y[j] = x[j];
    for (; i + PAGES * PAGE <= count; i += PAGES * PAGE)
        for (int64_t j = i; j < i + PAGE; j += TURN)
            for (int64_t p = j; p < j + PAGES * PAGE; p += PAGE)
                for (int s = 0; s < TURN; s += LANES) STREAM(y + p + s, *(const vec *)(x + p + s));
    for (; i + AT_ONCE * LANES <= count; i += AT_ONCE * LANES)
        for (int s = 0; s < AT_ONCE; s++) STREAM(y + i + s * LANES, *(const vec *)(x + i + s * LANES));
    return i;
}
#endif

static void copy(float *y, const float *x, int64_t count, int64_t around)
{
#if defined(STREAM)
    int64_t i = around ? past(y, x, count) : plain(y, x, count);
    if (around) _mm_sfence();
#else
    (void)around;
    int64_t i = plain(y, x, count);
#endif
    for (; i < count; i++) y[i] = x[i];
}

void transfer_copy(const argument *p)
{
    for (int64_t i = 0, first = 0; i < p->buffers; first += p->lengths[i++])
        copy(p->y + first, p->x + first, p->lengths[i], p->past);
}

void transfer_memcpy(const argument *p)
{
    for (int64_t i = 0, first = 0; i < p->buffers; first += p->lengths[i++])
        memcpy(p->y + first, p->x + first, 4 * p->lengths[i]);
}

/* What a team does of one buffer: slices of `length` floats. */
typedef struct {
    void *team[2];
    int64_t members, slices, passes;
    const float *x;
    float *y;
    int64_t count, length, past;
} slice_argument;

typedef struct {
    argument whole;
    void (*run)(const slice_argument *);
    int64_t members, least; /* floats of a slice, where there are more than slices for all */
} team_argument;

void transfer_part(const slice_argument *p, int64_t member, int64_t slice)
{
    (void)member;
    int64_t first = slice * p->length, left = p->count - first;
    if (left > 0) copy(p->y + first, p->x + first, left < p->length ? left : p->length, p->past);
}

void transfer_by_team(const team_argument *p)
{
    const argument *w = &p->whole;
    for (int64_t i = 0, first = 0; i < w->buffers; first += w->lengths[i++]) {
        int64_t own = (w->lengths[i] + p->members - 1) / p->members, slices = own / p->least;
        if (slices < 1) slices = 1;
        int64_t length = (own + slices - 1) / slices;
        slice_argument part = {{(void *)transfer_part, 0}, p->members, slices, 1,
                               w->x + first, w->y + first, w->lengths[i], length, w->past};
        p->run(&part);
    }
}
