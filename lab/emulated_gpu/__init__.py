"""GPUs that are not there: a libcuda, a libnvidia-ml and a libibverbs preload of ours.

The unpatched CUDA and NVML bindings load them. Nothing measured on them says anything about a GPU,
and each library has the marker symbol ``gdrcheck_emulated_gpu``, so that no result can claim so.
"""
