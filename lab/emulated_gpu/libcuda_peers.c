/* What GPUs do with each other's memory. */
#include "libcuda_peers.h"

#include <time.h>

#include "ranges.h"

/* CUdevice_P2PAttribute. */
enum { PERFORMANCE_RANK = 1, ACCESS_SUPPORTED = 2, NATIVE_ATOMICS = 3, ARRAY_ACCESS = 4 };

enum { BUSY_S = 1 };

static bool enabled[EMULATED_GPUS_MAX][EMULATED_GPUS_MAX];
/* CLOCK_MONOTONIC of the last copy, in ns; 0: none. libnvidia-ml reads it without the lock. */
static _Atomic int64_t copied_at[EMULATED_GPUS_MAX];

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void note_copy(int gpu)
{
    copied_at[gpu] = now_ns();
}

/* What the emulated libnvidia-ml asks: whether the GPU copied within the last second. */
EXPORT bool gdrcheck_emulated_busy(int gpu)
{
    int64_t then = copied_at[gpu];

    return then != 0 && now_ns() - then < (int64_t)BUSY_S * 1000000000;
}

static bool device_memory(const struct range *range)
{
    return range->memory == DEVICE_MEMORY || range->memory == MAPPED_MEMORY;
}

unsigned char *kernel_bytes(int gpu, uint64_t address, uint64_t bytes)
{
    struct range *range = range_at(address);

    if (range != NULL && device_memory(range) && range->gpu != gpu &&
        (range->memory == MAPPED_MEMORY || !enabled[gpu][range->gpu]))
        return NULL;
    return range_bytes(address, bytes);
}

bool peer_corrupts(int gpu, uint64_t address, uint64_t bytes)
{
    struct range *range = range_at(address);

    return range != NULL && device_memory(range) && range->gpu != gpu && bytes > 0 &&
           emulated_corrupts(config_now(), EMULATED_PEER_CORRUPT, gpu, bytes);
}

void peers_forget_context(int gpu)
{
    for (int other = 0; other < EMULATED_GPUS_MAX; other++)
        enabled[gpu][other] = enabled[other][gpu] = false;
}

static bool known(int gpu)
{
    return gpu >= 0 && gpu < config_now()->gpu_count;
}

static bool can_access(int gpu, int peer)
{
    return gpu != peer && !emulated_switch(config_now(), EMULATED_PEER_REFUSE, gpu);
}

EXPORT CUresult cuDeviceCanAccessPeer(int *able, CUdevice device, CUdevice peer)
{
    ENTER_OR_RETURN(INITIALISED, device);
    if (able == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!known(peer))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    *able = can_access(device, peer);
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer)
{
    ENTER_OR_RETURN(INITIALISED, device);
    if (value == NULL || attribute < PERFORMANCE_RANK || attribute > ARRAY_ACCESS)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!known(peer) || device == peer)
        return leave(CUDA_ERROR_INVALID_DEVICE);
    *value = attribute != PERFORMANCE_RANK && can_access(device, peer);
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    int gpu;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    gpu = current_context()->gpu;
    if (flags != 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!valid_context(peer) || peer == current_context() || peer->references == 0)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!can_access(gpu, peer->gpu))
        return leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (enabled[gpu][peer->gpu])
        return leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    enabled[gpu][peer->gpu] = true;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (!valid_context(peer))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!enabled[current_context()->gpu][peer->gpu])
        return leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    enabled[current_context()->gpu][peer->gpu] = false;
    return leave(CUDA_SUCCESS);
}
