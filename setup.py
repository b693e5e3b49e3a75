"""Distribution kernelgap: one package of the folders here, its command, and what each extra adds."""

import re
import shutil
import subprocess
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

ROOMS = "kernels|micro|macro|reports"
# What a checkout calls `micro.gemm` is `kernelgap.micro.gemm` in the wheel, and `kernelgap gemm` to type.
WHEEL = (
    (rf"^(\s*)from ({ROOMS})(?=[. ])", r"\1from kernelgap.\2"),
    (rf"^(\s*)import ((?:{ROOMS})\.\S+ as )", r"\1import kernelgap.\2"),
    (rf"^(\s*)import ({ROOMS})$", r"\1from kernelgap import \2"),
    (r"python3? -m micro\.", "kernelgap "),
    (r"\brun micro\.", "run kernelgap "),
    (r"python3? -m (?:micro all|macro|reports)\b", lambda match: "kernelgap" + " all" * ("micro" in match[0])),
    (r"python3? -m micro\b", "kernelgap list"),
    (r"python3? -m kernels\b", "kernelgap doctor"),
)


def in_wheel(source):
    """Return the text of a module as the wheel has it: its imports and commands by the names that hold there."""
    for pattern, replacement in WHEEL:
        source = re.sub(pattern, replacement, source, flags=re.M)
    return source


class OnePackage(build_py):
    """The build of the package kernelgap from the folders of the checkout, with kernelgap.py as its __init__.py."""

    def finalize_options(self):
        super().finalize_options()
        if not self.editable_mode:
            self.build_lib = str(Path(self.build_lib, "kernelgap"))

    def run(self):
        if self.editable_mode:
            super().run()
            return
        package = Path(self.build_lib)
        if package.parent.resolve() == Path(__file__).parent.resolve():
            raise SystemExit("--build-lib: the checkout itself would be overwritten: name another folder")
        for path in (package, *(package.with_name(room) for room in ROOMS.split("|"))):
            shutil.rmtree(path, ignore_errors=True)  # what an older build left would be packed too
        super().run()
        for path in package.rglob("*.toml"):  # whose texts name commands
            path.write_text(in_wheel(path.read_text("utf-8")), "utf-8")
        (package / "__main__.py").write_text("import sys\n\nfrom kernelgap import main\n\nsys.exit(main())\n")
        if Path(".git").exists() and shutil.which("git"):
            words = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
            commit = subprocess.run(words, capture_output=True, text=True)
            (package / "commit.txt").write_text(commit.stdout)

    def get_module_outfile(self, build_dir, package, module):
        top = not any(package) and not self.editable_mode
        return super().get_module_outfile(build_dir, package, "__init__" if top else module)

    def build_module(self, module, module_file, package):
        outfile, copied = super().build_module(module, module_file, package)
        if not self.editable_mode:
            path = Path(outfile)
            path.write_text(in_wheel(Path(module_file).read_text("utf-8")), "utf-8")
        return outfile, copied


class OneName(egg_info):
    """The metadata, in which kernelgap is the only name that the distribution brings."""

    def run(self):
        super().run()
        Path(self.egg_info, "top_level.txt").write_text("kernelgap\n")


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
        "setuptools>=65",  # tests/test_wheel.py imports setup.py
        # Reads what ptxas made of our kernels (tests/compile/test_sass.py): 5 MB, for Linux alone.
        "nvidia-cuda-nvdisasm>=13.2; sys_platform == 'linux' and platform_machine in 'x86_64 aarch64'",
    ],
}

if __name__ == "__main__":
    setup(
        name="kernelgap",
        version="1.0.0",
        description="Explains, down to the kernel, why a deep-learning step takes the time it takes",
        license="Apache-2.0",
        python_requires=">=3.11",
        cmdclass={"build_py": OnePackage, "egg_info": OneName},
        py_modules=["kernelgap"],
        entry_points={"console_scripts": ["kernelgap = kernelgap:main"]},
        packages=find_packages(include=["kernels*", "micro*", "macro*", "reports*"]),
        package_data={"": ["*.c", "*.cu", "*.json", "*.toml", "*.txt"], "micro": ["shapes/*"]},
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
