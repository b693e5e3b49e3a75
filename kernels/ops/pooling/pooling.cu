/* Pooling of square images, windows two apart: forward a thread a result, the gradient a thread a pixel, which gathers
 * from the windows that hold it: no atomics, one order of the sums. Threads follow memory, NCHW or NHWC, in whole blocks
 * of one image, whose places fit into 32 bits. The first of equal maxima has the gradient, row by row; which it is is
 * found anew. */
typedef long long index_t;

enum { THREADS = 256, STRIDE = 2 };

/* Of an image, in pixels or results: which of its elements a thread has, and where another of its channel lies. */
struct Image { int channels, edge, nhwc; };
struct Place { int channel, row, col; };

static __device__ __forceinline__ Place place(int i, Image of)
{
    Place p;
    if (of.nhwc) p.channel = i % of.channels, i /= of.channels;
    p.col = i % of.edge, i /= of.edge;
    p.row = of.nhwc ? i : i % of.edge;
    if (!of.nhwc) p.channel = i / of.edge;
    return p;
}

static __device__ __forceinline__ int at(int channel, int row, int col, Image of)
{
    if (of.nhwc) return (row * of.edge + col) * of.channels + channel;
    return (channel * of.edge + row) * of.edge + col;
}

static __device__ __forceinline__ int count(Image of) { return of.channels * of.edge * of.edge; }

/* Of a block its image, and of a thread the element in it; blocks: of an image. */
#define OWN(OF)                                                           \
    index_t image = blockIdx.x / (unsigned)blocks;                        \
    int i = (int)(blockIdx.x % (unsigned)blocks) * THREADS + threadIdx.x; \
    if (i >= count(OF)) return;                                           \
    Place p = place(i, OF);

#define BOTH                                                    \
    Image pixels = {(int)channels, (int)size, (int)nhwc};       \
    Image results = {(int)channels, (int)edge, (int)nhwc};      \
    int taps = (int)window;

extern "C" __global__ void __launch_bounds__(THREADS)
    pooling_max_forward(const float *__restrict__ x, float *__restrict__ y, index_t blocks, index_t channels,
                        index_t size, index_t edge, index_t window, index_t nhwc, index_t relu)
{
    BOTH OWN(results)
    const float *own = x + image * count(pixels);
    float top = own[at(p.channel, STRIDE * p.row, STRIDE * p.col, pixels)];
    for (int r = 0; r < taps; r++)
        for (int c = 0; c < taps; c++) {
            float v = own[at(p.channel, STRIDE * p.row + r, STRIDE * p.col + c, pixels)];
            if (v > top) top = v;
        }
    y[image * count(results) + i] = relu && !(top > 0) ? 0 : top;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pooling_avg_forward(const float *__restrict__ x, float *__restrict__ y, index_t blocks, index_t channels,
                        index_t size, index_t edge, index_t window, index_t nhwc, index_t relu)
{
    BOTH OWN(results)
    const float *own = x + image * count(pixels);
    float sum = 0;
    for (int r = 0; r < taps; r++)
        for (int c = 0; c < taps; c++) sum += own[at(p.channel, STRIDE * p.row + r, STRIDE * p.col + c, pixels)];
    y[image * count(results) + i] = sum / (float)(taps * taps);
}

/* The first and the last window, along one axis, that hold a pixel. */
static __device__ __forceinline__ int first(int pixel, int taps)
{
    int before = pixel - taps + 1;
    return before > 0 ? (before + STRIDE - 1) / STRIDE : 0;
}

static __device__ __forceinline__ int last(int pixel, int edge)
{
    int window = pixel / STRIDE;
    return window < edge ? window : edge - 1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pooling_max_dgrad(const float *__restrict__ x, const float *__restrict__ dy, float *__restrict__ dx, index_t blocks,
                      index_t channels, index_t size, index_t edge, index_t window, index_t nhwc, index_t relu)
{
    BOTH OWN(pixels)
    const float *own = x + image * count(pixels), *d = dy + image * count(results);
    float sum = 0;
    for (int a = first(p.row, taps); a <= last(p.row, results.edge); a++)
        for (int b = first(p.col, taps); b <= last(p.col, results.edge); b++) {
            int row = STRIDE * a, col = STRIDE * b;
            float top = own[at(p.channel, row, col, pixels)];
            for (int r = 0; r < taps; r++)
                for (int c = 0; c < taps; c++) {
                    float v = own[at(p.channel, STRIDE * a + r, STRIDE * b + c, pixels)];
                    if (v > top) top = v, row = STRIDE * a + r, col = STRIDE * b + c;
                }
            if (row == p.row && col == p.col && (!relu || top > 0)) sum += d[at(p.channel, a, b, results)];
        }
    dx[image * count(pixels) + i] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pooling_avg_dgrad(const float *__restrict__ dy, float *__restrict__ dx, index_t blocks, index_t channels,
                      index_t size, index_t edge, index_t window, index_t nhwc)
{
    BOTH OWN(pixels)
    const float *d = dy + image * count(results);
    float sum = 0;
    for (int a = first(p.row, taps); a <= last(p.row, results.edge); a++)
        for (int b = first(p.col, taps); b <= last(p.col, results.edge); b++) sum += d[at(p.channel, a, b, results)];
    dx[image * count(pixels) + i] = sum / (float)(taps * taps);
}
