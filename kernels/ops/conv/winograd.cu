/* Winograd's F(2, 3) and F(4, 3) around a library's products, one for each place of a tile of (m + 2) x (m + 2): filters
 * of 3 x 3 at stride 1, NCHW. A thread transforms one tile of one channel, or one filter.
 *
 *   forward, dgrad  V = Bt d B of the image's tiles, U = G g Gt of the filters, M = U V by place, y = At M A
 *   wgrad           V the same, D = A dy At of the gradient's tiles, U = D Vt by place, dw = Gt U G
 *
 * V, M and D lie as [place][channel][tile], U as [place][k][c]. dgrad is forward of dy with the filters turned and their
 * channels exchanged. */
typedef long long index_t;

enum { THREADS = 256, TAPS = 3 };

/* Bt, G and A of F(m, 3): elements of compile time, once the loops around them are unrolled. */
template <int m> struct Bt;
template <int m> struct G;
template <int m> struct A;

#define ELEMENTS(name, m, rows, cols, ...)                                   \
    template <> struct name<m> {                                            \
        static __device__ __forceinline__ float at(int i, int j)            \
        {                                                                   \
            constexpr float x[rows][cols] = __VA_ARGS__;                    \
            return x[i][j];                                                 \
        }                                                                   \
    };

ELEMENTS(Bt, 2, 4, 4, {{-1, 0, 1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}})
ELEMENTS(G, 2, 4, 3, {{-1, 0, 0}, {1. / 2, 1. / 2, 1. / 2}, {1. / 2, -1. / 2, 1. / 2}, {0, 0, 1}})
ELEMENTS(A, 2, 4, 2, {{1, 0}, {1, 1}, {1, -1}, {0, 1}})

/* Points 0, 5/8, -5/8, 3/2, -3/2. */
ELEMENTS(Bt, 4, 6, 6,
         {{225. / 512, 0, -169. / 128, 0, 1. / 2, 0},
          {0, -45. / 64, -9. / 8, 5. / 16, 1. / 2, 0},
          {0, 45. / 64, -9. / 8, -5. / 16, 1. / 2, 0},
          {0, -75. / 256, -25. / 128, 3. / 4, 1. / 2, 0},
          {0, 75. / 256, -25. / 128, -3. / 4, 1. / 2, 0},
          {0, 225. / 512, 0, -169. / 128, 0, 1. / 2}})
ELEMENTS(G, 4, 6, 3,
         {{512. / 225, 0, 0},
          {-4096. / 2975, -512. / 595, -64. / 119},
          {-4096. / 2975, 512. / 595, -64. / 119},
          {256. / 1071, 128. / 357, 64. / 119},
          {256. / 1071, -128. / 357, 64. / 119},
          {0, 0, 2}})
ELEMENTS(A, 4, 6, 4,
         {{1, 0, 0, 0},
          {1, 5. / 8, 25. / 64, 125. / 512},
          {1, -5. / 8, 25. / 64, -125. / 512},
          {1, 3. / 2, 9. / 4, 27. / 8},
          {1, -3. / 2, 9. / 4, -27. / 8},
          {0, 0, 0, 1}})

/* An element of a matrix, or of its transpose. */
template <class X, bool turned> static __device__ __forceinline__ float element(int i, int j)
{
    return turned ? X::at(j, i) : X::at(i, j);
}

/* A compiler may not leave out 0 * x, which is NaN of an infinity. */
static __device__ __forceinline__ void add(float &sum, float factor, float x)
{
    if (factor != 0) sum += factor * x;
}

/* to = X from Xt of a square, or Xt from X where turned. */
template <class X, bool turned, int to_edge, int from_edge>
static __device__ __forceinline__ void both(const float (&from)[from_edge][from_edge], float (&to)[to_edge][to_edge])
{
    float half[to_edge][from_edge];
#pragma unroll
    for (int i = 0; i < to_edge; i++)
#pragma unroll
        for (int j = 0; j < from_edge; j++) {
            half[i][j] = 0;
#pragma unroll
            for (int l = 0; l < from_edge; l++) add(half[i][j], element<X, turned>(i, l), from[l][j]);
        }
#pragma unroll
    for (int i = 0; i < to_edge; i++)
#pragma unroll
        for (int j = 0; j < to_edge; j++) {
            to[i][j] = 0;
#pragma unroll
            for (int l = 0; l < from_edge; l++) add(to[i][j], element<X, turned>(j, l), half[i][l]);
        }
}

#define NUMBERS                                                                                                  \
    index_t planes, index_t channels, index_t h, index_t w, index_t top, index_t left, index_t down, index_t across

/* Of a thread its tile of one plane: image, channel, row and column of tiles. */
#define OWN                                                                                        \
    index_t own = blockIdx.x * (index_t)THREADS + threadIdx.x, tiles = down * across;              \
    if (own >= planes * tiles) return;                                                             \
    index_t plane = own / tiles, tile = own % tiles, images = planes / channels;                   \
    int row = (int)(tile / across), col = (int)(tile % across);                                    \
    index_t at = plane % channels * images * tiles + plane / channels * tiles + tile;              \
    index_t each = planes * tiles;

/* V of an image's tiles, which overlap. */
template <int m>
static __device__ __forceinline__ void image(const float *__restrict__ x, float *__restrict__ v, NUMBERS)
{
    OWN
    float d[m + 2][m + 2], t[m + 2][m + 2];
#pragma unroll
    for (int i = 0; i < m + 2; i++)
#pragma unroll
        for (int j = 0; j < m + 2; j++) {
            index_t y = row * m + i - top, z = col * m + j - left;
            d[i][j] = y >= 0 && y < h && z >= 0 && z < w ? x[(plane * h + y) * w + z] : 0;
        }
    both<Bt<m>, false>(d, t);
#pragma unroll
    for (int i = 0; i < m + 2; i++)
#pragma unroll
        for (int j = 0; j < m + 2; j++) v[(i * (m + 2) + j) * each + at] = t[i][j];
}

/* D of a gradient's tiles, which do not: `h` and `w` are the gradient's. */
template <int m>
static __device__ __forceinline__ void gradient(const float *__restrict__ dy, float *__restrict__ v, NUMBERS)
{
    OWN
    float d[m][m], t[m + 2][m + 2];
#pragma unroll
    for (int i = 0; i < m; i++)
#pragma unroll
        for (int j = 0; j < m; j++) {
            index_t y = row * m + i, z = col * m + j;
            d[i][j] = y < h && z < w ? dy[(plane * h + y) * w + z] : 0;
        }
    both<A<m>, false>(d, t);
#pragma unroll
    for (int i = 0; i < m + 2; i++)
#pragma unroll
        for (int j = 0; j < m + 2; j++) v[(i * (m + 2) + j) * each + at] = t[i][j];
}

/* The result's tiles; `h` and `w` are the result's. */
template <int m>
static __device__ __forceinline__ void result(const float *__restrict__ v, float *__restrict__ y, NUMBERS)
{
    OWN
    float t[m + 2][m + 2], d[m][m];
#pragma unroll
    for (int i = 0; i < m + 2; i++)
#pragma unroll
        for (int j = 0; j < m + 2; j++) t[i][j] = v[(i * (m + 2) + j) * each + at];
    both<A<m>, true>(t, d);
#pragma unroll
    for (int i = 0; i < m; i++)
#pragma unroll
        for (int j = 0; j < m; j++) {
            index_t to = row * m + i, along = col * m + j;
            if (to < h && along < w) y[(plane * h + to) * w + along] = d[i][j];
        }
}

/* U of the filters, [place][result channel][image channel]; turned: of dgrad, whose result are the c channels. */
template <int m>
static __device__ __forceinline__ void filter(const float *__restrict__ w, float *__restrict__ u, index_t k, index_t c,
                                              index_t turned)
{
    index_t own = blockIdx.x * (index_t)THREADS + threadIdx.x;
    if (own >= k * c) return;
    float g[TAPS][TAPS], t[m + 2][m + 2];
#pragma unroll
    for (int i = 0; i < TAPS; i++)
#pragma unroll
        for (int j = 0; j < TAPS; j++) {
            int tap = i * TAPS + j;
            g[i][j] = w[own * TAPS * TAPS + (turned ? TAPS * TAPS - 1 - tap : tap)];
        }
    both<G<m>, false>(g, t);
    index_t at = turned ? own % c * k + own / c : own;
#pragma unroll
    for (int i = 0; i < m + 2; i++)
#pragma unroll
        for (int j = 0; j < m + 2; j++) u[(i * (m + 2) + j) * k * c + at] = t[i][j];
}

/* The filters' gradient of U. */
template <int m>
static __device__ __forceinline__ void filter_gradient(const float *__restrict__ u, float *__restrict__ dw, index_t k,
                                                       index_t c)
{
    index_t own = blockIdx.x * (index_t)THREADS + threadIdx.x;
    if (own >= k * c) return;
    float t[m + 2][m + 2], g[TAPS][TAPS];
#pragma unroll
    for (int i = 0; i < m + 2; i++)
#pragma unroll
        for (int j = 0; j < m + 2; j++) t[i][j] = u[(i * (m + 2) + j) * k * c + own];
    both<G<m>, true>(t, g);
#pragma unroll
    for (int i = 0; i < TAPS; i++)
#pragma unroll
        for (int j = 0; j < TAPS; j++) dw[own * TAPS * TAPS + i * TAPS + j] = g[i][j];
}

#define GIVEN planes, channels, h, w, top, left, down, across

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd2_image(const float *__restrict__ x, float *__restrict__ v, index_t planes, index_t channels, index_t h,
                    index_t w, index_t top, index_t left, index_t down, index_t across)
{
    image<2>(x, v, GIVEN);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd2_gradient(const float *__restrict__ dy, float *__restrict__ v, index_t planes, index_t channels, index_t h,
                       index_t w, index_t top, index_t left, index_t down, index_t across)
{
    gradient<2>(dy, v, GIVEN);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd2_result(const float *__restrict__ v, float *__restrict__ y, index_t planes, index_t channels, index_t h,
                     index_t w, index_t top, index_t left, index_t down, index_t across)
{
    result<2>(v, y, GIVEN);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd2_filter(const float *__restrict__ w, float *__restrict__ u, index_t k, index_t c, index_t turned)
{
    filter<2>(w, u, k, c, turned);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd2_dfilter(const float *__restrict__ u, float *__restrict__ dw, index_t k, index_t c)
{
    filter_gradient<2>(u, dw, k, c);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd4_image(const float *__restrict__ x, float *__restrict__ v, index_t planes, index_t channels, index_t h,
                    index_t w, index_t top, index_t left, index_t down, index_t across)
{
    image<4>(x, v, GIVEN);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd4_gradient(const float *__restrict__ dy, float *__restrict__ v, index_t planes, index_t channels, index_t h,
                       index_t w, index_t top, index_t left, index_t down, index_t across)
{
    gradient<4>(dy, v, GIVEN);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd4_result(const float *__restrict__ v, float *__restrict__ y, index_t planes, index_t channels, index_t h,
                     index_t w, index_t top, index_t left, index_t down, index_t across)
{
    result<4>(v, y, GIVEN);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd4_filter(const float *__restrict__ w, float *__restrict__ u, index_t k, index_t c, index_t turned)
{
    filter<4>(w, u, k, c, turned);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd4_dfilter(const float *__restrict__ u, float *__restrict__ dw, index_t k, index_t c)
{
    filter_gradient<4>(u, dw, k, c);
}
