/* Columns of images (im2col) for a library's products, and their sum back to images (col2im): NCHW, every image with its
 * channels x taps rows of as many columns as it has results. A block has 256 columns of one row, or pixels of a plane. */
typedef long long index_t;

enum { THREADS = 256 };

/* columns[plane, tap, result] = x[plane, where that tap of that result reads], zero in the padding */
extern "C" __global__ void __launch_bounds__(THREADS)
    columns_of(const float *__restrict__ x, float *__restrict__ columns, index_t blocks, index_t h,
               index_t w, index_t r, index_t s, index_t stride, index_t top, index_t left, index_t dilation,
               index_t down, index_t across)
{
    int results = (int)(down * across), i = (int)(blockIdx.x % blocks) * THREADS + threadIdx.x;
    if (i >= results) return;
    index_t line = blockIdx.x / blocks, plane = line / (r * s);
    int tap = (int)(line % (r * s));
    int row = i / (int)across * (int)stride - (int)top + tap / (int)s * (int)dilation;
    int col = i % (int)across * (int)stride - (int)left + tap % (int)s * (int)dilation;
    bool inside = row >= 0 && row < h && col >= 0 && col < w;
    columns[line * results + i] = inside ? x[(plane * h + row) * w + col] : 0;
}

/* dx[plane, pixel] = the sum of all columns that were read there: gathered, in one order */
extern "C" __global__ void __launch_bounds__(THREADS)
    columns_back(const float *__restrict__ columns, float *__restrict__ dx, index_t blocks, index_t h,
                 index_t w, index_t r, index_t s, index_t stride, index_t top, index_t left, index_t dilation,
                 index_t down, index_t across)
{
    int pixels = (int)(h * w), i = (int)(blockIdx.x % blocks) * THREADS + threadIdx.x;
    if (i >= pixels) return;
    index_t plane = blockIdx.x / blocks, results = down * across;
    float sum = 0;
    for (int a = 0; a < r; a++) {
        int row = i / (int)w + (int)top - a * (int)dilation;
        if (row < 0 || row % stride || row / stride >= down) continue;
        for (int b = 0; b < s; b++) {
            int col = i % (int)w + (int)left - b * (int)dilation;
            if (col < 0 || col % stride || col / stride >= across) continue;
            sum += columns[((plane * r + a) * s + b) * results + row / stride * across + col / stride];
        }
    }
    dx[plane * pixels + i] = sum;
}
