/* Loaded by the CUDA driver into every process under CUDA_INJECTION64_PATH: a line "ns name" for each kernel
   that ran, to the file that KERNELS_FILE names, at the end of the process. */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *out;

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *records)
{
    *size = 4 << 20;
    *records = 0;
    if (posix_memalign((void **)buffer, 8, *size))
        *buffer = NULL, *size = 0;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    CUpti_Activity *record = NULL;
    (void)context, (void)stream, (void)size;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
            continue;
        CUpti_ActivityKernel10 *kernel = (CUpti_ActivityKernel10 *)record;
        fprintf(out, "%llu %s\n", (unsigned long long)(kernel->end - kernel->start), kernel->name);
    }
    free(buffer);
}

static void finish(void)
{
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    fflush(out);
}

int InitializeInjection(void)
{
    const char *path = getenv("KERNELS_FILE");
    out = path ? fopen(path, "w") : NULL;
    if (!out || cuptiActivityRegisterCallbacks(requested, completed) != CUPTI_SUCCESS)
        return 0;
    if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
        return 0;
    atexit(finish);
    return 1;
}
