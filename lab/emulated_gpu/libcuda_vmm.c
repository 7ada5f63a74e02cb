/* Virtual memory management: physical allocations, reserved addresses, and mappings.
 *
 * A copy, a kernel or an export stays inside one mapping: what spans two is refused here, though a
 * real driver accepts it.
 */
#include "libcuda.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "pool.h"
#include "ranges.h"

enum {
    GRANULARITY_BYTES = 2 << 20,
    TYPE_PINNED = 1,
    LOCATION_DEVICE = 1,
    ACCESS_READ_WRITE = 3,
    ATTRIBUTE_GDR_WITH_VMM = 110,
};

struct location {
    int type;
    int id;
};

/* CUmemAllocationProp */
struct properties {
    int type;
    int requested_handle_types;
    struct location location;
    void *win32_metadata;
    unsigned char compression;
    unsigned char gdr_capable;
    unsigned short usage;
    unsigned char reserved[4];
};

/* CUmemAccessDesc */
struct access {
    struct location location;
    int flags;
};

struct allocation {
    struct allocation *next;
    int gpu;
    uint64_t place;
    uint64_t bytes;
    bool gdr_capable;
    int references; /* the handle, and each mapping */
};

struct reservation {
    struct reservation *next;
    uint64_t base;
    uint64_t bytes;
};

static struct allocation *allocations;
static struct reservation *reservations;

static struct allocation *find_allocation(uint64_t handle)
{
    struct allocation *known = allocations;

    while (known != NULL && (uint64_t)(uintptr_t)known != handle)
        known = known->next;
    return known;
}

static void drop(struct allocation *allocation)
{
    if (--allocation->references > 0)
        return;
    pool_give(allocation->gpu, allocation->place);
    for (struct allocation **link = &allocations; *link != NULL; link = &(*link)->next) {
        if (*link == allocation) {
            *link = allocation->next;
            free(allocation);
            return;
        }
    }
}

static bool acceptable(const struct properties *properties)
{
    return properties != NULL && properties->type == TYPE_PINNED &&
           properties->location.type == LOCATION_DEVICE && properties->location.id >= 0 &&
           properties->location.id < config_now()->gpu_count;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const struct properties *properties,
                                              int option)
{
    ENTER_OR_RETURN(INITIALISED, CONTEXT_GPU);
    if (bytes == NULL || !acceptable(properties) || option < 0 || option > 1)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *bytes = GRANULARITY_BYTES;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemCreate(uint64_t *handle, size_t bytes, const struct properties *properties,
                            unsigned long long flags)
{
    struct allocation *made;
    int supported = 0;

    ENTER_OR_RETURN(INITIALISED, CONTEXT_GPU);
    if (handle == NULL || flags != 0 || !acceptable(properties) || bytes == 0 ||
        bytes % GRANULARITY_BYTES != 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->gpu = properties->location.id;
    made->bytes = bytes;
    made->references = 1;
    /* The flag is a request: a GPU that cannot grants memory without it. */
    device_attribute(made->gpu, ATTRIBUTE_GDR_WITH_VMM, &supported);
    made->gdr_capable = properties->gdr_capable != 0 && supported != 0;
    if (!pool_take(made->gpu, bytes, GRANULARITY_BYTES, &made->place)) {
        free(made);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    made->next = allocations;
    allocations = made;
    *handle = (uint64_t)(uintptr_t)made;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemRelease(uint64_t handle)
{
    struct allocation *allocation;

    ENTER_OR_RETURN(INITIALISED, CONTEXT_GPU);
    allocation = find_allocation(handle);
    if (allocation == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    drop(allocation);
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment,
                                    CUdeviceptr wanted, unsigned long long flags)
{
    struct reservation *made;

    (void)wanted; /* a hint */
    ENTER_OR_RETURN(INITIALISED, CONTEXT_GPU);
    if (pointer == NULL || flags != 0 || bytes == 0 || bytes % GRANULARITY_BYTES != 0 ||
        alignment > GRANULARITY_BYTES || (alignment & (alignment - 1)) != 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->bytes = bytes;
    made->base = reserve_addresses(bytes);
    if (made->base == 0) {
        free(made);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    made->next = reservations;
    reservations = made;
    *pointer = made->base;
    return leave(CUDA_SUCCESS);
}

static bool overlap(uint64_t base, uint64_t bytes, const struct range *range)
{
    return base < range->base + range->bytes && range->base < base + bytes;
}

/* Whether anything is mapped there. */
static bool occupied(uint64_t base, uint64_t bytes)
{
    struct range *range;

    for (size_t i = 0; (range = range_number(i)) != NULL; i++) {
        if (overlap(base, bytes, range))
            return true;
    }
    return false;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
    ENTER_OR_RETURN(INITIALISED, CONTEXT_GPU);
    if (occupied(pointer, bytes))
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (struct reservation **link = &reservations; *link != NULL; link = &(*link)->next) {
        struct reservation *known = *link;

        if (known->base != pointer || known->bytes != bytes)
            continue;
        munmap((void *)(uintptr_t)pointer, bytes);
        *link = known->next;
        free(known);
        return leave(CUDA_SUCCESS);
    }
    return leave(CUDA_ERROR_INVALID_VALUE);
}

static const struct reservation *reservation_of(uint64_t pointer, uint64_t bytes)
{
    const struct reservation *known = reservations;

    while (known != NULL && (pointer < known->base || pointer - known->base > known->bytes ||
                             bytes > known->bytes - (pointer - known->base)))
        known = known->next;
    return known;
}

EXPORT CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, uint64_t handle,
                         unsigned long long flags)
{
    const struct reservation *reservation;
    struct allocation *allocation;
    struct pool *pool;

    ENTER_OR_RETURN(INITIALISED, CONTEXT_GPU);
    allocation = find_allocation(handle);
    reservation = reservation_of(pointer, bytes);
    if (allocation == NULL || reservation == NULL || offset != 0 || flags != 0 ||
        bytes != allocation->bytes || pointer % GRANULARITY_BYTES != 0 || occupied(pointer, bytes))
        return leave(CUDA_ERROR_INVALID_VALUE);
    pool = pool_of(allocation->gpu);
    if (pool == NULL || ranges_add(&(struct range){
                            .memory = MAPPED_MEMORY,
                            .gpu = allocation->gpu,
                            .base = pointer,
                            .bytes = bytes,
                            .alias = pool->alias + allocation->place,
                            .place = allocation->place,
                            .handle = handle,
                            .gdr_capable = allocation->gdr_capable,
                            .reserved_base = reservation->base,
                            .reserved_bytes = reservation->bytes,
                        }) == NULL)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    allocation->references++;
    return leave(CUDA_SUCCESS);
}

/* Whether the range is made of whole mappings without a gap. */
static bool whole_mappings(uint64_t pointer, uint64_t bytes)
{
    uint64_t covered = 0;
    struct range *range;

    for (size_t i = 0; (range = range_number(i)) != NULL; i++) {
        if (!overlap(pointer, bytes, range))
            continue;
        if (range->memory != MAPPED_MEMORY || range->base < pointer ||
            range->base + range->bytes > pointer + bytes)
            return false;
        covered += range->bytes;
    }
    return bytes > 0 && covered == bytes;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    struct range *range;

    ENTER_OR_RETURN(INITIALISED, CONTEXT_GPU);
    if (!whole_mappings(pointer, bytes))
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (uint64_t at = pointer; (range = range_at(at)) != NULL && at < pointer + bytes;) {
        at += range->bytes;
        drop(find_allocation(range->handle));
        ranges_remove(range);
    }
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const struct access *access,
                               size_t count)
{
    struct range *range;

    ENTER_OR_RETURN(INITIALISED, CONTEXT_GPU);
    if (access == NULL || count == 0 || !whole_mappings(pointer, bytes))
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != LOCATION_DEVICE)
            return leave(CUDA_ERROR_INVALID_VALUE);
    }
    for (size_t i = 0; (range = range_number(i)) != NULL; i++) {
        for (size_t j = 0; j < count && overlap(pointer, bytes, range); j++) {
            if (access[j].location.id == range->gpu)
                range->accessible = access[j].flags == ACCESS_READ_WRITE;
        }
    }
    return leave(CUDA_SUCCESS);
}
