/* Activations and their gradients, four elements a thread as a float4 where all operands are 16-byte aligned.
 * In place, y is one of the inputs: no pointer is __restrict__, and each element is read before it is written.
 * expf and tanhf as CUDA compiles them without -use_fast_math: 2 ULP and less (CUDA C++ Programming Guide). */
#ifndef __CUDACC_RTC__ /* NVRTC has these functions and no such header */
#include <math.h>
#endif

typedef long long index_t;

enum { THREADS = 256 };

static __device__ __forceinline__ float relu_of(float x) { return x > 0 ? x : 0; }
static __device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
static __device__ __forceinline__ float relu_slope(float y, float d) { return y > 0 ? d : 0; }
static __device__ __forceinline__ float sigmoid_slope(float y, float d) { return d * (y * (1.0f - y)); }
static __device__ __forceinline__ float tanh_slope(float y, float d) { return d * (1.0f - y * y); }
static __device__ __forceinline__ float exp_slope(float y, float d) { return d * y; }

static __device__ __forceinline__ bool aligned(unsigned long long where) { return where % sizeof(float4) == 0; }

#define FORWARD(F)                                                                                  \
    index_t i = 4 * ((index_t)blockIdx.x * THREADS + threadIdx.x);                                  \
    if (i + 4 <= count && aligned((unsigned long long)x | (unsigned long long)y)) {                 \
        float4 a = *(const float4 *)(x + i);                                                        \
        *(float4 *)(y + i) = make_float4(F(a.x), F(a.y), F(a.z), F(a.w));                           \
        return;                                                                                     \
    }                                                                                               \
    for (index_t end = i + 4 < count ? i + 4 : count; i < end; i++) y[i] = F(x[i]);

#define BACKWARD(F)                                                                                 \
    index_t i = 4 * ((index_t)blockIdx.x * THREADS + threadIdx.x);                                  \
    if (i + 4 <= count && aligned((unsigned long long)x | (unsigned long long)dy | (unsigned long long)y)) { \
        float4 a = *(const float4 *)(x + i), b = *(const float4 *)(dy + i);                          \
        *(float4 *)(y + i) = make_float4(F(a.x, b.x), F(a.y, b.y), F(a.z, b.z), F(a.w, b.w));       \
        return;                                                                                     \
    }                                                                                               \
    for (index_t end = i + 4 < count ? i + 4 : count; i < end; i++) y[i] = F(x[i], dy[i]);

extern "C" __global__ void __launch_bounds__(THREADS)
    relu_forward(const float *x, float *y, index_t count)
{
    FORWARD(relu_of)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sigmoid_forward(const float *x, float *y, index_t count)
{
    FORWARD(sigmoid_of)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tanh_forward(const float *x, float *y, index_t count)
{
    FORWARD(tanhf)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    exp_forward(const float *x, float *y, index_t count)
{
    FORWARD(expf)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    relu_dgrad(const float *x, const float *dy, float *y, index_t count)
{
    BACKWARD(relu_slope)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sigmoid_dgrad(const float *x, const float *dy, float *y, index_t count)
{
    BACKWARD(sigmoid_slope)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tanh_dgrad(const float *x, const float *dy, float *y, index_t count)
{
    BACKWARD(tanh_slope)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    exp_dgrad(const float *x, const float *dy, float *y, index_t count)
{
    BACKWARD(exp_slope)
}
