/* Copy and triad as STREAM writes them (McCalpin 1995); `size` in bytes. */
#include <stdint.h>

void plain_copy(const float *restrict a, float *restrict y, int64_t size)
{
    for (int64_t i = 0; i < size / 4; i++) y[i] = a[i];
}

void plain_triad(const float *restrict a, const float *restrict b, float *restrict y, int64_t size)
{
    for (int64_t i = 0; i < size / 4; i++) y[i] = a[i] + 3.0f * b[i];
}
