/* Planes of images into frames of zeros for a transform, and what comes out of one back into planes. A block has 256
 * places of one frame, or elements of one plane. `step`: frame rows from one row of the plane to the next. */
typedef long long index_t;

enum { THREADS = 256 };

/* frame[i * step, j * step] = plane[i, j] */
extern "C" __global__ void __launch_bounds__(THREADS)
    frames_of(const float *__restrict__ planes, float *__restrict__ frames, index_t blocks, index_t rows, index_t cols,
              index_t down, index_t across, index_t step)
{
    int size = (int)(down * across), i = (int)(blockIdx.x % blocks) * THREADS + threadIdx.x;
    if (i >= size) return;
    index_t plane = blockIdx.x / blocks;
    int row = i / (int)across, col = i % (int)across;
    bool inside = row % step == 0 && col % step == 0 && row / step < rows && col / step < cols;
    frames[plane * size + i] = inside ? planes[(plane * rows + row / step) * cols + col / step] : 0;
}

/* plane[i, j] = scale * frame[i * step + first, j * step + left], around the frame's edges */
extern "C" __global__ void __launch_bounds__(THREADS)
    frames_back(const float *__restrict__ frames, float *__restrict__ planes, float scale, index_t blocks, index_t rows,
                index_t cols, index_t down, index_t across, index_t step, index_t first, index_t left)
{
    int size = (int)(rows * cols), i = (int)(blockIdx.x % blocks) * THREADS + threadIdx.x;
    if (i >= size) return;
    index_t plane = blockIdx.x / blocks;
    index_t row = (i / cols * step + first + down) % down, col = (i % cols * step + left + across) % across;
    planes[plane * size + i] = scale * frames[(plane * down + row) * across + col];
}
