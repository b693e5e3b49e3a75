/* Words that threads hand each other, as kernels/ops/exchange/problem.py has it: a step is one such instruction and an
 * addition. A block a multiprocessor, as many threads as it may have: 32 warps hide what a single one would wait
 * for. */
typedef long long index_t;

enum { THREADS = 1024, WARP = 32, UNROLL = 8, DISTANCES = 5 };

/* Shared memory, word after word, from lane to lane `spread` words on. Behind the last word stand the first ones again:
 * a round of eight has no wrap in it, and a bank is what it would be. */
extern "C" __global__ void __launch_bounds__(THREADS)
    exchange_load(const float *__restrict__ x, float *__restrict__ y, index_t spread, index_t steps)
{
    __shared__ float words[THREADS + UNROLL - 1];
    unsigned thread = threadIdx.x;
    words[thread] = x[(index_t)blockIdx.x * THREADS + thread];
    if (thread < UNROLL - 1) words[THREADS + thread] = x[(index_t)blockIdx.x * THREADS + thread];
    __syncthreads();
    unsigned at = (thread % WARP * (unsigned)spread + thread / WARP * WARP) % THREADS;
    float sum = 0;
#pragma unroll 1
    for (index_t rounds = steps / UNROLL; rounds; rounds--) {
#pragma unroll
        for (int i = 0; i < UNROLL; i++) sum += words[at + i];
        at = (at + UNROLL) % THREADS;
    }
#pragma unroll 1
    for (int rest = steps % UNROLL; rest; rest--) {
        sum += words[at];
        at = (at + 1) % THREADS;
    }
    y[(index_t)blockIdx.x * THREADS + thread] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    exchange_shuffle(const float *__restrict__ x, float *__restrict__ y, index_t steps)
{
    index_t own = (index_t)blockIdx.x * THREADS + threadIdx.x;
    float value = x[own];
#pragma unroll 1
    for (index_t rounds = steps / DISTANCES; rounds; rounds--)
#pragma unroll
        for (int i = 0; i < DISTANCES; i++) value = __shfl_xor_sync(0xffffffff, value, 1 << i) + 1;
#pragma unroll 1
    for (int i = 0; i < steps % DISTANCES; i++) value = __shfl_xor_sync(0xffffffff, value, 1 << i) + 1;
    y[own] = value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    exchange_add_shared(const float *__restrict__ x, float *__restrict__ y, index_t spread, index_t steps)
{
    __shared__ float words[THREADS];
    unsigned thread = threadIdx.x;
    float value = x[(index_t)blockIdx.x * THREADS + thread], *to = words + thread % (unsigned)spread;
    words[thread] = 0;
    __syncthreads();
    /* An addition of floats to shared memory is a compare-and-swap loop, which lanes leave one after another. nvcc 13.0
     * kept the rounds that are left in a uniform register, from which each group of lanes took one: on an H100 it did
     * not end. A number that depends on a lane's value is kept in each lane. */
#pragma unroll 1
    for (index_t left = steps + (value != value); left; left--) atomicAdd(to, value);
    __syncthreads();
    if (thread < spread) y[blockIdx.x * spread + thread] = words[thread];
}

extern "C" __global__ void __launch_bounds__(THREADS) exchange_clear(float *__restrict__ y, index_t spread)
{
    index_t own = (index_t)blockIdx.x * THREADS + threadIdx.x;
    if (own < spread) y[own] = 0;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    exchange_add_global(const float *__restrict__ x, float *__restrict__ y, index_t spread, index_t steps)
{
    index_t own = (index_t)blockIdx.x * THREADS + threadIdx.x;
    float value = x[own], *to = y + own % spread;
#pragma unroll 1
    for (index_t left = steps; left; left--) atomicAdd(to, value);
}
