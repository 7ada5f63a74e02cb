/* The physical memory of the emulated GPUs: one memfd per GPU and process.
 *
 * Freed memory stays populated and is given out again, lowest place first: touching a GiB for the
 * first time takes seconds in a guest without hardware virtualisation.
 */
#ifndef GDRCHECK_EMULATED_POOL_H
#define GDRCHECK_EMULATED_POOL_H

#include "libcuda.h"

struct pool {
    int memfd;          /* sealed against shrinking, as /dev/udmabuf wants it */
    uint64_t capacity;  /* bytes */
    uint64_t base;      /* device address of byte 0: reserved, inaccessible to the CPU */
    unsigned char *alias; /* where this process reads and writes byte 0 */
};

/* The pool of a GPU, made when there is none; NULL after saying what the system refused. */
struct pool *pool_of(int gpu);

/* Reserves bytes; false when there is no room. `place` is their offset in the memfd. */
bool pool_take(int gpu, uint64_t bytes, uint64_t alignment, uint64_t *place);

/* Gives back what was taken at `place`. */
void pool_give(int gpu, uint64_t place);

uint64_t pool_used(int gpu);

/* Device addresses, aligned to 2 MiB; 0 when the system has none. The CPU cannot use them: one that
 * touches GPU memory dies, as on real hardware.
 */
uint64_t reserve_addresses(uint64_t bytes);

#endif
