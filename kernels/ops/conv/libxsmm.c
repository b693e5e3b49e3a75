/* libxsmm's direct convolution in its own blocked layout, with copies into it and out of it by its own functions. */

#include <libxsmm.h>
#include <stdint.h>

enum { FORWARD, DGRAD, WGRAD };

/* `tensor_bytes`, `scratch_bytes`: what libxsmm_prepare asks for; `memory`, `scratch`: where that is. */
typedef struct {
    void *first, *second, *result;
    int64_t pass, n, c, h, w, k, r, s, stride, pad_down, pad_across;
    libxsmm_dnn_layer *layer;
    libxsmm_dnn_tensor *tensors[3];
    void *memory[3], *scratch;
    int64_t tensor_bytes[3], scratch_bytes;
} convolution;

static const libxsmm_dnn_tensor_type types[3][3] = {
    {LIBXSMM_DNN_REGULAR_INPUT, LIBXSMM_DNN_REGULAR_FILTER, LIBXSMM_DNN_REGULAR_OUTPUT},
    {LIBXSMM_DNN_GRADIENT_OUTPUT, LIBXSMM_DNN_REGULAR_FILTER, LIBXSMM_DNN_GRADIENT_INPUT},
    {LIBXSMM_DNN_REGULAR_INPUT, LIBXSMM_DNN_GRADIENT_OUTPUT, LIBXSMM_DNN_GRADIENT_FILTER},
};
static const libxsmm_dnn_compute_kind kinds[] = {
    LIBXSMM_DNN_COMPUTE_KIND_FWD, LIBXSMM_DNN_COMPUTE_KIND_BWD, LIBXSMM_DNN_COMPUTE_KIND_UPD};

/* Of the plain operands. */
static libxsmm_dnn_tensor_format format(const convolution *p, int operand)
{
    libxsmm_dnn_tensor_type type = types[p->pass][operand];
    int filter = type == LIBXSMM_DNN_REGULAR_FILTER || type == LIBXSMM_DNN_GRADIENT_FILTER;
    return filter ? LIBXSMM_DNN_TENSOR_FORMAT_KCRS : LIBXSMM_DNN_TENSOR_FORMAT_NCHW;
}

const char *libxsmm_described(void) { return libxsmm_get_target_arch(); }

/* The layer, and how much memory it wants: its status, 0 where it takes the problem. */
int libxsmm_prepare(convolution *p)
{
    libxsmm_dnn_conv_desc d = {0};
    libxsmm_dnn_err_t status;
    libxsmm_init();
    d.N = (int)p->n, d.C = (int)p->c, d.H = (int)p->h, d.W = (int)p->w, d.K = (int)p->k;
    d.R = (int)p->r, d.S = (int)p->s, d.u = d.v = (int)p->stride;
    d.pad_h = (int)p->pad_down, d.pad_w = (int)p->pad_across;
    d.threads = 1;
    d.datatype_in = d.datatype_out = LIBXSMM_DNN_DATATYPE_F32;
    d.buffer_format = d.filter_format = LIBXSMM_DNN_TENSOR_FORMAT_LIBXSMM;
    d.algo = LIBXSMM_DNN_CONV_ALGO_DIRECT;
    d.options = LIBXSMM_DNN_CONV_OPTION_OVERWRITE;
    d.fuse_ops = LIBXSMM_DNN_CONV_FUSE_NONE;
    p->layer = libxsmm_dnn_create_conv_layer(d, &status);
    for (int i = 0; i < 3 && !status; i++) {
        libxsmm_dnn_tensor_datalayout *layout = libxsmm_dnn_create_tensor_datalayout(p->layer, types[p->pass][i], &status);
        if (status) break;
        p->tensor_bytes[i] = libxsmm_dnn_get_tensor_size(layout, &status);
        p->tensors[i] = libxsmm_dnn_link_tensor(layout, p, &status); /* libxsmm_bind says where */
        libxsmm_dnn_destroy_tensor_datalayout(layout);
    }
    if (!status) p->scratch_bytes = (int64_t)libxsmm_dnn_get_scratch_size(p->layer, LIBXSMM_DNN_COMPUTE_KIND_ALL, &status);
    return (int)status;
}

/* To the memory that is there now; its status. */
int libxsmm_bind(convolution *p)
{
    int status = 0;
    for (int i = 0; i < 3 && !status; i++) {
        status = (int)libxsmm_dnn_set_tensor_data_ptr(p->tensors[i], p->memory[i]);
        if (!status) status = (int)libxsmm_dnn_zero_tensor(p->tensors[i]);
        if (!status) status = (int)libxsmm_dnn_bind_tensor(p->layer, p->tensors[i], types[p->pass][i]);
    }
    return status ? status : (int)libxsmm_dnn_bind_scratch(p->layer, LIBXSMM_DNN_COMPUTE_KIND_ALL, p->scratch);
}

void libxsmm_release(convolution *p)
{
    for (int i = 0; i < 3; i++)
        if (p->tensors[i]) libxsmm_dnn_destroy_tensor(p->tensors[i]);
    if (p->layer) libxsmm_dnn_destroy_conv_layer(p->layer);
}

/* Where a step fails the result stays what it was, and is refused as wrong. */
void libxsmm_convolution(convolution *p)
{
    if (libxsmm_dnn_copyin_tensor(p->tensors[0], p->first, format(p, 0))) return;
    if (libxsmm_dnn_copyin_tensor(p->tensors[1], p->second, format(p, 1))) return;
    if (libxsmm_dnn_execute_st(p->layer, kinds[p->pass], 0, 0)) return;
    libxsmm_dnn_copyout_tensor(p->tensors[2], p->result, format(p, 2));
}
