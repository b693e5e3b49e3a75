/* An entry that calls a Python callable: rivals without a C entry run in the same loop. The symbols are
 * the interpreter's own, which has loaded this file. */
extern void *PyObject_CallNoArgs(void *);
extern void *PyErr_Occurred(void);
extern void Py_DecRef(void *);

typedef struct {
    void *callable;
} argument;

void call_python(const argument *p)
{
    if (PyErr_Occurred()) return; /* the first error ends the look */
    void *result = PyObject_CallNoArgs(p->callable);
    if (result) Py_DecRef(result);
}
