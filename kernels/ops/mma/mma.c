/* c = steps * a * b^T in a tile that stays in registers, with the one instruction this file is compiled for: what a core
 * multiplies of coarser numbers at most. Rows of a have 4 bytes, as many as such an instruction adds up in a lane; of
 * AMX, 64. Accumulators: 16 of AVX-512, for two a cycle of latency 5 and more; 12 of AVX-VNNI, with half as many
 * registers; AMX has room for four tiles of sums beside two and two of factors, and its instructions take 16 cycles. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__AMX_TILE__)

enum { SIDE = 16, ROW = 64, TILES = 2, ROWS = TILES * SIDE, COLS = TILES * SIDE };
typedef int32_t number; /* of the sums: of bf16 they are floats, of as many bytes */

#if defined(__AMX_BF16__)
#define MULTIPLY(c, a, b) _tile_dpbf16ps(c, a, b)
#else
#define MULTIPLY(c, a, b) _tile_dpbssd(c, a, b)
#endif

enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18 };

/* Linux gives a process tiles only if it asks, before it has threads that use them. */
__attribute__((constructor)) static void ask_for_tiles(void) { syscall(SYS_arch_prctl, REQUEST, TILE_DATA); }

static void multiply(const char *a, const char *b, number *c, int64_t steps)
{
    struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    int32_t turned[TILES][SIDE][SIDE]; /* b as the instruction takes it: a row for each four bytes of depth */
    for (int t = 0; t < 8; t++) shape.bytes[t] = ROW, shape.rows[t] = SIDE;
    for (int j = 0; j < COLS; j++)
        for (int k = 0; k < SIDE; k++) memcpy(&turned[j / SIDE][k][j % SIDE], b + j * ROW + 4 * k, 4);
    __asm__ volatile("" ::"r"(&shape), "r"(turned) : "memory"); /* of a compiler whose tiles are plain assembly */
    _tile_loadconfig(&shape);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, a, ROW);
    _tile_loadd(5, a + SIDE * ROW, ROW);
    _tile_loadd(6, turned[0], ROW);
    _tile_loadd(7, turned[1], ROW);
    for (; steps > 0; steps--) {
        MULTIPLY(0, 4, 6);
        MULTIPLY(1, 4, 7);
        MULTIPLY(2, 5, 6);
        MULTIPLY(3, 5, 7);
    }
    _tile_stored(0, c, 4 * COLS);
    _tile_stored(1, c + SIDE, 4 * COLS);
    _tile_stored(2, c + SIDE * COLS, 4 * COLS);
    _tile_stored(3, c + SIDE * COLS + SIDE, 4 * COLS);
    _tile_release();
    __asm__ volatile("" ::: "memory");
}

#else

#if defined(__AVX512BF16__)
typedef __m512 sums;
typedef __m512bh factors;
typedef float number;
#define MULTIPLY(c, a, b) _mm512_dpbf16_ps(c, a, b)
#define ZERO _mm512_setzero_ps()
#define LOAD(p) ((factors)_mm512_loadu_si512(p))
#define SPREAD(x) ((factors)_mm512_set1_epi32(x))
#define REGISTER "+v"
#define EACH(DO) FOUR(DO, 0) FOUR(DO, 1) FOUR(DO, 2) FOUR(DO, 3)
enum { BLOCKS = 4, COLS = 4 };
#elif defined(__AVX512VNNI__)
typedef __m512i sums, factors;
typedef int32_t number;
#define MULTIPLY(c, a, b) _mm512_dpbusd_epi32(c, a, b)
#define ZERO _mm512_setzero_si512()
#define LOAD(p) _mm512_loadu_si512(p)
#define SPREAD(x) _mm512_set1_epi32(x)
#define REGISTER "+v"
#define EACH(DO) FOUR(DO, 0) FOUR(DO, 1) FOUR(DO, 2) FOUR(DO, 3)
enum { BLOCKS = 4, COLS = 4 };
#else
typedef __m256i sums, factors;
typedef int32_t number;
#define MULTIPLY(c, a, b) _mm256_dpbusd_avx_epi32(c, a, b)
#define ZERO _mm256_setzero_si256()
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define SPREAD(x) _mm256_set1_epi32(x)
#define REGISTER "+x"
#define EACH(DO) TWO(DO, 0) TWO(DO, 1) TWO(DO, 2) TWO(DO, 3) TWO(DO, 4) TWO(DO, 5)
enum { BLOCKS = 6, COLS = 2 };
#endif
#define TWO(DO, i) DO(i, 0) DO(i, 1)
#define FOUR(DO, i) TWO(DO, i) DO(i, 2) DO(i, 3)
enum { ROW = 4, LANES = sizeof(sums) / 4, ROWS = BLOCKS * LANES };

/* Each sum a variable: in an array they went through memory. The empty statement keeps them where they are. */
#define BEGIN(i, j) sums sum##i##j = ZERO;
#define STEP(i, j) sum##i##j = MULTIPLY(sum##i##j, left[i], right[j]); __asm__ volatile("" : REGISTER(sum##i##j));
#define STORE(i, j) store(&tile[i][j], sum##i##j);

static void store(number (*tile)[LANES], sums sum) { memcpy(tile, &sum, sizeof sum); }

static void multiply(const char *a, const char *b, number *c, int64_t steps)
{
    factors left[BLOCKS], right[COLS];
    for (int i = 0; i < BLOCKS; i++) left[i] = LOAD(a + i * LANES * ROW);
    for (int j = 0; j < COLS; j++) {
        int32_t row;
        memcpy(&row, b + j * ROW, ROW);
        right[j] = SPREAD(row);
    }
    EACH(BEGIN)
    for (; steps > 0; steps--) { EACH(STEP) }
    number tile[BLOCKS][COLS][LANES];
    EACH(STORE)
    for (int i = 0; i < BLOCKS; i++)
        for (int l = 0; l < LANES; l++)
            for (int j = 0; j < COLS; j++) *c++ = tile[i][j][l];
}

#endif

typedef struct {
    const char *a, *b;
    number *c;
    int64_t steps;
} argument;

void mma(const argument *p) { multiply(p->a, p->b, p->c, p->steps); }

/* By a team (kernels/team.c): each member rows of its own, and the whole product again in every slice. */
typedef struct {
    void *team[2];
    int64_t members, slices, passes;
    const char *a, *b;
    number *c;
    int64_t steps;
} shared_argument;

void mma_part(const shared_argument *p, int64_t member, int64_t slice)
{
    (void)slice;
    multiply(p->a + member * ROWS * ROW, p->b, p->c + member * ROWS * COLS, p->steps);
}
