/* Primary contexts, and each thread's stack of them. */
#include "libcuda.h"

#include "libcuda_peers.h"
#include "ranges.h"

enum { STACK_DEPTH_MAX = 64 };

static struct context contexts[EMULATED_GPUS_MAX];
static __thread struct context *stack[STACK_DEPTH_MAX];
static __thread int depth;

struct context *current_context(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

bool valid_context(const struct context *context)
{
    return context >= contexts && context < contexts + EMULATED_GPUS_MAX;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER_OR_RETURN(INITIALISED, device);
    if (context == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (contexts[device].references++ == 0)
        contexts[device] = (struct context){.gpu = device, .references = 1};
    *context = &contexts[device];
    return leave(CUDA_SUCCESS);
}

/* The memory of a context dies with it. */
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER_OR_RETURN(INITIALISED, device);
    if (contexts[device].references == 0)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--contexts[device].references == 0) {
        peers_forget_context(device);
        ranges_forget_context(device);
    }
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    (void)flags;
    ENTER_OR_RETURN(INITIALISED, device);
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    /* Touches no GPU: the one that was current before may be gone. */
    ENTER_OR_RETURN(INITIALISED, NO_GPU);
    if (context != NULL && !valid_context(context))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    /* NULL takes the top off the stack; anything else replaces it. */
    if (context == NULL)
        depth -= depth > 0;
    else
        stack[depth > 0 ? depth - 1 : depth++] = context;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER_OR_RETURN(INITIALISED, NO_GPU);
    if (context == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *context = current_context();
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER_OR_RETURN(INITIALISED, NO_GPU);
    if (!valid_context(context))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (depth == STACK_DEPTH_MAX)
        return leave(CUDA_ERROR_INVALID_VALUE);
    stack[depth++] = context;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER_OR_RETURN(INITIALISED, NO_GPU);
    if (depth == 0)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    depth--;
    if (context != NULL)
        *context = stack[depth];
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (device == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *device = current_context()->gpu;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSynchronize(void)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(CUDA_SUCCESS);
}
