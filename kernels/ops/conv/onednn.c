/* oneDNN's primitives of one convolution, in order: reorders into the layouts that its implementation takes, itself,
   a reorder back. Its functions come as addresses: no header of it is needed. */

#include <stdint.h>

struct argument { /* dnnl_exec_arg_t */
    int32_t role;
    void *memory;
};

struct step {
    void *primitive;
    const struct argument *arguments;
    int64_t count;
};

struct convolution {
    void *operands[3]; /* where the numbers lie, in the problem's order */
    void *memories[3]; /* what oneDNN knows them by */
    int (*move)(void *memory, void *address);
    int (*execute)(const void *primitive, void *stream, int count, const struct argument *arguments);
    int (*wait)(void *stream);
    void *stream;
    const struct step *steps;
    int64_t count;
};

/* Where a step fails the result stays what it was, and is refused as wrong. */
void onednn_convolution(struct convolution *c)
{
    for (int i = 0; i < 3; i++)
        if (c->move(c->memories[i], c->operands[i]))
            return;
    for (int64_t i = 0; i < c->count; i++)
        if (c->execute(c->steps[i].primitive, c->stream, (int)c->steps[i].count, c->steps[i].arguments))
            return;
    c->wait(c->stream);
}
