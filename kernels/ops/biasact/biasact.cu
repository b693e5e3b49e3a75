/* Bias and ReLU behind a product, and their gradients. Forward a thread an element. The gradient of the bias is a sum
 * down the columns: a block has 32 of them, eight rows at a time, and adds up what its rows of threads have in one
 * order: the same bits each time. */
typedef long long index_t;

enum { THREADS = 256, COLS = 32, ROWS = THREADS / COLS };

extern "C" __global__ void __launch_bounds__(THREADS)
    biasact_forward(const float *__restrict__ x, const float *__restrict__ b, float *__restrict__ y, index_t count,
                    index_t cols)
{
    index_t i = (index_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    float v = x[i] + b[i % cols];
    y[i] = v > 0 ? v : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    biasact_dgrad(const float *__restrict__ x, const float *__restrict__ dy, float *__restrict__ dx,
                  float *__restrict__ db, index_t rows, index_t cols)
{
    __shared__ float sums[ROWS][COLS];
    index_t col = (index_t)blockIdx.x * COLS + threadIdx.x % COLS;
    int line = threadIdx.x / COLS;
    float sum = 0;
    if (col < cols)
        for (index_t row = line; row < rows; row += ROWS) {
            float d = x[row * cols + col] > 0 ? dy[row * cols + col] : 0;
            dx[row * cols + col] = d;
            sum += d;
        }
    sums[line][threadIdx.x % COLS] = sum;
    __syncthreads();
    if (line || col >= cols) return;
    for (int other = 1; other < ROWS; other++) sum += sums[other][threadIdx.x];
    db[col] = sum;
}
