/* Read, copy and triad over contiguous floats. Any grid will do: each thread strides over the array, four
 * floats at a time, then one at a time over what is left, and over all of it where an operand is not
 * 16-byte aligned. Default caching, so that an array that fits stays in the second-level cache. */

typedef long long index_t;

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP };

/* How many float4 all operands hold; `where` is their addresses, or'ed. */
static __device__ __forceinline__ index_t vectors(unsigned long long where, index_t count)
{
    return where % sizeof(float4) ? 0 : count / 4;
}

/* y[block] = the block's share of the sum: launched a second time, as one block over those partial sums,
 * it gives the total. No atomics: the result does not depend on the order of the blocks, and nothing has
 * to be zero beforehand. */
extern "C" __global__ void __launch_bounds__(THREADS)
    stream_read(const float *__restrict__ a, float *__restrict__ y, index_t count)
{
    __shared__ float partial[WARPS];
    index_t first = (index_t)blockIdx.x * THREADS + threadIdx.x, step = (index_t)gridDim.x * THREADS;
    index_t whole = vectors((unsigned long long)a, count);
    float4 four = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (index_t i = first; i < whole; i += step) {
        float4 v = ((const float4 *)a)[i];
        four.x += v.x, four.y += v.y, four.z += v.z, four.w += v.w;
    }
    float sum = (four.x + four.y) + (four.z + four.w);
    for (index_t i = 4 * whole + first; i < count; i += step) sum += a[i];
    for (int d = WARP / 2; d; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x >= WARP) return;
    sum = threadIdx.x < WARPS ? partial[threadIdx.x] : 0;
    for (int d = WARPS / 2; d; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    stream_copy(const float *__restrict__ a, float *__restrict__ y, index_t count)
{
    index_t first = (index_t)blockIdx.x * THREADS + threadIdx.x, step = (index_t)gridDim.x * THREADS;
    index_t whole = vectors((unsigned long long)a | (unsigned long long)y, count);
    for (index_t i = first; i < whole; i += step) ((float4 *)y)[i] = ((const float4 *)a)[i];
    for (index_t i = 4 * whole + first; i < count; i += step) y[i] = a[i];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    stream_triad(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ y, index_t count)
{
    index_t first = (index_t)blockIdx.x * THREADS + threadIdx.x, step = (index_t)gridDim.x * THREADS;
    unsigned long long where = (unsigned long long)a | (unsigned long long)b | (unsigned long long)y;
    index_t whole = vectors(where, count);
    for (index_t i = first; i < whole; i += step) {
        float4 u = ((const float4 *)a)[i], v = ((const float4 *)b)[i];
        ((float4 *)y)[i] = make_float4(u.x + 3 * v.x, u.y + 3 * v.y, u.z + 3 * v.z, u.w + 3 * v.w);
    }
    for (index_t i = 4 * whole + first; i < count; i += step) y[i] = a[i] + 3 * b[i];
}
