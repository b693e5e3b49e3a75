/* MKL asks this whether the processor is one of its vendor's, and takes its kernels by the answer. Preloaded, the answer
 * is yes on any processor, and it takes those of the instructions that there are. */

int mkl_serv_intel_cpu_true(void) { return 1; }
