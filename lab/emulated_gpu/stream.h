#ifndef GDRCHECK_EMULATED_STREAM_H
#define GDRCHECK_EMULATED_STREAM_H

#include "libcuda.h"

typedef struct stream *CUstream;

/* A stream that was made, or one of the default ones. */
bool valid_stream(CUstream stream);

#endif
