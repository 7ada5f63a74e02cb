/* GPU memory that a NIC may not read or write although it registered, as the file says. */
#ifndef GDRCHECK_EMULATED_VERBS_REFUSE_H
#define GDRCHECK_EMULATED_VERBS_REFUSE_H

#include <stdbool.h>

#include "config.h"
#include "verbs_layout.h"

/* What is left of the rights that a registration asked for: others cannot read memory of a GPU with
 * EMULATED_REFUSE_SOURCE or EMULATED_REFUSE_READ, nobody can write it with EMULATED_REFUSE_SINK.
 */
int access_left(const struct emulated_config *config, int gpu, int access);

/* From now on the NIC cannot read the region for work requests of its own either. False without
 * memory for it.
 */
bool refuse_reads(const struct ibv_mr *mr);

/* The region is about to be undone; nothing happens to one that was never refused. */
void forget_refusal(const struct ibv_mr *mr);

#endif
