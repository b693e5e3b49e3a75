/* The C library's memcpy, by the argument that stream.c takes. */
#include <stdint.h>
#include <string.h>

typedef struct {
    const float *a, *b;
    float *y;
    int64_t count;
} argument;

void stream_memcpy(const argument *p) { memcpy(p->y, p->a, 4 * p->count); }
