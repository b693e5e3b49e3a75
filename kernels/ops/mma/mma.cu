/* c = steps a b^T by mma.sync: every warp multiplies the same fragments, held in registers, `steps` times into
 * accumulators that start at zero. What it computes is tested on a CPU, where
 * tests/simulated/ptx.h does the documented work of each instruction; on an H100 it is right too.
 *
 * A block a multiprocessor, eight warps, two for each of its four tensor cores; a warp has 32 x 32 of c as two by
 * four tiles of 16 x 8, eight accumulators that do not wait for each other. At the rate NVIDIA states an mma.sync of
 * m16n8k16 takes a tensor core of sm_80 8 cycles, and its sum comes after some 33 (Sun et al. 2022, arXiv:2206.02874):
 * of sixteen in flight five would do. On sm_90 it is no peak: mma.sync reaches some 62 % there (Luo et al. 2024,
 * arXiv:2402.13499).
 *
 * A row of a or b is one instruction's depth, 32 bytes of whatever type: eight words, of which a lane holds word
 * t = lane % 4 and word t + 4 of its rows (PTX ISA, "Matrix fragments for mma.m16n8k16" and ".m16n8k8"). So all
 * types share one way of loading. */

typedef long long index_t;

enum { WARP = 32, WARPS = 8, THREADS = WARP * WARPS, WORDS = 8, UNROLL = 8 };
enum { DOWN = 2, ALONG = 4, TILE_ROWS = 16, TILE_COLS = 8, ROWS = DOWN * TILE_ROWS, COLS = ALONG * TILE_COLS };
enum Type { TF32, BF16, FP16 };

#define MULTIPLY(instruction)                                                                                    \
    asm volatile(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                  \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <Type> static __device__ __forceinline__ void multiply(float *c, const unsigned *a, const unsigned *b);

template <> __device__ __forceinline__ void multiply<TF32>(float *c, const unsigned *a, const unsigned *b)
{
    MULTIPLY("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
}

template <> __device__ __forceinline__ void multiply<BF16>(float *c, const unsigned *a, const unsigned *b)
{
    MULTIPLY("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
}

template <> __device__ __forceinline__ void multiply<FP16>(float *c, const unsigned *a, const unsigned *b)
{
    MULTIPLY("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
}

/* A word of an operand; of float32, rounded to what TF32 holds. */
template <Type T> static __device__ __forceinline__ unsigned fetch(const unsigned *from)
{
    unsigned word = *from;
    if (T == TF32) asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(__uint_as_float(word)));
    return word;
}

template <Type T> static __device__ __forceinline__ void step(float (*c)[ALONG][4], unsigned (*a)[4], unsigned (*b)[2])
{
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
        for (int j = 0; j < ALONG; j++) multiply<T>(c[i][j], a[i], b[j]);
}

template <Type T>
static __device__ __forceinline__ void products(const unsigned *__restrict__ a, const unsigned *__restrict__ b,
                                                float *__restrict__ c, index_t steps)
{
    unsigned lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, left[DOWN][4], right[ALONG][2];
    index_t first = ((index_t)blockIdx.x * WARPS + threadIdx.x / WARP) * ROWS + g;
    float sum[DOWN][ALONG][4] = {};
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
        for (int r = 0; r < 4; r++)
            left[i][r] = fetch<T>(a + (first + TILE_ROWS * i + r % 2 * 8) * WORDS + t + r / 2 * 4);
#pragma unroll
    for (int j = 0; j < ALONG; j++)
#pragma unroll
        for (int r = 0; r < 2; r++) right[j][r] = fetch<T>(b + (TILE_COLS * j + g) * WORDS + t + r * 4);
#pragma unroll 1
    for (unsigned rounds = steps / UNROLL; rounds; rounds--)
#pragma unroll
        for (int s = 0; s < UNROLL; s++) step<T>(sum, left, right);
#pragma unroll 1
    for (int rest = steps % UNROLL; rest; rest--) step<T>(sum, left, right);
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
        for (int j = 0; j < ALONG; j++)
#pragma unroll
            for (int r = 0; r < 4; r++)
                c[(first + TILE_ROWS * i + r / 2 * 8) * COLS + TILE_COLS * j + 2 * t + r % 2] = sum[i][j][r];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    mma_tf32(const unsigned *__restrict__ a, const unsigned *__restrict__ b, float *__restrict__ c, index_t steps)
{
    products<TF32>(a, b, c, steps);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    mma_bf16(const unsigned *__restrict__ a, const unsigned *__restrict__ b, float *__restrict__ c, index_t steps)
{
    products<BF16>(a, b, c, steps);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    mma_fp16(const unsigned *__restrict__ a, const unsigned *__restrict__ b, float *__restrict__ c, index_t steps)
{
    products<FP16>(a, b, c, steps);
}
