/* x <- x/2 + d, `steps` times in each of ten chains a thread, one block a multiprocessor: fma.c on a GPU.
 *
 * Why this is the peak: each of the four schedulers of a multiprocessor issues one warp instruction a cycle;
 * on 32 lanes (sm_90, sm_100) an FFMA takes one cycle, on 16 (sm_80) two; the next of its chain may follow
 * after four (Volta: Jia et al. 2018, arXiv:1804.06826; Ampere: Abdelkhalik et al. 2022, arXiv:2208.11174).
 * So four chains keep a scheduler busy, and it has forty: four warps of ten, so that one at its branch holds
 * up nobody, and a longer latency would not show.
 * Two operands are registers: the banks of a register file cannot conflict.
 *
 * Nothing can be folded: without -use_fast_math no compiler reassociates, and d is only known at run time.
 * Unfused it would be the same number, half an x being exact. */

typedef long long index_t;

/* 640 instructions, 10 KiB, a round: within the 12 KiB next to a scheduler (Jia et al., Volta, the smallest),
 * and the three of the loop itself are 0.5 % of it. */
enum { THREADS = 512, CHAINS = 10, UNROLL = 64 };

static __device__ __forceinline__ void step(float *x, float d)
{
#pragma unroll
    for (int c = 0; c < CHAINS; c++) x[c] = x[c] * 0.5f + d;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    fma_chains10(const float *__restrict__ d, float *__restrict__ x, index_t steps)
{
    index_t lanes = (index_t)gridDim.x * THREADS, lane = (index_t)blockIdx.x * THREADS + threadIdx.x;
    float chain[CHAINS], addend = d[lane];
#pragma unroll
    for (int c = 0; c < CHAINS; c++) chain[c] = x[c * lanes + lane];
#pragma unroll 1 /* 32 bits are one instruction where 64 are two; they last an hour and a half */
    for (unsigned rounds = steps / UNROLL; rounds; rounds--)
#pragma unroll
        for (int s = 0; s < UNROLL; s++) step(chain, addend);
#pragma unroll 1
    for (int left = steps % UNROLL; left; left--) step(chain, addend);
#pragma unroll
    for (int c = 0; c < CHAINS; c++) x[c * lanes + lane] = chain[c];
}
