/* Softmax with cross-entropy, gradient and loss, a block of 256 threads a row. Each thread keeps a maximum and a
 * sum of its own while it reads the row once (Milakov and Gimelshein 2018, arXiv:1805.02867); shuffles, then
 * shared memory, bring them together; the second reading of the row, from cache where it fits, writes p − t.
 * dx: batch × classes gradients; loss: that of each row. */
#ifndef __CUDACC_RTC__ /* NVRTC has these functions and no such header */
#include <math.h>
#endif

typedef long long index_t;

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP };

struct Norm { float top, sum, dot; };

/* exp(a − b), and 0 where nothing has been seen: no infinity less infinity. */
static __device__ __forceinline__ float below(float a, float b) { return a == -INFINITY ? 0.0f : expf(a - b); }

static __device__ __forceinline__ Norm joined(Norm a, Norm b)
{
    Norm c;
    c.top = fmaxf(a.top, b.top);
    c.sum = a.sum * below(a.top, c.top) + b.sum * below(b.top, c.top);
    c.dot = a.dot + b.dot;
    return c;
}

static __device__ __forceinline__ Norm of_warp(Norm n)
{
    for (int d = WARP / 2; d; d /= 2) {
        Norm other;
        other.top = __shfl_down_sync(0xffffffff, n.top, d);
        other.sum = __shfl_down_sync(0xffffffff, n.sum, d);
        other.dot = __shfl_down_sync(0xffffffff, n.dot, d);
        n = joined(n, other);
    }
    return n;
}

/* The row's maximum, sum and dot product with t, in every thread. */
static __device__ __forceinline__ Norm of_block(Norm n, Norm *shared)
{
    n = of_warp(n);
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = n;
    __syncthreads();
    if (threadIdx.x < WARP) {
        Norm none;
        none.top = -INFINITY, none.sum = 0, none.dot = 0;
        n = of_warp(threadIdx.x < WARPS ? shared[threadIdx.x] : none);
        if (threadIdx.x == 0) shared[WARPS] = n;
    }
    __syncthreads();
    return shared[WARPS];
}

static __device__ __forceinline__ void add(Norm &n, float v)
{
    if (v > n.top) n.sum = n.sum * below(n.top, v), n.top = v;
    n.sum += expf(v - n.top);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_index(const float *__restrict__ x, const index_t *__restrict__ labels, float *__restrict__ dx,
                  float *__restrict__ loss, index_t classes)
{
    __shared__ Norm shared[WARPS + 1];
    index_t row = blockIdx.x, own = labels[row];
    const float *scores = x + row * classes;
    Norm n;
    n.top = -INFINITY, n.sum = 0, n.dot = 0;
    for (index_t j = threadIdx.x; j < classes; j += THREADS) add(n, scores[j]);
    n = of_block(n, shared);
    float share = 1.0f / n.sum;
    for (index_t j = threadIdx.x; j < classes; j += THREADS)
        dx[row * classes + j] = expf(scores[j] - n.top) * share - (j == own ? 1.0f : 0.0f);
    if (threadIdx.x == 0) loss[row] = n.top + logf(n.sum) - scores[own];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_onehot(const float *__restrict__ x, const float *__restrict__ t, float *__restrict__ dx,
                   float *__restrict__ loss, index_t classes)
{
    __shared__ Norm shared[WARPS + 1];
    index_t row = blockIdx.x;
    const float *scores = x + row * classes, *truth = t + row * classes;
    Norm n;
    n.top = -INFINITY, n.sum = 0, n.dot = 0;
    for (index_t j = threadIdx.x; j < classes; j += THREADS) {
        add(n, scores[j]);
        n.dot += truth[j] * scores[j];
    }
    n = of_block(n, shared);
    float share = 1.0f / n.sum;
    for (index_t j = threadIdx.x; j < classes; j += THREADS)
        dx[row * classes + j] = expf(scores[j] - n.top) * share - truth[j];
    if (threadIdx.x == 0) loss[row] = n.top + logf(n.sum) - n.dot;
}
