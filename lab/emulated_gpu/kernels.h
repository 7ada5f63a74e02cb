/* The kernels of gdrcheck, in C: the same functions of the same pattern.h. */
#ifndef GDRCHECK_EMULATED_KERNELS_H
#define GDRCHECK_EMULATED_KERNELS_H

#include "libcuda.h"

struct kernel {
    const char *name;
    /* Does what the kernel does on a GPU; false when an argument names memory that it cannot reach.
     * Every argument is a 64-bit number. `lies`: verify finds nothing wrong.
     */
    bool (*run)(const uint64_t *arguments, int gpu, bool lies);
    int arguments;
    /* What of it the file can spoil. */
    enum { NEITHER, FILLS, VERIFIES } role;
};

/* By its name in the PTX; NULL for any other. */
const struct kernel *kernel_named(const char *name);

enum { KERNEL_ARGUMENTS_MAX = 8 };

#endif
