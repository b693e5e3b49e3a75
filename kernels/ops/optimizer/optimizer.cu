/* An optimizer's step over a piece of the arrays: `count` parameters from `first` on. All tensors of a network
 * lie one behind the other, so that one launch takes them all; a launch a tensor takes a piece each. Any grid
 * will do: each thread strides over the piece, four parameters at a time where all arrays are 16-byte aligned
 * there, then one at a time. */
#ifndef __CUDACC_RTC__ /* NVRTC has sqrtf built in, and no headers */
#include <math.h>
#endif

typedef long long index_t;

enum { THREADS = 256 };

/* How many float4 the piece holds; `where` is the addresses of all its arrays, or'ed. */
static __device__ __forceinline__ index_t vectors(unsigned long long where, index_t count)
{
    return where % sizeof(float4) ? 0 : count / 4;
}

static __device__ __forceinline__ float4 both(float4 x, float4 y, float a, float b)
{
    return make_float4(a * x.x + b * y.x, a * x.y + b * y.y, a * x.z + b * y.z, a * x.w + b * y.w);
}

static __device__ __forceinline__ unsigned long long place(const float *x) { return (unsigned long long)x; }

/* p = keep p - lr g: keep = 1, or 1 - lr decay. */
extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_sgd(const float *__restrict__ g, float *__restrict__ p, index_t first, index_t count, float lr,
                  float keep)
{
    index_t at = (index_t)blockIdx.x * THREADS + threadIdx.x, step = (index_t)gridDim.x * THREADS;
    g += first, p += first;
    index_t whole = vectors(place(g) | place(p), count);
    for (index_t i = at; i < whole; i += step)
        ((float4 *)p)[i] = both(((const float4 *)g)[i], ((float4 *)p)[i], -lr, keep);
    for (index_t i = 4 * whole + at; i < count; i += step) p[i] = keep * p[i] - lr * g[i];
}

/* v = mu v + gain g; p -= lr v, or lr (g + mu v) where `ahead` is 1 and not 0. */
extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_momentum(const float *__restrict__ g, float *__restrict__ p, float *__restrict__ v, index_t first,
                       index_t count, float lr, float mu, float gain, float ahead)
{
    index_t at = (index_t)blockIdx.x * THREADS + threadIdx.x, step = (index_t)gridDim.x * THREADS;
    g += first, p += first, v += first;
    float of_g = ahead, of_v = ahead == 0 ? 1 : mu;
    index_t whole = vectors(place(g) | place(p) | place(v), count);
    for (index_t i = at; i < whole; i += step) {
        float4 d = ((const float4 *)g)[i], moved = both(((float4 *)v)[i], d, mu, gain);
        ((float4 *)v)[i] = moved;
        ((float4 *)p)[i] = both(((float4 *)p)[i], both(d, moved, of_g, of_v), 1, -lr);
    }
    for (index_t i = 4 * whole + at; i < count; i += step) {
        float moved = mu * v[i] + gain * g[i];
        v[i] = moved;
        p[i] -= lr * (of_g * g[i] + of_v * moved);
    }
}

/* m = mu m + gain g; v = rho v + rest g g; p -= lr m / (sqrt v + eps). */
extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_adam(const float *__restrict__ g, float *__restrict__ p, float *__restrict__ m, float *__restrict__ v,
                   index_t first, index_t count, float lr, float mu, float gain, float rho, float rest, float eps)
{
    index_t at = (index_t)blockIdx.x * THREADS + threadIdx.x, step = (index_t)gridDim.x * THREADS;
    g += first, p += first, m += first, v += first;
    index_t whole = vectors(place(g) | place(p) | place(m) | place(v), count);
    for (index_t i = at; i < whole; i += step) {
        float4 d = ((const float4 *)g)[i], a = both(((float4 *)m)[i], d, mu, gain);
        float4 square = make_float4(d.x * d.x, d.y * d.y, d.z * d.z, d.w * d.w);
        float4 b = both(((float4 *)v)[i], square, rho, rest), w = ((float4 *)p)[i];
        ((float4 *)m)[i] = a, ((float4 *)v)[i] = b;
        w.x -= lr * a.x / (sqrtf(b.x) + eps), w.y -= lr * a.y / (sqrtf(b.y) + eps);
        w.z -= lr * a.z / (sqrtf(b.z) + eps), w.w -= lr * a.w / (sqrtf(b.w) + eps);
        ((float4 *)p)[i] = w;
    }
    for (index_t i = 4 * whole + at; i < count; i += step) {
        float a = mu * m[i] + gain * g[i], b = rho * v[i] + rest * (g[i] * g[i]);
        m[i] = a, v[i] = b;
        p[i] -= lr * a / (sqrtf(b) + eps);
    }
}
