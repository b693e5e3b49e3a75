/* oneDNN's primitives of one launch, in order: reorders into the layouts that its implementations take, themselves,
   reorders back. Its functions come as addresses: no header of it is needed. */

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

struct chain {
    void *const *memories; /* what oneDNN knows the operands by */
    int (*move)(void *memory, void *address);
    int (*execute)(const void *primitive, void *stream, int count, const struct argument *arguments);
    int (*wait)(void *stream);
    void *stream;
    const struct step *steps;
    int64_t count, operands;
    void *places[]; /* where the operands' numbers lie, in the problem's order */
};

/* Where a step fails the result stays what it was, and is refused as wrong. */
void onednn_chain(struct chain *c)
{
    for (int64_t i = 0; i < c->operands; i++)
        if (c->move(c->memories[i], c->places[i])) return;
    for (int64_t i = 0; i < c->count; i++)
        if (c->execute(c->steps[i].primitive, c->stream, (int)c->steps[i].count, c->steps[i].arguments)) return;
    c->wait(c->stream);
}
