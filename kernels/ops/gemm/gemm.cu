/* C = alpha * op(A) * op(B) + beta * C, row-major; op(A)[i, l] = a[i * a_row + l * a_col], so that a
 * transposed operand is one whose strides are exchanged. Tiles of C are numbered row by row in grid.x,
 * whose limit is 2^31 - 1 where grid.y's is 65535. With beta == 0 C is not read: it may hold NaN. */

typedef long long index_t;

static __device__ __forceinline__ void store(float *c, float alpha, float sum, float beta)
{
    *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}

/* One thread an element: every operand is read from global memory for every term. A block computes
 * 8 x 32 of C; neighboring threads have neighboring columns. */
enum { NAIVE_ROWS = 8, NAIVE_COLS = 32 };

extern "C" __global__ void __launch_bounds__(NAIVE_ROWS *NAIVE_COLS)
    sgemm_naive(const float *__restrict__ a, const float *__restrict__ b, float *c, float alpha, float beta,
                index_t m, index_t n, index_t k, index_t a_row, index_t a_col, index_t b_row, index_t b_col,
                index_t ldc)
{
    index_t across = (n + NAIVE_COLS - 1) / NAIVE_COLS;
    index_t i = blockIdx.x / across * NAIVE_ROWS + threadIdx.y;
    index_t j = blockIdx.x % across * NAIVE_COLS + threadIdx.x;
    if (i >= m || j >= n) return;
    float sum = 0;
    for (index_t l = 0; l < k; l++) sum += a[i * a_row + l * a_col] * b[l * b_row + j * b_col];
    store(c + i * ldc + j, alpha, sum, beta);
}

/* Two levels of reuse: a block holds 64 x 16 of op(A) and 16 x 64 of op(B) in shared memory, a thread
 * 8 x 8 of C in registers. Its rows and columns are two groups of four, half a tile apart: then each
 * shared read is a float4, and those of the eight threads of a row follow one another. */
enum { TILE = 64, DEPTH = 16, SIDE = 8, THREADS = SIDE * SIDE, HALF = TILE / 2 };
enum { PITCH = TILE + 4 }; /* rows 4 banks apart, and still 16-byte aligned */

/* to[l][r] = src[r * outer + l * inner], zero outside extent x depth. Threads run along whichever stride
 * is 1, so that the reads coalesce in both layouts; each then goes on in equal steps. */
static __device__ __forceinline__ void load(float (*to)[PITCH], const float *__restrict__ src, index_t extent,
                                            index_t depth, index_t outer, index_t inner)
{
    int t = threadIdx.x, deep = inner == 1;
    int l = deep ? t % DEPTH : t / TILE, r = deep ? t / DEPTH : t % TILE;
    int down = deep ? 0 : THREADS / TILE, along = deep ? THREADS / DEPTH : 0;
    src += r * outer + l * inner;
#pragma unroll 4 /* reads in flight; all sixteen would take more registers than there are */
    for (int s = 0; s < TILE * DEPTH / THREADS; s++, l += down, r += along) {
        to[l][r] = r < extent && l < depth ? *src : 0;
        src += along * outer + down * inner;
    }
}

static __device__ __forceinline__ void take(float *to, const float *row, int at)
{
    float4 low = *(const float4 *)(row + at), high = *(const float4 *)(row + HALF + at);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

static __device__ __forceinline__ int place(int group, int at) { return group / 4 * HALF + at + group % 4; }

extern "C" __global__ void __launch_bounds__(THREADS)
    sgemm_tiled(const float *__restrict__ a, const float *__restrict__ b, float *c, float alpha, float beta,
                index_t m, index_t n, index_t k, index_t a_row, index_t a_col, index_t b_row, index_t b_col,
                index_t ldc)
{
    __shared__ __align__(16) float left[DEPTH][PITCH];
    __shared__ __align__(16) float right[DEPTH][PITCH];
    index_t across = (n + TILE - 1) / TILE;
    index_t i = blockIdx.x / across * TILE, j = blockIdx.x % across * TILE;
    int down = threadIdx.x / SIDE * 4, along = threadIdx.x % SIDE * 4;
    float sum[SIDE][SIDE] = {{0}};
    for (index_t l = 0; l < k; l += DEPTH) {
        load(left, a + i * a_row + l * a_col, m - i, k - l, a_row, a_col);
        load(right, b + l * b_row + j * b_col, n - j, k - l, b_col, b_row);
        __syncthreads();
#pragma unroll
        for (int s = 0; s < DEPTH; s++) {
            float x[SIDE], y[SIDE];
            take(x, left[s], down);
            take(y, right[s], along);
#pragma unroll
            for (int r = 0; r < SIDE; r++)
#pragma unroll
                for (int q = 0; q < SIDE; q++) sum[r][q] += x[r] * y[q];
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < SIDE; r++)
#pragma unroll
        for (int q = 0; q < SIDE; q++) {
            index_t row = i + place(r, down), col = j + place(q, along);
            if (row < m && col < n) store(c + row * ldc + col, alpha, sum[r][q], beta);
        }
}
