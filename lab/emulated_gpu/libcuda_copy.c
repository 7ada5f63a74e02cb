/* Copies and fills. All are done when the call returns, which is one of the orders that a real
 * driver may choose for the asynchronous ones.
 */
#include "libcuda.h"

#include <string.h>

#include "libcuda_peers.h"
#include "ranges.h"
#include "stream.h"

/* Plain memory of the process, or memory that CUDA allocated and the CPU can reach. A device
 * address would kill the process instead of being refused.
 */
static bool host_side(uint64_t address, uint64_t bytes)
{
    struct range *range = range_at(address);

    if (range == NULL)
        return address != 0;
    return range->alias == (unsigned char *)(uintptr_t)range->base &&
           range_bytes(address, bytes) != NULL;
}

static CUresult copy(uint64_t to, bool to_device, uint64_t from, bool from_device, uint64_t bytes)
{
    unsigned char *target = (unsigned char *)(uintptr_t)to;
    unsigned char *source = (unsigned char *)(uintptr_t)from;

    if (bytes == 0)
        return CUDA_SUCCESS;
    if (to_device)
        target = range_bytes(to, bytes);
    else if (!host_side(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (from_device)
        source = range_bytes(from, bytes);
    else if (!host_side(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (target == NULL || source == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memmove(target, source, bytes);
    note_copy(current_context()->gpu);
    return CUDA_SUCCESS;
}

/* From one GPU to another, or within one. The one that receives is the one that reads. */
static CUresult copy_between(uint64_t to, uint64_t from, uint64_t bytes)
{
    struct range *target = range_at(to);
    CUresult status = copy(to, true, from, true, bytes);

    if (status == CUDA_SUCCESS && target != NULL && peer_corrupts(target->gpu, from, bytes))
        range_bytes(to, bytes)[bytes - 1] ^= 0x10;
    return status;
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(copy(to, true, (uint64_t)(uintptr_t)from, false, bytes));
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(copy((uint64_t)(uintptr_t)to, false, from, true, bytes));
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(copy_between(to, from, bytes));
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                     CUstream stream)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (!valid_stream(stream))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    return leave(copy(to, true, (uint64_t)(uintptr_t)from, false, bytes));
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (!valid_stream(stream))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    return leave(copy((uint64_t)(uintptr_t)to, false, from, true, bytes));
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                     CUstream stream)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (!valid_stream(stream))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    return leave(copy_between(to, from, bytes));
}

/* Needs no access of the one to the other: without it the driver goes by way of the host. */
static CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                          CUcontext from_context, size_t bytes)
{
    const struct range *target = range_at(to), *source = range_at(from);

    if (!valid_context(to_context) || !valid_context(from_context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes > 0 && (target == NULL || source == NULL || target->gpu != to_context->gpu ||
                      source->gpu != from_context->gpu))
        return CUDA_ERROR_INVALID_VALUE;
    return copy_between(to, from, bytes);
}

EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                             CUcontext from_context, size_t bytes)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(copy_peer(to, to_context, from, from_context, bytes));
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                  CUcontext from_context, size_t bytes, CUstream stream)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (!valid_stream(stream))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    return leave(copy_peer(to, to_context, from, from_context, bytes));
}

static CUresult fill_bytes(CUdeviceptr to, unsigned char value, size_t count)
{
    unsigned char *target = range_bytes(to, count);

    if (count == 0)
        return CUDA_SUCCESS;
    if (target == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memset(target, value, count);
    return CUDA_SUCCESS;
}

static CUresult fill_words(CUdeviceptr to, unsigned value, size_t count)
{
    unsigned char *target = range_bytes(to, count * sizeof value);

    if (count == 0)
        return CUDA_SUCCESS;
    if (target == NULL || to % sizeof value != 0 || count > SIZE_MAX / sizeof value)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        memcpy(target + i * sizeof value, &value, sizeof value);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(fill_bytes(to, value, count));
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(fill_words(to, value, count));
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (!valid_stream(stream))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    return leave(fill_bytes(to, value, count));
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (!valid_stream(stream))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    return leave(fill_words(to, value, count));
}
