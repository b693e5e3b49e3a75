"""How kernels are measured. A module without underscore is a benchmark or a command a person runs."""
