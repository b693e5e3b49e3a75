/* Dropout, forward and backward, a thread an element. Whether it is kept is told by a hash of its number and a key, so
 * that both ways drop the same (counter-based, as in Salmon et al. 2011; the mixer is Chris Wellons's lowbias32). The key
 * lies in memory and is made anew by a launch before: one that a captured graph passes would be the same for ever. The
 * first is made of whatever lay there; what looks for reads of memory never written names dropout_key for it. */
typedef long long index_t;

enum { THREADS = 256 };

static __device__ __forceinline__ unsigned mixed(unsigned x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

extern "C" __global__ void __launch_bounds__(32) dropout_key(unsigned *key)
{
    if (threadIdx.x == 0) key[0] = mixed(key[0] + 0x9e3779b9u);
}

/* Kept where the hash is at least `dropped`, a share of 2^32. */
extern "C" __global__ void __launch_bounds__(THREADS)
    dropout_both(const float *__restrict__ x, const float *__restrict__ dy, float *__restrict__ y,
                 float *__restrict__ dx, const unsigned *__restrict__ key, float scale, index_t units,
                 index_t dropped)
{
    index_t i = (index_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= units) return;
    bool kept = mixed((unsigned)i + key[0]) >= (unsigned)dropped;
    y[i] = kept ? x[i] * scale : 0;
    dx[i] = kept ? dy[i] * scale : 0;
}
