/* A call of a user's own C function: the addresses of its operands, then the problem's whole numbers. How many there are of
 * each depends on the operation: TYPES, OPERANDS, NUMBERS and ARGUMENTS are given with the compiler's flags. */
#include <stdint.h>

typedef struct {
    void (*function)(TYPES);
    void *operand[OPERANDS];
    int64_t number[NUMBERS];
} users;

void users_call(const users *x) { x->function(ARGUMENTS); }
