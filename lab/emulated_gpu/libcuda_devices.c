/* Initialisation, and what there is to know of a GPU without a context. */
#include "libcuda.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ATTRIBUTE_COMPUTE_MODE = 20,
    ATTRIBUTE_PCI_BUS = 33,
    ATTRIBUTE_PCI_DEVICE = 34,
    ATTRIBUTE_PCI_DOMAIN = 50,
};

/* CUdevice_attribute of an NVIDIA H200. Of all others the driver says that it does not know them.
 */
static const struct emulated_attribute H200[] = {
    {1, 1024, true},        /* MAX_THREADS_PER_BLOCK */
    {2, 1024, true},        /* MAX_BLOCK_DIM_X, _Y, _Z */
    {3, 1024, true},
    {4, 64, true},
    {5, 2147483647, true},  /* MAX_GRID_DIM_X, _Y, _Z */
    {6, 65535, true},
    {7, 65535, true},
    {8, 49152, true},       /* MAX_SHARED_MEMORY_PER_BLOCK */
    {10, 32, true},         /* WARP_SIZE */
    {16, 132, true},        /* MULTIPROCESSOR_COUNT */
    {18, 0, true},          /* INTEGRATED */
    {19, 1, true},          /* CAN_MAP_HOST_MEMORY */
    {32, 1, true},          /* ECC_ENABLED */
    {39, 2048, true},       /* MAX_THREADS_PER_MULTIPROCESSOR */
    {41, 1, true},          /* UNIFIED_ADDRESSING */
    {75, 9, true},          /* COMPUTE_CAPABILITY_MAJOR, _MINOR */
    {76, 0, true},
    {83, 1, true},          /* MANAGED_MEMORY */
    {89, 1, true},          /* CONCURRENT_MANAGED_ACCESS */
    {102, 1, true},         /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    {110, 1, true},         /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
    {116, 1, true},         /* GPU_DIRECT_RDMA_SUPPORTED */
    {117, 1, true},         /* GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: HOST */
    {118, 100, true},       /* GPU_DIRECT_RDMA_WRITES_ORDERING: OWNER */
    {124, 1, true},         /* DMA_BUF_SUPPORTED */
};

EXPORT CUresult cuInit(unsigned flags)
{
    ENTER_OR_RETURN(NOTHING, NO_GPU);
    if (flags != 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (config_now()->gpu_count == 0)
        return leave(CUDA_ERROR_NO_DEVICE);
    initialise();
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    ENTER_OR_RETURN(NOTHING, NO_GPU);
    if (version == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *version = config_now()->cuda_version;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    ENTER_OR_RETURN(INITIALISED, NO_GPU);
    if (count == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *count = config_now()->gpu_count;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER_OR_RETURN(INITIALISED, ordinal);
    if (device == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *device = ordinal;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    ENTER_OR_RETURN(INITIALISED, device);
    if (name == NULL || bytes <= 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)bytes, "%s", gpu_now(device)->name);
    return leave(CUDA_SUCCESS);
}

static CUresult copy_uuid(char uuid[EMULATED_UUID_BYTES], CUdevice device)
{
    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid, gpu_now(device)->uuid, EMULATED_UUID_BYTES);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(char uuid[EMULATED_UUID_BYTES], CUdevice device)
{
    ENTER_OR_RETURN(INITIALISED, device);
    return leave(copy_uuid(uuid, device));
}

EXPORT CUresult cuDeviceGetUuid_v2(char uuid[EMULATED_UUID_BYTES], CUdevice device)
{
    ENTER_OR_RETURN(INITIALISED, device);
    return leave(copy_uuid(uuid, device));
}

/* In upper case, as the driver writes it; sysfs has it in lower case. */
EXPORT CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    const char *slot;

    ENTER_OR_RETURN(INITIALISED, device);
    slot = gpu_now(device)->slot;
    if (text == NULL || bytes <= (int)strlen(slot))
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i <= (int)strlen(slot); i++)
        text[i] = (char)toupper((unsigned char)slot[i]);
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER_OR_RETURN(INITIALISED, device);
    if (bytes == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *bytes = gpu_now(device)->memory_bytes;
    return leave(CUDA_SUCCESS);
}

static const struct emulated_attribute *find(const struct emulated_attribute *attributes,
                                             size_t count, int number)
{
    for (size_t i = 0; i < count; i++) {
        if (attributes[i].number == number)
            return &attributes[i];
    }
    return NULL;
}

bool device_attribute(int gpu, int number, int *value)
{
    const struct emulated_gpu *described = gpu_now(gpu);
    const struct emulated_attribute *found =
        find(described->attributes, (size_t)described->attribute_count, number);
    unsigned domain = 0, bus = 0, device = 0;

    if (found == NULL) {
        sscanf(described->slot, "%x:%x:%x", &domain, &bus, &device);
        switch (number) {
        case ATTRIBUTE_COMPUTE_MODE:
            *value = described->compute_mode;
            return true;
        case ATTRIBUTE_PCI_BUS:
            *value = (int)bus;
            return true;
        case ATTRIBUTE_PCI_DEVICE:
            *value = (int)device;
            return true;
        case ATTRIBUTE_PCI_DOMAIN:
            *value = (int)domain;
            return true;
        default:
            found = find(H200, sizeof H200 / sizeof *H200, number);
        }
    }
    if (found == NULL || !found->known)
        return false;
    *value = found->value;
    return true;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    ENTER_OR_RETURN(INITIALISED, device);
    if (value == NULL || !device_attribute(device, attribute, value))
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(CUDA_SUCCESS);
}
