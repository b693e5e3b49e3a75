/* y[j, i] = x[i, j], rows x cols row-major to cols x rows. A block of 32 x 8 threads does a tile of
 * 32 x 32, four elements a thread; tiles are numbered row by row in grid.x, whose limit is 2^31 - 1. */

typedef long long index_t;

enum { TILE = 32, ROWS = 8 };

/* Reads by rows, writes by columns: a warp's writes fall into 32 different sectors. */
extern "C" __global__ void __launch_bounds__(TILE *ROWS)
    transpose_naive(const float *__restrict__ x, float *__restrict__ y, index_t rows, index_t cols, index_t ldx,
                    index_t ldy)
{
    index_t across = (cols + TILE - 1) / TILE;
    index_t i = blockIdx.x / across * TILE + threadIdx.y, j = blockIdx.x % across * TILE + threadIdx.x;
#pragma unroll
    for (int s = 0; s < TILE; s += ROWS)
        if (i + s < rows && j < cols) y[j * ldy + i + s] = x[(i + s) * ldx + j];
}

/* Through shared memory, so that both sides are accessed by rows. A row of 33: a column then lies in 32
 * different banks (Ruetsch and Micikevicius 2009, "Optimizing Matrix Transpose in CUDA"). */
extern "C" __global__ void __launch_bounds__(TILE *ROWS)
    transpose_tiled(const float *__restrict__ x, float *__restrict__ y, index_t rows, index_t cols, index_t ldx,
                    index_t ldy)
{
    __shared__ float tile[TILE][TILE + 1];
    index_t across = (cols + TILE - 1) / TILE;
    index_t i = blockIdx.x / across * TILE, j = blockIdx.x % across * TILE;
    index_t row = i + threadIdx.y, col = j + threadIdx.x;
#pragma unroll
    for (int s = 0; s < TILE; s += ROWS)
        if (row + s < rows && col < cols) tile[threadIdx.y + s][threadIdx.x] = x[(row + s) * ldx + col];
    __syncthreads();
    row = j + threadIdx.y, col = i + threadIdx.x;
#pragma unroll
    for (int s = 0; s < TILE; s += ROWS)
        if (row + s < cols && col < rows) y[(row + s) * ldy + col] = tile[threadIdx.x][threadIdx.y + s];
}
