/* Local response normalization across channels, a thread an element, stands at the end of this file.
 *
 * Batch normalization, a block of 256 threads a channel. In training the mean, then the sum of squared differences to
 * it, then the result; of the gradient two sums, then the result. With statistics that were kept one pass each. Shuffles,
 * then shared memory, bring together what threads have, in one order. Elements of a channel are counted in 32 bits. */
#ifndef __CUDACC_RTC__ /* NVRTC has these functions and no such header */
#include <math.h>
#endif

typedef long long index_t;

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP };

/* The sum over all threads, in every one of them. */
static __device__ __forceinline__ float of_block(float v, float *shared)
{
    for (int d = WARP / 2; d; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    __syncthreads(); /* who still reads the sum before */
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = v;
    __syncthreads();
    float sum = 0;
    for (int warp = 0; warp < WARPS; warp++) sum += shared[warp];
    return sum;
}

/* Of the channel's elements in all images those of a thread, one after the other; i: where each lies. */
#define EACH(BODY)                                                                             \
    for (unsigned j = threadIdx.x; j < many; j += THREADS) {                                   \
        index_t i = ((index_t)(j / (unsigned)pixels) * channels + channel) * pixels + j % (unsigned)pixels; \
        BODY                                                                                   \
    }

extern "C" __global__ void __launch_bounds__(THREADS)
    norm_train_forward(const float *__restrict__ x, const float *__restrict__ scale, const float *__restrict__ shift,
                       float *__restrict__ y, float *__restrict__ mean, float *__restrict__ rstd, index_t images,
                       index_t channels, index_t pixels, float epsilon)
{
    __shared__ float shared[WARPS];
    index_t channel = blockIdx.x;
    unsigned many = (unsigned)(images * pixels);
    float sum = 0, squares = 0;
    EACH(sum += x[i];)
    float middle = of_block(sum, shared) / (float)many;
    EACH(float d = x[i] - middle; squares += d * d;)
    float root = 1.0f / sqrtf(of_block(squares, shared) / (float)many + epsilon);
    float gain = scale[channel], plus = shift[channel];
    EACH(y[i] = (x[i] - middle) * root * gain + plus;)
    if (threadIdx.x == 0) mean[channel] = middle, rstd[channel] = root;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    norm_train_dgrad(const float *__restrict__ x, const float *__restrict__ scale, const float *__restrict__ dy,
                     const float *__restrict__ mean, const float *__restrict__ rstd, float *__restrict__ dx,
                     float *__restrict__ dscale, float *__restrict__ dshift, index_t images, index_t channels,
                     index_t pixels)
{
    __shared__ float shared[WARPS];
    index_t channel = blockIdx.x;
    unsigned many = (unsigned)(images * pixels);
    float middle = mean[channel], root = rstd[channel], slopes = 0, products = 0;
    EACH(slopes += dy[i]; products += dy[i] * ((x[i] - middle) * root);)
    slopes = of_block(slopes, shared);
    products = of_block(products, shared);
    float gain = scale[channel] * root, level = slopes / (float)many, tilt = products / (float)many;
    EACH(dx[i] = gain * (dy[i] - (level + (x[i] - middle) * root * tilt));)
    if (threadIdx.x == 0) dscale[channel] = products, dshift[channel] = slopes;
}

/* Of what was kept from earlier a channel has that of its place among KEPT: the numbers of a test, in registers. */
#define KEPT                                             \
    float middle = channel % 2 ? odd_mean : even_mean;   \
    float root = 1.0f / sqrtf((channel % 2 ? odd_variance : even_variance) + epsilon);

extern "C" __global__ void __launch_bounds__(THREADS)
    norm_frozen_forward(const float *__restrict__ x, const float *__restrict__ scale, const float *__restrict__ shift,
                        float *__restrict__ y, index_t images, index_t channels, index_t pixels, float even_mean,
                        float odd_mean, float even_variance, float odd_variance, float epsilon)
{
    index_t channel = blockIdx.x;
    unsigned many = (unsigned)(images * pixels);
    KEPT
    float gain = scale[channel], plus = shift[channel];
    EACH(y[i] = (x[i] - middle) * root * gain + plus;)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    norm_frozen_dgrad(const float *__restrict__ x, const float *__restrict__ scale, const float *__restrict__ dy,
                      float *__restrict__ dx, float *__restrict__ dscale, float *__restrict__ dshift, index_t images,
                      index_t channels, index_t pixels, float even_mean, float odd_mean, float even_variance,
                      float odd_variance, float epsilon)
{
    __shared__ float shared[WARPS];
    index_t channel = blockIdx.x;
    unsigned many = (unsigned)(images * pixels);
    KEPT
    float gain = scale[channel] * root, slopes = 0, products = 0;
    EACH(float slope = dy[i]; slopes += slope; products += slope * ((x[i] - middle) * root); dx[i] = gain * slope;)
    slopes = of_block(slopes, shared);
    products = of_block(products, shared);
    if (threadIdx.x == 0) dscale[channel] = products, dshift[channel] = slopes;
}

/* Of a thread its element, the channel of that, and where channel 0 of its pixel lies. */
#define PLACE                                                \
    index_t i = (index_t)blockIdx.x * THREADS + threadIdx.x; \
    if (i >= images * channels * pixels) return;             \
    int channel = (int)(i / pixels % channels);              \
    const float *first = x + (i - channel * pixels);

/* 2 + alpha / 5 of the squares of a channel and of two on either side. */
static __device__ __forceinline__ float around(const float *first, int channel, index_t channels, index_t pixels,
                                               float share)
{
    float sum = 0;
    for (int c = channel - 2; c <= channel + 2; c++)
        if (c >= 0 && c < channels) sum += first[c * pixels] * first[c * pixels];
    return 2.0f + share * sum;
}

/* d to the power of 3/4 */
static __device__ __forceinline__ float powered(float d) { return sqrtf(d) * sqrtf(sqrtf(d)); }

extern "C" __global__ void __launch_bounds__(THREADS)
    norm_lrn_forward(const float *__restrict__ x, float *__restrict__ y, index_t images, index_t channels,
                     index_t pixels, float share)
{
    PLACE
    y[i] = x[i] / powered(around(first, channel, channels, pixels, share));
}

/* dx = dy / d^(3/4) - 3/2 share x times the sum of dy x / d^(7/4) of the neighbors. */
extern "C" __global__ void __launch_bounds__(THREADS)
    norm_lrn_dgrad(const float *__restrict__ x, const float *__restrict__ dy, float *__restrict__ dx, index_t images,
                   index_t channels, index_t pixels, float share)
{
    PLACE
    const float *slopes = dy + (i - channel * pixels);
    float sum = 0, own = 0;
    for (int c = channel - 2; c <= channel + 2; c++) {
        if (c < 0 || c >= channels) continue;
        float d = around(first, c, channels, pixels, share), slope = slopes[c * pixels] / powered(d);
        sum += slope * first[c * pixels] / d;
        if (c == channel) own = slope;
    }
    dx[i] = own - 1.5f * share * x[i] * sum;
}
