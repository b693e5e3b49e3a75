/* c = steps a b^T by wgmma, Hopper's instruction of a warpgroup, which reads a and b from shared memory: mma.cu at
 * the full rate. For sm_90a alone. What it computes is tested on a CPU, where
 * tests/simulated/ptx.h does the documented work of each instruction; on an H100 it is right too.
 *
 * A block a multiprocessor, two warpgroups, each 64 x 256 of c in 128 registers a thread. At the rate NVIDIA states
 * one m64n256k16 takes the four tensor cores 128 cycles, so one warpgroup could keep them busy; the other is there
 * while it begins or ends. The sums of one accumulator follow each other in the unit: nothing waits for them but the
 * end. An instruction reads 10 KiB of shared memory in its 128 cycles, of 16 that there are.
 *
 * A matrix in shared memory, rows along K and not swizzled (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared
 * Memory Layout"): eight rows of 16 bytes, one behind another, are a core matrix. An instruction is two of them deep,
 * the "leading dimension" bytes apart; the next eight rows lie the "stride dimension" bytes on. */

typedef long long index_t;

enum { GROUP = 128, GROUPS = 2, THREADS = GROUP * GROUPS, ROWS = 64, COLS = 256, WORDS = 8, UNROLL = 8 };
enum { DEEP = 2, CORE = 4 }; /* core matrices in an instruction's depth, words of a row of one */
enum { SUMS = ROWS * COLS / GROUP };
enum Type { TF32, BF16, FP16 };

#define ALL                                                                                                      \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
    "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "  \
    "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, "  \
    "%65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "  \
    "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, " \
    "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "     \
    "%123, %124, %125, %126, %127}"
#define EIGHT(i)                                                                                                 \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]),  \
        "+f"(c[i + 7])
#define MULTIPLY(instruction, rest)                                                                              \
    asm volatile(instruction " " ALL ", %128, %129, 1, 1, 1" rest ";"                                            \
                 : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56),         \
                   EIGHT(64), EIGHT(72), EIGHT(80), EIGHT(88), EIGHT(96), EIGHT(104), EIGHT(112), EIGHT(120)     \
                 : "l"(a), "l"(b))

typedef unsigned long long descriptor_t;

struct __align__(128) Matrices { unsigned a[GROUPS][DEEP * ROWS][CORE], b[DEEP * COLS][CORE]; };

template <Type> static __device__ __forceinline__ void multiply(float *c, descriptor_t a, descriptor_t b);

template <> __device__ __forceinline__ void multiply<TF32>(float *c, descriptor_t a, descriptor_t b)
{
    MULTIPLY("wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32", "");
}

template <> __device__ __forceinline__ void multiply<BF16>(float *c, descriptor_t a, descriptor_t b)
{
    MULTIPLY("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", ", 0, 0");
}

template <> __device__ __forceinline__ void multiply<FP16>(float *c, descriptor_t a, descriptor_t b)
{
    MULTIPLY("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", ", 0, 0");
}

/* Rows of eight words to core matrices; of float32, rounded to what TF32 holds. */
template <Type T>
static __device__ __forceinline__ void fetch(unsigned (*to)[CORE], const unsigned *__restrict__ from, int rows)
{
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * WORDS; i += THREADS) {
        int row = i / WORDS, at = i % WORDS;
        unsigned word = from[i];
        if (T == TF32) asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(__uint_as_float(word)));
        to[at / CORE * rows + row][at % CORE] = word;
    }
}

/* Of a matrix of so many rows: its address, and the bytes from a core matrix to the next along K and down the rows,
 * each by 16. No swizzle, no base offset: the bits above are zero. */
static __device__ __forceinline__ descriptor_t described(const unsigned (*matrix)[CORE], int rows)
{
    descriptor_t at = (unsigned)__cvta_generic_to_shared(matrix), row = CORE * sizeof(unsigned);
    return (at & 0x3ffff) >> 4 | rows * row >> 4 << 16 | 8 * row >> 4 << 32;
}

template <Type T>
static __device__ __forceinline__ void products(const unsigned *__restrict__ a, const unsigned *__restrict__ b,
                                                float *__restrict__ c, index_t steps, Matrices &shared)
{
    unsigned group = threadIdx.x / GROUP, warp = threadIdx.x % GROUP / 32, lane = threadIdx.x % 32;
    index_t first = (index_t)blockIdx.x * GROUPS * ROWS;
    for (int i = 0; i < GROUPS; i++) fetch<T>(shared.a[i], a + (first + i * ROWS) * WORDS, ROWS);
    fetch<T>(shared.b, b, COLS);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); /* wgmma reads by another way than threads write */
    __syncthreads();
    descriptor_t of_a = described(shared.a[group], ROWS), of_b = described(shared.b, COLS);
    float sum[SUMS] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll 1
    for (unsigned rounds = steps / UNROLL; rounds; rounds--)
#pragma unroll
        for (int s = 0; s < UNROLL; s++) multiply<T>(sum, of_a, of_b);
#pragma unroll 1
    for (int rest = steps % UNROLL; rest; rest--) multiply<T>(sum, of_a, of_b);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    c += (first + group * ROWS + warp * 16 + lane / 4) * COLS + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < SUMS; i++) c[i / 2 % 2 * 8 * COLS + i / 4 * 8 + i % 2] = sum[i];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    wgmma_tf32(const unsigned *__restrict__ a, const unsigned *__restrict__ b, float *__restrict__ c, index_t steps)
{
    __shared__ Matrices shared;
    products<TF32>(a, b, c, steps, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    wgmma_bf16(const unsigned *__restrict__ a, const unsigned *__restrict__ b, float *__restrict__ c, index_t steps)
{
    __shared__ Matrices shared;
    products<BF16>(a, b, c, steps, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    wgmma_fp16(const unsigned *__restrict__ a, const unsigned *__restrict__ b, float *__restrict__ c, index_t steps)
{
    __shared__ Matrices shared;
    products<FP16>(a, b, c, steps, shared);
}
