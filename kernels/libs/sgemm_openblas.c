/* BLAS's sgemm_ by SciPy's OpenBLAS, whose name for it is scipy_sgemm_: preloaded, it answers before the library that a
 * program was linked with. Its file is LIBRARY, given when this is compiled; it is opened at the first product, since
 * most processes that a program starts make none. */

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef void Sgemm(const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha,
                   const float *a, const int *lda, const float *b, const int *ldb, const float *beta, float *c,
                   const int *ldc);

static Sgemm *product;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    product = library ? (Sgemm *)dlsym(library, "scipy_sgemm_") : NULL;
    if (!product) {
        fprintf(stderr, "sgemm_openblas: no scipy_sgemm_ in %s\n", LIBRARY);
        abort();
    }
}

void sgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha,
            const float *a, const int *lda, const float *b, const int *ldb, const float *beta, float *c,
            const int *ldc) {
    pthread_once(&once, find);
    product(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
