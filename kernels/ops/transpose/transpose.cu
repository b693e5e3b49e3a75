/* y[j, i] = x[i, j], rows x cols row-major to cols x rows. A block of 32 x 8 threads does two tiles of 32 x 32,
 * one below the other, eight elements a thread; blocks are numbered row by row in grid.x, whose limit is 2^31 - 1.
 *
 * At 4.8 TB/s (H200) a multiprocessor moves 32 elements in every 12 to 14 cycles, in which its schedulers issue
 * some 50 instructions. So a block's place is found in 32 bits, where a division is inline (in 64 bits it is a call of
 * a hundred instructions), two tiles share it, and only a block at the edge asks of each element whether it is
 * there. Addresses have 64 bits: rows * ldx may exceed 2^32. */

typedef long long index_t;

enum { TILE = 32, ROWS = 8, DOWN = 2 * TILE, RESIDENT = 8 }; /* blocks of a multiprocessor: 32 registers a thread */

/* A block's first element in x, and how many rows and columns of its two tiles there are. */
struct Place { index_t i, j; unsigned rows, cols; };

static __device__ __forceinline__ unsigned within(index_t left, unsigned most) { return left < most ? left : most; }

static __device__ __forceinline__ Place place(index_t rows, index_t cols)
{
    unsigned across = (unsigned)((cols + TILE - 1) / TILE), down = blockIdx.x / across;
    Place at;
    at.i = (index_t)down * DOWN, at.j = (index_t)(blockIdx.x - down * across) * TILE;
    at.rows = within(rows - at.i, DOWN), at.cols = within(cols - at.j, TILE);
    return at;
}

/* Reads by rows, writes by columns: a warp's writes fall into 32 different sectors. */
extern "C" __global__ void __launch_bounds__(TILE *ROWS)
    transpose_naive(const float *__restrict__ x, float *__restrict__ y, index_t rows, index_t cols, index_t ldx,
                    index_t ldy)
{
    Place at = place(rows, cols);
    const float *from = x + (at.i + threadIdx.y) * ldx + at.j + threadIdx.x;
    float *to = y + (at.j + threadIdx.x) * ldy + at.i + threadIdx.y;
    if (at.rows == DOWN && at.cols == TILE) {
#pragma unroll
        for (unsigned s = 0; s < DOWN; s += ROWS) to[s] = from[s * ldx];
    } else {
#pragma unroll
        for (unsigned s = 0; s < DOWN; s += ROWS)
            if (threadIdx.y + s < at.rows && threadIdx.x < at.cols) to[s] = from[s * ldx];
    }
}

/* Through shared memory, so that both sides are accessed by rows. A row of 33: a column then lies in 32
 * different banks (Ruetsch and Micikevicius 2009, "Optimizing Matrix Transpose in CUDA"). */
extern "C" __global__ void __launch_bounds__(TILE *ROWS, RESIDENT)
    transpose_tiled(const float *__restrict__ x, float *__restrict__ y, index_t rows, index_t cols, index_t ldx,
                    index_t ldy)
{
    __shared__ float tile[DOWN][TILE + 1];
    Place at = place(rows, cols);
    bool whole = at.rows == DOWN && at.cols == TILE;
    const float *from = x + (at.i + threadIdx.y) * ldx + at.j + threadIdx.x;
    if (whole) {
#pragma unroll
        for (unsigned s = 0; s < DOWN; s += ROWS) tile[threadIdx.y + s][threadIdx.x] = from[s * ldx];
    } else {
#pragma unroll
        for (unsigned s = 0; s < DOWN; s += ROWS)
            if (threadIdx.y + s < at.rows && threadIdx.x < at.cols)
                tile[threadIdx.y + s][threadIdx.x] = from[s * ldx];
    }
    __syncthreads();
    float *to = y + (at.j + threadIdx.y) * ldy + at.i + threadIdx.x;
    if (whole) {
#pragma unroll
        for (unsigned s = 0; s < TILE; s += ROWS)
#pragma unroll
            for (unsigned r = 0; r < DOWN; r += TILE) to[s * ldy + r] = tile[threadIdx.x + r][threadIdx.y + s];
    } else {
#pragma unroll
        for (unsigned s = 0; s < TILE; s += ROWS)
#pragma unroll
            for (unsigned r = 0; r < DOWN; r += TILE)
                if (threadIdx.y + s < at.cols && threadIdx.x + r < at.rows)
                    to[s * ldy + r] = tile[threadIdx.x + r][threadIdx.y + s];
    }
}
