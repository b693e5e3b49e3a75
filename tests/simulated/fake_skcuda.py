"""What stands in for the package scikit-cuda: its files, as far as they are used, and in C the libraries below it."""

PACKAGE = {
    "skcuda/__init__.py": """
        try:
            __import__('pkg_resources').declare_namespace(__name__)
        except ImportError:
            from pkgutil import extend_path
            __path__ = extend_path(__path__, __name__)
        from .version import __version__
        """,
    "skcuda/version.py": """
        import pkg_resources
        __version__ = pkg_resources.require('scikit-cuda')[0].version
        """,
    "skcuda/utils.py": r"""
        PATTERN = '^\s+SONAME'
        def get_soname(filename):
            raise RuntimeError('no library name found')
        def find_lib_path(name):
            raise RuntimeError('the real one asks a shell')
        """,
    "skcuda/cudadrv.py": """
        import ctypes
        _libcuda = ctypes.cdll.LoadLibrary('libcuda.so')
        _libcuda.cuPointerGetAttribute
        """,
    "skcuda/cudart.py": """
        import ctypes
        _libcudart = None
        for name in ['libcudart.so', 'libcudart.so.10.1']:
            try:
                _libcudart = ctypes.cdll.LoadLibrary(name)
            except OSError:
                pass
            else:
                break
        if _libcudart == None:
            raise OSError('CUDA runtime library not found')
        """,
    "skcuda/cublas.py": """
        import ctypes, re, warnings
        import numpy as np
        from . import cudart, cudadrv, utils
        _libcublas = ctypes.cdll.LoadLibrary('libcublas.so')

        class cublasError(Exception): pass
        class cublasNotInitialized(cublasError): pass
        class cublasExecutionFailed(cublasError): pass

        def cublasCheckStatus(status):
            if status:
                raise {1: cublasNotInitialized, 13: cublasExecutionFailed}[status]

        _libcublas.cublasCreate_v2.argtypes = [ctypes.c_void_p]
        def cublasCreate():
            handle = ctypes.c_void_p()
            cublasCheckStatus(_libcublas.cublasCreate_v2(ctypes.byref(handle)))
            return handle.value

        def cublasGetVersion(handle):
            version = ctypes.c_int()
            cublasCheckStatus(_libcublas.cublasGetVersion_v2(ctypes.c_void_p(handle), ctypes.byref(version)))
            return version.value

        def _get_cublas_version():
            cublas_path = utils.find_lib_path('cublas')
            try:
                return re.search(r'[\\D\\.]+\\.+(\\d+)\\.(\\d+)', utils.get_soname(cublas_path)).groups()
            except:
                warnings.warn('creating CUBLAS context to get version number')
                return str(cublasGetVersion(cublasCreate()))
        _cublas_version = _get_cublas_version()

        def cublasSetStream(handle, id):
            cublasCheckStatus(_libcublas.cublasSetStream_v2(ctypes.c_void_p(handle), ctypes.c_void_p(id)))

        _places = [ctypes.c_void_p] + 5 * [ctypes.c_int] + [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        _libcublas.cublasSgemm_v2.argtypes = _places
        def cublasSgemm(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc):
            cublasCheckStatus(_libcublas.cublasSgemm_v2(
                handle, transa, transb, m, n, k, ctypes.byref(ctypes.c_float(alpha)), int(A), lda, int(B), ldb,
                ctypes.byref(ctypes.c_float(beta)), int(C), ldc))

        _libcublas.cublasSgeam.argtypes = [ctypes.c_void_p] + 4 * [ctypes.c_int] + [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
            ctypes.c_void_p, ctypes.c_int]
        def cublasSgeam(handle, transa, transb, m, n, alpha, A, lda, beta, B, ldb, C, ldc):
            cublasCheckStatus(_libcublas.cublasSgeam(
                handle, transa, transb, m, n, ctypes.byref(ctypes.c_float(alpha)), int(A), lda,
                ctypes.byref(ctypes.c_float(beta)), int(B), ldb, int(C), ldc))
        """,
    "skcuda/cufft.py": """
        import ctypes
        _libcufft = ctypes.cdll.LoadLibrary('libcufft.so')

        class cufftError(Exception): pass
        class cufftInvalidSize(cufftError): pass
        class cufftExecFailed(cufftError): pass

        class _types:
            plan = ctypes.c_int
            stream = ctypes.c_void_p

        def cufftCheckStatus(status):
            if status:
                raise {8: cufftInvalidSize, 6: cufftExecFailed}[status]

        _libcufft.cufftGetVersion.argtypes = [ctypes.c_void_p]
        _version = ctypes.c_int()
        cufftCheckStatus(_libcufft.cufftGetVersion(ctypes.byref(_version)))

        _libcufft.cufftPlanMany.argtypes = [
            ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int,
            ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int]
        def cufftPlanMany(rank, n, inembed, istride, idist, onembed, ostride, odist, fft_type, batch):
            plan = _types.plan()
            cufftCheckStatus(_libcufft.cufftPlanMany(
                ctypes.byref(plan), rank, n, inembed, istride, idist, onembed, ostride, odist, fft_type, batch))
            return plan

        _libcufft.cufftSetStream.argtypes = [_types.plan, _types.stream]
        def cufftSetStream(plan, stream):
            cufftCheckStatus(_libcufft.cufftSetStream(plan, stream))

        _libcufft.cufftExecR2C.argtypes = [_types.plan, ctypes.c_void_p, ctypes.c_void_p]
        def cufftExecR2C(plan, idata, odata):
            cufftCheckStatus(_libcufft.cufftExecR2C(plan, idata, odata))

        _libcufft.cufftDestroy.argtypes = [_types.plan]
        def cufftDestroy(plan):
            cufftCheckStatus(_libcufft.cufftDestroy(plan))
        """,
    "skcuda/misc.py": """
        import numpy as np
        from . import cublas
        num_types = [np.typeDict[t] for t in np.typecodes['AllInteger'] + np.typecodes['AllFloat']]
        def get_compute_capability():
            return np.float('9.0')
        def is_complex(kind):
            return kind in np.sctypes['complex'] and kind not in np.sctypes['float']
        """,
    "skcuda/broken.py": """
        import numpy as np
        np.typeDict
        raise RuntimeError('no such thing')
        """,
    "scikit_cuda-0.5.3.dist-info/METADATA": """
        Metadata-Version: 2.1
        Name: scikit-cuda
        Version: 0.5.3
        """,
}
LIBRARY = r"""
int created, status, properties;
unsigned long stream;
int cuPointerGetAttribute(void) { return 0; }
int cublasGetProperty(int which, int *value)
{
    *value = which == 0 ? 13 : which == 1 ? 1 : 99;
    return properties;
}
int cublasCreate_v2(unsigned long *handle) { created++; *handle = 0x123456789a; return status; }
int cublasGetVersion_v2(void *handle, int *version) { *version = 130102; return status; }
int cublasSetStream_v2(void *handle, unsigned long value) { stream = value; return status; }
int cublasSgemm_v2(unsigned long handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a,
    int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    if (handle != 0x123456789a) return 1;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                sum += a[ta ? p + i * lda : i + p * lda] * b[tb ? j + p * ldb : p + j * ldb];
            c[i + j * ldc] = *alpha * sum + (*beta ? *beta * c[i + j * ldc] : 0);
        }
    return status;
}
int plans, told[11], executed;
int cufftGetVersion(int *version) { *version = 12100; return 0; }
int cufftPlanMany(int *plan, int rank, const int *n, const int *from, int step, int far, const int *to, int apart,
    int away, int kind, int count)
{
    const int all[] = {rank, n[0], n[1], from[1], step, far, to[1], apart, away, kind, count};
    for (int i = 0; i < 11; i++) told[i] = all[i];
    plans++, *plan = 7;
    return status;
}
int cufftSetStream(int plan, unsigned long value) { stream = value; return plan != 7; }
int cufftExecR2C(int plan, const float *x, float *y) { executed = plan; y[0] = x[0]; return status; }
int cufftDestroy(int plan) { plans--; return 0; }
int cublasSgeam(unsigned long handle, int ta, int tb, int m, int n, const float *alpha, const float *a, int lda,
    const float *beta, const float *b, int ldb, float *c, int ldc)
{
    if (handle != 0x123456789a || tb) return 1;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++)
            c[i + j * ldc] = *alpha * a[ta ? j + i * lda : i + j * lda] + (*beta ? *beta * b[i + j * ldb] : 0);
    return status;
}
"""
