"""Distribution kernelgap: what is installed, and what each extra adds."""

from setuptools import find_packages, setup

EXTRAS = {
    "torch": ["torch>=2.6"],
    "mkl": ["mkl>=2025"],
    "cffi": ["cffi>=1.17"],
    "numba": ["numba>=0.61"],
    "fftw": ["pyfftw>=0.15"],
    "onednn": ["onednn-cpu-gomp==2023.1.0; sys_platform == 'linux' and platform_machine == 'x86_64'"],  # has Winograd
    "ncnn": ["ncnn>=1.0.20250503"],
    "onnxruntime": ["onnxruntime>=1.20"],
    "cuda13": ["cupy-cuda13x>=14,<15", "cuda-pathfinder>=1.3.4,<2", "nvidia-ml-py>=13"],
    "cuda12": ["cupy-cuda12x>=14,<15", "cuda-pathfinder>=1.3.4,<2", "nvidia-ml-py>=12"],
    "pycuda": ["pycuda>=2025.1"],
    "skcuda": ["scikit-cuda==0.5.3", "cuda-pathfinder>=1.3.4,<2"],
    "test": ["pytest>=8", "pytest-xdist>=3", "pyperf>=2.8"],
    "dev": [
        "pytest>=8",
        "pytest-xdist>=3",
        "pyperf>=2.8",
        "ruff>=0.9",
        "mypy>=1.14",
        "scipy-stubs>=1.15",
        "types-psutil>=6",
        # Reads what ptxas made of our kernels (tests/compile/test_sass.py): 5 MB, for Linux alone.
        "nvidia-cuda-nvdisasm>=13.2; sys_platform == 'linux' and platform_machine in 'x86_64 aarch64'",
    ],
}

setup(
    name="kernelgap",
    version="1.0.0",
    description="Explains, down to the kernel, why a deep-learning step takes the time it takes",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["kernels*", "micro*", "macro*", "reports*"]),
    package_data={"": ["*.c", "*.cu", "*.json", "*.txt"]},
    install_requires=[
        "numpy>=2.0",
        "scipy>=1.14",
        "msgspec>=0.19",
        "rich>=13",
        "threadpoolctl>=3.5",
        "psutil>=6",
        "matplotlib>=3.9",
        "cloudpickle>=3",
    ],
    extras_require=EXTRAS,
)
