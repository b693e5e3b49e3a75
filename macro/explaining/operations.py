"""Kinds of work of PyTorch's operations, by the names that its profiler gives them.

A composite has no kind: the operations that it calls have. Views, and operations that only handle shapes, are
`dispatch`. Three kinds hold more than their names say: `gemm` LAPACK's factorizations and solvers too, `element-wise`
Fourier transforms, `copy` operations that gather, scatter and sort.
"""

from __future__ import annotations

import functools
import re

COMPOSITE = "composite"  # in the table, where `kind` returns None
# Names without a namespace are of aten. Most that end in _, _out, _backward and so on are left out: see `stem`.
NAMES = {
    "gemm": """
        mm addmm bmm baddbmm addbmm mv addmv _addmm_activation _int_mm _scaled_mm _grouped_mm _scaled_grouped_mm
        _mixed_dtypes_linear _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int8pack_mm _dyn_quant_matmul_4bit
        mkldnn_linear mkldnn_linear_backward_input mkldnn_linear_backward_weights _foreach_mm _sparse_semi_structured_mm
        _sparse_semi_structured_addmm inductor::_mm_plus_mm inductor::_weight_int4pack_mm_cpu_tensor _linalg_det
        _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd linalg_cholesky_ex linalg_eig
        linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu
        linalg_lu_factor_ex linalg_lu_solve linalg_qr linalg_solve_triangular cholesky cholesky_inverse
        _cholesky_solve_helper triangular_solve geqrf ormqr
        """,
    "convolution": """
        mkldnn_convolution convolution_backward convolution_overrideable convolution_backward_overrideable
        _slow_conv2d_forward _slow_conv2d_backward slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d
        slow_conv_transpose2d slow_conv_transpose3d _conv_depthwise2d conv_depthwise3d conv_tbc
        _nnpack_spatial_convolution cudnn_convolution cudnn_convolution_relu cudnn_convolution_add_relu
        cudnn_convolution_transpose miopen_convolution miopen_convolution_relu miopen_convolution_add_relu
        miopen_convolution_transpose miopen_depthwise_convolution
        """,
    "recurrent cell": """
        mkldnn_rnn_layer _cudnn_rnn miopen_rnn _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl
        _thnn_fused_gru_cell _lstm_mps lstm_mps_backward
        """,
    "attention": """
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention _flash_attention_forward
        _scaled_dot_product_efficient_attention _efficient_attention_forward _scaled_dot_product_cudnn_attention
        _scaled_dot_product_fused_attention_overrideable _flash_attention_backward _efficient_attention_backward
        _flash_attention_forward_no_dropout_inplace _cudnn_attention_forward _cudnn_attention_backward
        _triton_scaled_dot_attention _triton_multi_head_attention
        """,
    "normalization": """
        native_batch_norm native_layer_norm native_group_norm _native_batch_norm_legit _batch_norm_with_update
        _native_batch_norm_legit_no_training _batch_norm_no_update batch_norm_backward batch_norm_stats batch_norm_elemt
        batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_update_stats batch_norm_backward_elemt
        batch_norm_backward_reduce cudnn_batch_norm miopen_batch_norm quantized_batch_norm _weight_norm_interface renorm
        """,
    "pooling": """
        max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d
        adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d max_unpool2d max_unpool3d
        mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_adaptive_avg_pool2d quantized_max_pool1d quantized_max_pool2d
        quantized_max_pool3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
        upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
        _upsample_nearest_exact3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa grid_sampler_2d
        grid_sampler_3d cudnn_grid_sampler _grid_sampler_2d_cpu_fallback
        """,
    "embedding": """
        embedding embedding_dense_backward embedding_renorm _embedding_bag _embedding_bag_forward_only
        _embedding_bag_dense_backward _embedding_bag_per_sample_weights_backward
        """,
    "element-wise": """
        abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not
        bitwise_or bitwise_right_shift bitwise_xor bucketize ceil clamp clamp_max clamp_min complex conj_physical
        _conj_physical copysign cos cosh deg2rad digamma div elu eq erf erfc erfinv exp exp2 expm1 floor floor_divide
        fmax fmin fmod frac frexp gcd ge gelu glu glu_jvp glu_backward_jvp gt hardshrink hardsigmoid hardswish hardtanh
        heaviside hypot i0 igamma igammac isclose isfinite isin isinf isnan isneginf isposinf lcm ldexp le leaky_relu
        lerp lgamma log log10 log1p log2 log_sigmoid_forward log_sigmoid_backward logaddexp logaddexp2 logical_and
        logical_not logical_or logical_xor logit lt masked_fill maximum minimum mish mul mvlgamma nan_to_num
        native_dropout _masked_scale _fused_dropout ne neg nextafter polar polygamma pow prelu _prelu_kernel rad2deg
        reciprocal relu relu6 remainder round rrelu_with_noise rsqrt rsub searchsorted sgn sigmoid sign signbit silu sin
        sinc sinh softplus softshrink sqrt square sub tan tanh threshold tril triu trunc where xlogy celu selu _add_relu
        _transform_bias_rescale_qkv _cdist_backward _pdist_backward linalg_cross cross _compute_linear_combination entr
        erfcx zeta ndtri log_ndtr i0e i1 i1e xlog1py _standard_gamma_grad _dirichlet_grad _fft_r2c _fft_c2r _fft_c2c
        _amp_update_scale _amp_foreach_non_finite_check_and_unscale fake_quantize_per_tensor_affine_cachemask
        fake_quantize_per_channel_affine_cachemask _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        _fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine
        _fused_moving_avg_obs_fq_helper __and__ __or__ __xor__ __lshift__ __rshift__ inductor::accumulate_grad addr
        __iand__ __ior__ __ixor__
        """,
    "reduction": """
        sum mean max min amax amin aminmax _aminmax argmax argmin prod any all nansum var std var_mean std_mean norm
        linalg_vector_norm linalg__powsum native_norm logsumexp cumsum cumprod cummax cummin _cummax_helper
        _cummin_helper logcumsumexp _logcumsumexp dot vdot count_nonzero trace median nanmedian mode kthvalue equal dist
        bincount histc histogram _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors
        segment_reduce _cdist_forward _pdist_forward _foreach_norm _foreach_max _foreach_powsum _is_all_true
        _is_any_true hash_tensor _segment_reduce_backward
        """,
    "softmax and loss": """
        _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data _masked_softmax nll_loss_forward
        nll_loss_backward nll_loss2d_forward nll_loss2d_backward mse_loss smooth_l1_loss huber_loss soft_margin_loss
        binary_cross_entropy binary_cross_entropy_with_logits multi_margin_loss multilabel_margin_loss_forward
        multilabel_margin_loss_backward _ctc_loss _cudnn_ctc_loss miopen_ctc_loss
        """,
    "optimizer": "_fused_sgd _fused_adam _fused_adamw _fused_adagrad",
    "copy": """
        copy_ _copy_from _copy_from_and_resize _reshape_copy cat _chunk_cat index _unsafe_index index_select index_copy
        index_add index_fill index_put _index_put_impl _unsafe_index_put _unsafe_masked_index
        _unsafe_masked_index_put_accumulate index_reduce gather scatter scatter_add scatter_reduce take put nonzero
        nonzero_static masked_select masked_scatter flip roll repeat_interleave sort topk unique_consecutive unique_dim
        unique_dim_consecutive _unique _unique2 im2col col2im unfold_backward pixel_shuffle pixel_unshuffle
        channel_shuffle native_channel_shuffle reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
        replication_pad2d replication_pad3d _foreach_copy _foreach_clone _pin_memory
        """,
    "clear": """
        zero fill arange range linspace logspace eye tril_indices triu_indices _foreach_zero _efficientzerotensor
        """,
    "layout reorder": "to_mkldnn _to_dense mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight _mkldnn_transpose",
    "packing": """
        _convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu _dyn_quant_pack_4bit_weight
        fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix fbgemm_linear_quantize_weight _wrapped_linear_prepack
        _cudnn_rnn_flatten_weight
        """,
    "random numbers": """
        bernoulli normal_ normal normal_functional uniform random exponential geometric cauchy log_normal multinomial
        binomial poisson randperm rand randn randint rand_like randn_like randint_like _standard_gamma _sample_dirichlet
        _philox_normal _philox_uniform _sobol_engine_draw _sobol_engine_scramble _fill_mem_eff_dropout_mask
        _cudnn_init_dropout_state rngprims::philox_rand
        """,
    "cast": """
        quantize_per_tensor quantize_per_tensor_dynamic quantize_per_channel dequantize int_repr
        _saturate_weight_to_fp16 _make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor
        quantization::_FloatToBfloat16Quantized quantization::_Bfloat16QuantizedToFloat
        """,
    "dispatch": """
        view view_as _unsafe_view _reshape_alias reshape reshape_as t numpy_T matrix_H mT mH adjoint transpose swapaxes
        swapdims permute movedim moveaxis expand expand_as broadcast_to broadcast_tensors slice select narrow as_strided
        unsqueeze squeeze flatten unflatten ravel detach alias unbind split split_with_sizes unsafe_split
        unsafe_split_with_sizes chunk unsafe_chunk tensor_split hsplit vsplit dsplit diagonal unfold real imag
        view_as_real view_as_complex _conj conj _neg_view resolve_conj resolve_neg atleast_1d atleast_2d atleast_3d
        meshgrid _mkldnn_reshape empty empty_like empty_strided empty_permuted new_empty new_empty_strided
        empty_quantized _empty_affine_quantized _empty_per_channel_affine_quantized resize resize_as _resize_output set
        set_data lift lift_fresh scalar_tensor item _local_scalar_dense is_nonzero result_type promote_types can_cast
        is_same_size is_set_to _has_same_storage_numel size stride numel storage_offset dim is_floating_point is_complex
        is_signed is_contiguous is_pinned is_inference is_conj is_neg _is_zerotensor is_leaf requires_grad _version
        output_nr retain_grad retains_grad data q_scale q_zero_point qscheme q_per_channel_scales
        q_per_channel_zero_points q_per_channel_axis choose_qparams_optimized _choose_qparams_per_tensor
        cudnn_is_acceptable _nnpack_available _fused_sdp_choice _use_cudnn_ctc_loss _shape_as_tensor
        _reshape_from_tensor _assert_async _assert_scalar _linalg_check_errors _functional_assert_async record_stream
        to_padded_tensor _make_dual _unpack_dual _fw_primal _lazy_clone _values _indices values indices
        profiler::_record_function_enter profiler::_record_function_enter_new profiler::_record_function_exit
        inductor::_reinterpret_tensor inductor::_alloc_from_pool inductor::resize_storage_bytes
        inductor_prims::inductor_reserve_rng_state
        """,
    COMPOSITE: """
        linear bilinear _trilinear matmul __matmul__ einsum tensordot inner kron chain_matmul linear_backward
        mkldnn_linear_backward conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
        _convolution _convolution_mode _convolution_double_backward thnn_conv2d slow_conv3d lstm gru rnn_tanh rnn_relu
        lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell quantized_lstm quantized_gru quantized_lstm_cell
        quantized_gru_cell _thnn_differentiable_lstm_cell_backward _thnn_differentiable_gru_cell_backward
        _pack_padded_sequence _pack_padded_sequence_backward _pad_packed_sequence pad_sequence
        scaled_dot_product_attention _scaled_dot_product_attention_math _native_multi_head_attention
        _transformer_encoder_layer_fwd _safe_softmax softmax log_softmax layer_norm batch_norm group_norm instance_norm
        rms_norm _fused_rms_norm _batch_norm_impl_index _batch_norm_impl_index_backward _weight_norm
        _weight_norm_differentiable_backward norm_except_dim frobenius_norm nuclear_norm cosine_similarity
        pairwise_distance pdist cdist _euclidean_dist max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_backward
        max_pool3d avg_pool1d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
        grid_sampler affine_grid_generator embedding_backward embedding_bag _embedding_bag_backward
        embedding_sparse_backward _embedding_bag_sparse_backward cross_entropy_loss nll_loss nll_loss_nd nll_loss2d
        l1_loss kl_div ctc_loss poisson_nll_loss cosine_embedding_loss hinge_embedding_loss margin_ranking_loss
        triplet_margin_loss multilabel_margin_loss log_sigmoid rrelu dropout feature_dropout alpha_dropout
        feature_alpha_dropout clip absolute negative positive subtract multiply divide true_divide greater greater_equal
        less less_equal not_equal arccos arccosh arcsin arcsinh arctan arctan2 arctanh fix float_power allclose nanmean
        quantile nanquantile cov corrcoef diff gradient trapezoid trapz cumulative_trapezoid cumprod_backward
        cummaxmin_backward value_selecting_reduction_backward logdet slogdet det inverse pinverse svd qr matrix_power
        matrix_exp cholesky_solve lu_solve _lu_with_info lu_unpack orgqr vander stft istft pad constant_pad_nd
        _pad_circular repeat tile stack _stack hstack vstack dstack column_stack row_stack concat concatenate block_diag
        cartesian_prod combinations rot90 fliplr flipud argsort msort argwhere nonzero_numpy take_along_dim one_hot diag
        diag_embed diagflat fill_diagonal slice_scatter select_scatter diagonal_scatter as_strided_scatter
        slice_backward select_backward diagonal_backward gather_backward trace_backward index_select_backward
        masked_select_backward masked_scatter_backward to _to_copy _to_cpu to_dense type_as contiguous clone pin_memory
        _autocast_to_reduced_precision _autocast_to_full_precision chalf ones ones_like zeros zeros_like new_zeros
        new_ones new_full full full_like _new_zeros_with_same_feature_meta hann_window hamming_window bartlett_window
        blackman_window kaiser_window _native_batch_norm_legit_functional fake_quantize_per_tensor_affine
        fake_quantize_per_channel_affine fused_moving_avg_obs_fake_quant fbgemm_linear_int8_weight
        fbgemm_linear_fp16_weight flatten_dense_tensors unflatten_dense_tensors _backward outer ger expit gammainc
        gammaincc gammaln multigammaln ndtr psi sum_to_size infinitely_differentiable_gelu_backward isreal histogramdd
        quantized_rnn_relu_cell quantized_rnn_tanh_cell
        """,
}
# The first match decides: names of many namespaces, of generated kernels, of events that are no operations.
PATTERNS = (
    (r"^((_?c10d\w*|symm_mem)::|(gloo|nccl|mpi|ucc|xccl):|torch\.distributed\.|record_param_comms)", "communication"),
    (r"(fused_.*(softmax|cross_entropy)|^quantized::softmax)", "softmax and loss"),
    (r"fused_.*(layer|batch|group|instance|rms)_norm", "normalization"),
    (r"fused_.*_pool[123]d", "pooling"),
    (r"fused_.*embedding", "embedding"),
    (r"fused_.*(nll_loss|mse_loss|l1_loss|huber_loss|binary_cross)", "softmax and loss"),
    (r"(cpp|triton_[a-z]+)_fused_((sum|mean|a?max|a?min|any|all|prod|argmax|argmin|cumsum)_)+\d+$", "reduction"),
    (r"(^|_)(cpp|triton_(poi|red|per))_fused_", "element-wise"),
    (r"^(autograd::engine::|torch::autograd::)|Backward\d*$", COMPOSITE),
    (r"^(Optimizer\.|enumerate\(DataLoader\)|ProfilerStep#|DistributedDataParallel\.)", COMPOSITE),
    (r"^(Torch-Compiled |TorchDynamo |AOTDispatcher |Pregraph bytecode|## Call Compiled|CompiledFunction)", COMPOSITE),
    (r"^mkldnn::_reorder_convolution", "layout reorder"),
    (r"^\w+::\w*(prepack(?!ed)|unpack|pack_gemm|_reorder_)", "packing"),
    (r"^\w+::(_is_mkldnn|_nbytes|data_ptr|_get_mkldnn|make_quantized_cell)", "dispatch"),
    (r"^_?(quantized|onednn|mkldnn|mkldnn_prepacked|sparse|mkl)::\w*(lstm|gru|rnn)", "recurrent cell"),
    (r"^_?quantized::\w*embedding", "embedding"),
    (r"^_?(quantized|onednn|mkldnn|mkldnn_prepacked)::_?q?conv", "convolution"),
    (r"^_?(quantized|onednn|mkldnn|sparse|mkl)::\w*(linear|matmul|int4mm)", "gemm"),
    (r"^(quantized|onednn)::q?\w*_norm", "normalization"),
    (r"^quantized::\w*pool", "pooling"),
    (r"^quantized::cat", "copy"),
    (r"^_?(quantized|onednn)::(q?add|q?mul|clamp|c?elu|hardswish|p?relu|leaky|sigmoid|dropout)", "element-wise"),
    (r"^detach_?$", "dispatch"),  # reported twice, once without its namespace
    (r"^aten::_foreach_", "element-wise"),
    (r"^aten::(fft|linalg|_cast)_", COMPOSITE),  # those that work themselves are listed
)
SUFFIX = re.compile(r"(_backward(_data|_input)?|_functional|_out|_)$")
TABLE = {name if "::" in name else f"aten::{name}": of for of, names in NAMES.items() for name in names.split()}


def stem(name: str) -> str:
    """Return an operation's name in the table, such as `aten::add` for `aten::add_`, else its full name."""
    form = name.replace("aten::special_", "aten::")
    while form not in TABLE:
        shorter = SUFFIX.sub("", form)
        if shorter == form:
            return name
        form = shorter
    return form


@functools.cache
def _lookup(name: str) -> str | None:
    """Return the kind by the table, else by the first pattern; a view that is copied is a copy."""
    if of := TABLE.get(stem(name)):
        return of
    if name.endswith("_copy") and TABLE.get(name.removesuffix("_copy")) == "dispatch":
        return "copy"
    return next((of for pattern, of in PATTERNS if re.search(pattern, name)), None)


def known(name: str) -> bool:
    """True if the table has an operation, composites included."""
    return _lookup(name) is not None


def kind(name: str, bare: bool = False) -> str | None:
    """Return the kind of work of an operation; None if it is a composite or not `known`.
    `bare`: it called nothing that has a kind but dispatch. oneDNN's transposed convolution is such, without an
    operation inside."""
    if bare and name == "aten::_convolution":
        return "convolution"
    of = _lookup(name)
    return None if of == COMPOSITE else of
