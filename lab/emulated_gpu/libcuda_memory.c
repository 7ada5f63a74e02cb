/* Allocating memory of the GPU, of the host, and managed memory. */
#include "libcuda.h"

#include <sys/mman.h>

#include "pool.h"
#include "ranges.h"

enum { SMALL_ALIGNMENT = 512, BLOCK_BYTES = 2 << 20 };

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    int gpu;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (free_bytes == NULL || total_bytes == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    gpu = current_context()->gpu;
    *total_bytes = gpu_now(gpu)->memory_bytes;
    *free_bytes = *total_bytes - pool_used(gpu);
    return leave(CUDA_SUCCESS);
}

/* Small allocations share 2 MiB blocks and begin at any multiple of 512 bytes, so that a page may
 * hold the end of one and the start of another; large ones begin with a block.
 */
static CUresult allocate(int gpu, uint64_t bytes, CUdeviceptr *pointer)
{
    uint64_t rounded = (bytes + SMALL_ALIGNMENT - 1) & ~(uint64_t)(SMALL_ALIGNMENT - 1);
    uint64_t place;
    struct range *range;
    struct pool *pool;

    if (bytes > gpu_now(gpu)->memory_bytes ||
        !pool_take(gpu, rounded, bytes < BLOCK_BYTES ? SMALL_ALIGNMENT : BLOCK_BYTES, &place))
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool = pool_of(gpu);
    range = ranges_add(&(struct range){
        .memory = DEVICE_MEMORY,
        .gpu = gpu,
        .base = pool->base + place,
        .bytes = bytes,
        .alias = pool->alias + place,
        .place = place,
        .gdr_capable = true,
        .accessible = true,
        .reserved_base = pool->base + place,
        .reserved_bytes = bytes,
    });
    if (range == NULL) {
        pool_give(gpu, place);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pointer = range->base;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (pointer == NULL || bytes == 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(allocate(current_context()->gpu, bytes, pointer));
}

/* Host and managed memory is plain memory of this process: its device address is its address. */
static CUresult allocate_host(enum memory memory, uint64_t bytes, uint64_t *address)
{
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct range *range;

    if (found == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range = ranges_add(&(struct range){
        .memory = memory,
        .gpu = current_context()->gpu,
        .base = (uint64_t)(uintptr_t)found,
        .bytes = bytes,
        .alias = found,
        .accessible = true,
        .reserved_base = (uint64_t)(uintptr_t)found,
        .reserved_bytes = bytes,
    });
    if (range == NULL) {
        munmap(found, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = range->base;
    return CUDA_SUCCESS;
}

static CUresult free_range(struct range *range, uint64_t address)
{
    if (range == NULL || range->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    if (range->memory == DEVICE_MEMORY)
        pool_give(range->gpu, range->place);
    else
        munmap(range->alias, range->bytes);
    ranges_remove(range);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    /* CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST */
    if (pointer == NULL || bytes == 0 || (flags != 1 && flags != 2))
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(allocate_host(MANAGED_MEMORY, bytes, pointer));
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    struct range *range;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (pointer == 0)
        return leave(CUDA_SUCCESS);
    range = range_at(pointer);
    if (range != NULL && (range->memory == HOST_MEMORY || range->memory == MAPPED_MEMORY))
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(free_range(range, pointer));
}

EXPORT CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned flags)
{
    uint64_t address;
    CUresult status;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    /* PORTABLE 1, DEVICEMAP 2, WRITECOMBINED 4 */
    if (host == NULL || bytes == 0 || flags > 7)
        return leave(CUDA_ERROR_INVALID_VALUE);
    status = allocate_host(HOST_MEMORY, bytes, &address);
    if (status == CUDA_SUCCESS)
        *host = (void *)(uintptr_t)address;
    return leave(status);
}

EXPORT CUresult cuMemFreeHost(void *host)
{
    uint64_t address = (uint64_t)(uintptr_t)host;
    struct range *range;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    range = range_at(address);
    if (range != NULL && range->memory != HOST_MEMORY)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(free_range(range, address));
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned flags)
{
    struct range *range;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    range = range_at((uint64_t)(uintptr_t)host);
    if (pointer == NULL || flags != 0 || range == NULL || range->memory != HOST_MEMORY)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *pointer = (uint64_t)(uintptr_t)host;
    return leave(CUDA_SUCCESS);
}
