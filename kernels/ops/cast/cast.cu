/* Conversions, clears and fills: four elements a thread, as far apart as the block has threads, so that a warp's are
 * together. A double is two words as they lie, and may begin at any of them. bf16 by its bits: to the nearest, ties to
 * even; NaN stays one. */
typedef long long index_t;

enum { THREADS = 256, EACH = 4 };

#define FOR_EACH(statement)                                                                         \
    index_t first = (index_t)blockIdx.x * EACH * THREADS + threadIdx.x;                             \
    _Pragma("unroll") for (int j = 0; j < EACH; j++)                                                \
    {                                                                                               \
        index_t i = first + j * THREADS;                                                            \
        if (i < count) statement;                                                                   \
    }

static __device__ __forceinline__ unsigned short narrowed(float x)
{
    unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40u);
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cast_f64_f32(const int *__restrict__ x, float *__restrict__ y, index_t count)
{
    FOR_EACH(y[i] = (float)__hiloint2double(x[2 * i + 1], x[2 * i]))
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cast_f32_f32(const float *__restrict__ x, float *__restrict__ y, index_t count)
{
    FOR_EACH(y[i] = x[i])
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cast_f32_bf16(const float *__restrict__ x, unsigned short *__restrict__ y, index_t count)
{
    FOR_EACH(y[i] = narrowed(x[i]))
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cast_bf16_f32(const unsigned short *__restrict__ x, float *__restrict__ y, index_t count)
{
    FOR_EACH(y[i] = __uint_as_float((unsigned)x[i] << 16))
}

extern "C" __global__ void __launch_bounds__(THREADS) cast_clear(float *__restrict__ y, index_t count)
{
    FOR_EACH(y[i] = 0)
}

extern "C" __global__ void __launch_bounds__(THREADS) cast_fill(float *__restrict__ y, index_t count)
{
    FOR_EACH(y[i] = 1.5f)
}
