/* NNPACK's convolution, reached by its address: y of x and w; dx as y of dy and the turned filter. */

#include <stddef.h>
#include <stdint.h>

struct size {
    size_t width, height;
};

struct padding {
    size_t top, right, bottom, left;
};

typedef int output(int algorithm, size_t batch, size_t inputs, size_t outputs, struct size image, struct padding pad,
                   struct size kernel, const float *x, const float *w, const float *bias, float *y, void *scratch,
                   size_t *scratch_size, int activation, const void *parameters, void *threads, void *profile);

struct convolution {
    const float *first, *second;
    float *result;
    output *call;
    int64_t algorithm, batch, inputs, outputs; /* channels that are read, and written */
    struct size image;
    struct padding pad;
    struct size kernel;
    const float *bias; /* zeros */
    float *turned;     /* room for a turned filter, or none where it is taken as it is */
    void *scratch;
    size_t scratch_size;
};

/* The same filters with their two channels exchanged, rows and columns backward. */
static void turn(const struct convolution *c)
{
    size_t taps = c->kernel.width * c->kernel.height;
    for (int64_t in = 0; in < c->inputs; in++)
        for (int64_t out = 0; out < c->outputs; out++) {
            const float *from = c->second + (in * c->outputs + out) * taps;
            float *to = c->turned + (out * c->inputs + in) * taps;
            for (size_t tap = 0; tap < taps; tap++)
                to[tap] = from[taps - 1 - tap];
        }
}

static int call(struct convolution *c, void *scratch, size_t *size)
{
    return c->call((int)c->algorithm, c->batch, c->inputs, c->outputs, c->image, c->pad, c->kernel, c->first,
                   c->turned ? c->turned : c->second, c->bias, c->result, scratch, size, 0, NULL, NULL, NULL);
}

/* Its status; the bytes of scratch that it wants. */
int nnpack_scratch(struct convolution *c)
{
    return call(c, NULL, &c->scratch_size);
}

/* A status other than 0 leaves the result what it was, which is refused as wrong. */
void nnpack_convolution(struct convolution *c)
{
    if (c->turned)
        turn(c);
    call(c, c->scratch, &c->scratch_size);
}
