/* C = W B, row-major, W as CSR: a block has 128 columns of one row of C, each thread one; values and columns of W are read
 * by all of them at once, and B along its rows. */
typedef long long index_t;

enum { THREADS = 128 };

extern "C" __global__ void __launch_bounds__(THREADS)
    csr_rows(const float *__restrict__ b, float *__restrict__ c, const float *__restrict__ values,
             const int *__restrict__ columns, const int *__restrict__ pointers, index_t n, index_t across)
{
    index_t row = blockIdx.x / across, col = blockIdx.x % across * THREADS + threadIdx.x;
    if (col >= n) return;
    float sum = 0;
    for (int e = pointers[row]; e < pointers[row + 1]; e++) sum += values[e] * b[columns[e] * n + col];
    c[row * n + col] = sum;
}
