#ifndef GDRCHECK_EMULATED_LIBCUDA_PEERS_H
#define GDRCHECK_EMULATED_LIBCUDA_PEERS_H

#include "libcuda.h"

/* Where the CPU finds memory that a kernel of the GPU works on; NULL unless it is the GPU's own,
 * memory of the host, or that of a peer to which access was enabled. All of it lies in one range.
 */
unsigned char *kernel_bytes(int gpu, uint64_t address, uint64_t bytes);

/* Whether the GPU reads another one's memory, and the file says that it arrives changed. Counts it.
 */
bool peer_corrupts(int gpu, uint64_t address, uint64_t bytes);

/* No peer access from the GPU any more, nor to it: its context is destroyed. */
void peers_forget_context(int gpu);

/* Remembers that the GPU copies at this moment. */
void note_copy(int gpu);

#endif
