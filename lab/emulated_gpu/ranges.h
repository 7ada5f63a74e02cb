/* The table of all memory that has a device address. */
#ifndef GDRCHECK_EMULATED_RANGES_H
#define GDRCHECK_EMULATED_RANGES_H

#include "libcuda.h"

enum memory { DEVICE_MEMORY, MAPPED_MEMORY /* cuMemMap */, HOST_MEMORY, MANAGED_MEMORY };

struct range {
    enum memory memory;
    int gpu;
    uint64_t base; /* device address */
    uint64_t bytes;
    unsigned char *alias; /* where this process reads and writes the byte at `base` */
    uint64_t place;       /* in the GPU's memfd; not of host and managed memory */
    uint64_t handle;      /* what cuMemMap mapped */
    bool gdr_capable;
    bool accessible; /* by kernels and copies: false until cuMemSetAccess */
    bool sync_memops;
    uint64_t id;
    uint64_t reserved_base; /* what cuMemAddressReserve gave; base and bytes for other memory */
    uint64_t reserved_bytes;
};

/* Keeps a copy; NULL when the system has no memory for it. `id` is set. */
struct range *ranges_add(const struct range *range);

/* The range that holds the address, or NULL. */
struct range *range_at(uint64_t address);

/* Where the CPU finds `bytes` bytes from a device address on; NULL unless they all lie in one
 * range that may be accessed.
 */
unsigned char *range_bytes(uint64_t address, uint64_t bytes);

void ranges_remove(struct range *range);

/* Frees all memory that was allocated in the context of a GPU. */
void ranges_forget_context(int gpu);

/* Walks the table: the n-th range, or NULL after the last. */
struct range *range_number(size_t n);

#endif
