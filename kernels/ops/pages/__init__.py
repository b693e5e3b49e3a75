"""Cost of memory besides its use: first touch, mapping, the heap."""

from kernels.ops.pages.problem import Pages as Pages
