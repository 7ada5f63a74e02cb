/* What the driver says of a pointer. */
#include "libcuda.h"

#include <string.h>

#include "ranges.h"

/* CUpointer_attribute */
enum {
    CONTEXT = 1,
    MEMORY_TYPE = 2,
    DEVICE_POINTER = 3,
    HOST_POINTER = 4,
    SYNC_MEMOPS = 6,
    BUFFER_ID = 7,
    IS_MANAGED = 8,
    DEVICE_ORDINAL = 9,
    RANGE_START = 11,
    RANGE_SIZE = 12,
    MAPPED = 13,
    GDR_CAPABLE = 15,
    MAPPING_SIZE = 18,
    MAPPING_BASE = 19,
};

/* CUmemorytype. Managed memory is reported as device memory, as the H200's driver does. */
enum { MEMORY_TYPE_HOST = 1, MEMORY_TYPE_DEVICE = 2 };

enum { NO_DEVICE = -2 };

static void put32(void *place, int64_t value)
{
    int32_t narrow = (int32_t)value;

    memcpy(place, &narrow, sizeof narrow);
}

static void put64(void *place, uint64_t value)
{
    memcpy(place, &value, sizeof value);
}

static CUresult describe(void *place, int attribute, const struct range *range, uint64_t pointer)
{
    bool pretended = emulated_switch(config_now(), EMULATED_MANAGED, range->gpu);
    bool reachable = range->alias == (unsigned char *)(uintptr_t)range->base;

    switch (attribute) {
    case CONTEXT:
        put64(place, (uint64_t)(uintptr_t)current_context());
        return CUDA_SUCCESS;
    case MEMORY_TYPE:
        put32(place, range->memory == HOST_MEMORY ? MEMORY_TYPE_HOST : MEMORY_TYPE_DEVICE);
        return CUDA_SUCCESS;
    case DEVICE_POINTER:
        put64(place, pointer);
        return CUDA_SUCCESS;
    case HOST_POINTER:
        if (!reachable)
            return CUDA_ERROR_INVALID_VALUE;
        put64(place, pointer);
        return CUDA_SUCCESS;
    case SYNC_MEMOPS:
        put32(place, range->sync_memops);
        return CUDA_SUCCESS;
    case BUFFER_ID:
        put64(place, range->id);
        return CUDA_SUCCESS;
    case IS_MANAGED:
        put32(place, range->memory == MANAGED_MEMORY || pretended);
        return CUDA_SUCCESS;
    case DEVICE_ORDINAL:
        put32(place, range->gpu);
        return CUDA_SUCCESS;
    case RANGE_START:
        put64(place, range->reserved_base);
        return CUDA_SUCCESS;
    case RANGE_SIZE:
        put64(place, range->reserved_bytes);
        return CUDA_SUCCESS;
    case MAPPED:
        put32(place, 1);
        return CUDA_SUCCESS;
    case GDR_CAPABLE:
        put32(place, range->gdr_capable && !pretended);
        return CUDA_SUCCESS;
    case MAPPING_SIZE:
        put64(place, range->bytes);
        return CUDA_SUCCESS;
    case MAPPING_BASE:
        put64(place, range->base);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT CUresult cuPointerGetAttribute(void *place, int attribute, CUdeviceptr pointer)
{
    struct range *range;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    range = range_at(pointer);
    if (place == NULL || range == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(describe(place, attribute, range, pointer));
}

/* Of a pointer that it does not know, or in place of what does not apply, this call says "nothing"
 * where the single one fails.
 */
static void describe_nothing(void *place, int attribute)
{
    switch (attribute) {
    case CONTEXT:
    case DEVICE_POINTER:
    case HOST_POINTER:
    case BUFFER_ID:
    case RANGE_START:
    case RANGE_SIZE:
    case MAPPING_SIZE:
    case MAPPING_BASE:
        put64(place, 0);
        break;
    case DEVICE_ORDINAL:
        put32(place, NO_DEVICE);
        break;
    default:
        put32(place, 0);
    }
}

EXPORT CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **places,
                                       CUdeviceptr pointer)
{
    struct range *range;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    range = range_at(pointer);
    if (attributes == NULL || places == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        if (range == NULL ||
            describe(places[i], attributes[i], range, pointer) != CUDA_SUCCESS)
            describe_nothing(places[i], attributes[i]);
    }
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr pointer)
{
    struct range *range;
    int32_t on;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    range = range_at(pointer);
    if (value == NULL || attribute != SYNC_MEMOPS || range == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(&on, value, sizeof on);
    range->sync_memops = on != 0;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    struct range *range;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    range = range_at(pointer);
    if (range == NULL)
        return leave(CUDA_ERROR_NOT_FOUND);
    if (base != NULL)
        *base = range->base;
    if (bytes != NULL)
        *bytes = range->bytes;
    return leave(CUDA_SUCCESS);
}
