/* The largest error of a function of kernels/maths.c in units of the last place: one float in `step` between low
 * and high, against the C library in double precision. Reads nothing; prints `name error at x` a line. */
#include <stdio.h>
#include <stdlib.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double ulp(double want, float got)
{
    int exponent;
    double size = fabs(want) < 1.17549435e-38 ? 1.17549435e-38 : fabs(want);
    frexp(size, &exponent);
    return fabs(got - want) / ldexp(1.0, exponent - 24);
}

#define TRY(f, truth, low, high)                                                            \
    {                                                                                       \
        double worst = 0, at = 0;                                                           \
        for (uint64_t bits = 0; bits < 1ull << 32; bits += step * LANES) {                  \
            float x[LANES];                                                                 \
            for (int l = 0; l < LANES; l++) {                                               \
                uint32_t word = bits + step * l;                                            \
                memcpy(x + l, &word, 4);                                                    \
                if (!(x[l] >= low && x[l] <= high)) x[l] = high;                            \
            }                                                                               \
            vec got = f(load(x));                                                           \
            for (int l = 0; l < LANES; l++) {                                               \
                double error = ulp(truth((double)x[l]), got[l]);                            \
                if (!(error <= worst)) worst = error, at = x[l];                            \
            }                                                                               \
        }                                                                                   \
        printf(#f " %.3f %.9g\n", worst, at);                                               \
    }

int main(int count, char **given)
{
    uint64_t step = count > 1 ? strtoull(given[1], 0, 10) : 997;
    TRY(exp_of, exp, -87.0f, 88.0f)
    TRY(exp_of_negative, exp, -1.0f, 0.0f)
    TRY(expm1_of, expm1, 0.0f, 80.0f)
    TRY(sigmoid_of, sigmoid, -80.0f, 1e30f)
    TRY(tanh_of, tanh, -1e30f, 1e30f)
    TRY(log_of, log, 1.17549435e-38f, 3e38f)
    return 0;
}
