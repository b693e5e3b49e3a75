/* An entry that calls a Python callable: rivals without a C entry run in the same loop. The symbols are
 * the interpreter's own, which has loaded this file. */
extern void *PyObject_CallNoArgs(void *);
extern void *PyErr_Occurred(void);
extern void Py_DecRef(void *);

#include <stdint.h>

typedef struct {
    void *callable;
    volatile int32_t *stop;
} argument;

void call_python(const argument *p)
{
    if (PyErr_Occurred()) return;
    void *result = PyObject_CallNoArgs(p->callable);
    if (result)
        Py_DecRef(result);
    else
        *p->stop = 1; /* the error ends the look */
}
