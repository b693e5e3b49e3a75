/* Convolutions of NCHW images as products whose operands are never written down: a block computes a 64 x 64 tile of the
 * result, and finds the elements of both factors where they lie while it loads 16 of the summed axis to shared memory.
 *
 *            rows of the result      columns                 summed
 *   forward  filters of a group      results of all images   channels x taps
 *   dgrad    channels of a group     pixels of all images    filters x taps
 *   wgrad    filters of a group      channels x taps         results of all images
 */
typedef long long index_t;

enum { TILE = 64, DEPTH = 16, SIDE = 16, THREADS = SIDE * SIDE, EACH = TILE / SIDE, PITCH = TILE + 4 };

/* c and k: of a group. down, across: of the result. */
struct Conv { int n, c, h, w, k, r, s, stride, top, left, dilation, groups, down, across; };

static __device__ __forceinline__ int taps(Conv p) { return p.r * p.s; }
static __device__ __forceinline__ int results(Conv p) { return p.down * p.across; }

/* Where a tap of a result reads: of an image's plane. False where that is padding. */
static __device__ __forceinline__ bool read_at(Conv p, int result, int tap, int *at)
{
    int row = result / p.across * p.stride - p.top + tap / p.s * p.dilation;
    int col = result % p.across * p.stride - p.left + tap % p.s * p.dilation;
    *at = row * p.w + col;
    return row >= 0 && row < p.h && col >= 0 && col < p.w;
}

/* Which result has a pixel under one of its taps. False where none has. */
static __device__ __forceinline__ bool written_at(Conv p, int pixel, int tap, int *at)
{
    int row = pixel / p.w + p.top - tap / p.s * p.dilation, col = pixel % p.w + p.left - tap % p.s * p.dilation;
    if (row < 0 || col < 0 || row % p.stride || col % p.stride) return false;
    row /= p.stride, col /= p.stride;
    *at = row * p.across + col;
    return row < p.down && col < p.across;
}

/* A plane of images of `channels` a group. */
static __device__ __forceinline__ index_t plane(Conv p, index_t image, int group, int channels, int channel, int size)
{
    return ((image * p.groups + group) * channels + channel) * size;
}

struct Forward {
    Conv p;
    const float *x, *w;
    __device__ int rows() const { return p.k; }
    __device__ int cols() const { return p.n * results(p); }
    __device__ int depth() const { return p.c * taps(p); }
    __device__ float first(int group, int row, int t) const
    {
        return w[(index_t)(group * p.k + row) * depth() + t];
    }
    __device__ float second(int group, int t, int col) const
    {
        int at, tap = t % taps(p);
        if (!read_at(p, col % results(p), tap, &at)) return 0;
        return x[plane(p, col / results(p), group, p.c, t / taps(p), p.h * p.w) + at];
    }
    __device__ index_t to(int group, int row, int col) const
    {
        return plane(p, col / results(p), group, p.k, row, results(p)) + col % results(p);
    }
};

struct Dgrad {
    Conv p;
    const float *dy, *w;
    __device__ int rows() const { return p.c; }
    __device__ int cols() const { return p.n * p.h * p.w; }
    __device__ int depth() const { return p.k * taps(p); }
    __device__ float first(int group, int row, int t) const
    {
        return w[((index_t)(group * p.k + t / taps(p)) * p.c + row) * taps(p) + t % taps(p)];
    }
    __device__ float second(int group, int t, int col) const
    {
        int at, size = p.h * p.w;
        if (!written_at(p, col % size, t % taps(p), &at)) return 0;
        return dy[plane(p, col / size, group, p.k, t / taps(p), results(p)) + at];
    }
    __device__ index_t to(int group, int row, int col) const
    {
        int size = p.h * p.w;
        return plane(p, col / size, group, p.c, row, size) + col % size;
    }
};

struct Wgrad {
    Conv p;
    const float *x, *dy;
    __device__ int rows() const { return p.k; }
    __device__ int cols() const { return p.c * taps(p); }
    __device__ int depth() const { return p.n * results(p); }
    __device__ float first(int group, int row, int t) const
    {
        return dy[plane(p, t / results(p), group, p.k, row, results(p)) + t % results(p)];
    }
    __device__ float second(int group, int t, int col) const
    {
        int at;
        if (!read_at(p, t % results(p), col % taps(p), &at)) return 0;
        return x[plane(p, t / results(p), group, p.c, col / taps(p), p.h * p.w) + at];
    }
    __device__ index_t to(int group, int row, int col) const { return (index_t)(group * p.k + row) * cols() + col; }
};

template <class Pass>
static __device__ __forceinline__ void tile(const Pass &pass, float *__restrict__ out, float (*left)[PITCH],
                                            float (*right)[PITCH])
{
    int rows = pass.rows(), cols = pass.cols(), depth = pass.depth();
    int across = (cols + TILE - 1) / TILE, each = across * ((rows + TILE - 1) / TILE);
    int group = (int)blockIdx.x / each, own = (int)blockIdx.x % each, i = own / across * TILE, j = own % across * TILE;
    int t = threadIdx.x, down = t / SIDE, along = t % SIDE;
    float sum[EACH][EACH] = {{0}};
    for (int l = 0; l < depth; l += DEPTH) {
        for (int e = t; e < TILE * DEPTH; e += THREADS) { /* neighbors: along the summed axis, along the columns */
            int a = e % DEPTH, row = e / DEPTH, b = e / TILE, col = e % TILE;
            left[a][row] = i + row < rows && l + a < depth ? pass.first(group, i + row, l + a) : 0;
            right[b][col] = j + col < cols && l + b < depth ? pass.second(group, l + b, j + col) : 0;
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < DEPTH; s++)
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int q = 0; q < EACH; q++) sum[r][q] += left[s][down + r * SIDE] * right[s][along + q * SIDE];
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int q = 0; q < EACH; q++) {
            int row = i + down + r * SIDE, col = j + along + q * SIDE;
            if (row < rows && col < cols) out[pass.to(group, row, col)] = sum[r][q];
        }
}

#define BODY(Pass, first, second, out)                                                                           \
    __shared__ float left_tile[DEPTH][PITCH], right_tile[DEPTH][PITCH];                                          \
    Conv p = {(int)n, (int)c, (int)height, (int)width, (int)k, (int)r, (int)s, (int)stride, (int)top, (int)left, \
              (int)dilation, (int)groups, (int)down, (int)across};                                               \
    Pass pass = {p, first, second};                                                                              \
    tile(pass, out, left_tile, right_tile);

extern "C" __global__ void __launch_bounds__(THREADS)
    implicit_forward(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y, index_t n, index_t c,
                     index_t height, index_t width, index_t k, index_t r, index_t s, index_t stride, index_t top,
                     index_t left, index_t dilation, index_t groups, index_t down, index_t across)
{
    BODY(Forward, x, w, y)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    implicit_dgrad(const float *__restrict__ dy, const float *__restrict__ w, float *__restrict__ dx, index_t n, index_t c,
                   index_t height, index_t width, index_t k, index_t r, index_t s, index_t stride, index_t top,
                   index_t left, index_t dilation, index_t groups, index_t down, index_t across)
{
    BODY(Dgrad, dy, w, dx)
}

extern "C" __global__ void __launch_bounds__(THREADS)
    implicit_wgrad(const float *__restrict__ x, const float *__restrict__ dy, float *__restrict__ dw, index_t n, index_t c,
                   index_t height, index_t width, index_t k, index_t r, index_t s, index_t stride, index_t top,
                   index_t left, index_t dilation, index_t groups, index_t down, index_t across)
{
    BODY(Wgrad, x, dy, dw)
}
