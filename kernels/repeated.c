/* Several calls of an entry as one, so that 21 calls against 20 are exactly 5 % more work. The inner
 * argument lies behind the head, where a loop that moves operands finds its slots. */
#include <stdint.h>

typedef struct {
    void (*function)(void *);
    int64_t count;
    char argument[];
} repetition;

void call_repeatedly(repetition *r)
{
    for (int64_t i = 0; i < r->count; i++) r->function(r->argument);
}
