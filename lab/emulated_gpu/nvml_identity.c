/* What a GPU is, and how it is set. */
#include <stdio.h>
#include <string.h>

#include "libnvidia-ml.h"

enum { VIRTUALIZATION_NONE = 0, MODE_OFF = 0, H200_PCI_ID = 0x233510de };

typedef struct {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
} nvmlMemory_t;

typedef struct {
    unsigned long long bar1Total;
    unsigned long long bar1Free;
    unsigned long long bar1Used;
} nvmlBAR1Memory_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
} nvmlProcessInfo_t;

void describe_slot(const char *slot, nvmlPciInfo_t *info)
{
    memset(info, 0, sizeof *info);
    sscanf(slot, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", info->domain & 0xffff,
             info->bus & 0xff, info->device & 0x1f);
    snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", info->domain, info->bus & 0xff,
             info->device & 0x1f);
}

EXPORTED nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetPciInfo_v3", device, &status);
    if (gpu == NULL)
        return status;
    describe_slot(gpu->slot, info);
    info->pciDeviceId = H200_PCI_ID;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetUUID", device, &status);
    return gpu == NULL ? status : answer_text(gpu->uuid_text, uuid, length);
}

EXPORTED nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetName", device, &status);
    return gpu == NULL ? status : answer_text(gpu->name, name, length);
}

EXPORTED nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetMemoryInfo", device, &status);
    if (gpu == NULL)
        return status;
    *memory = (nvmlMemory_t){gpu->memory_bytes, gpu->memory_bytes, 0};
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetBAR1MemoryInfo", device, &status);
    if (gpu == NULL)
        return status;
    *bar1 = (nvmlBAR1Memory_t){gpu->bar1_bytes, gpu->bar1_bytes, 0};
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
                                           unsigned int *pending)
{
    nvmlReturn_t status;
    if (ask_gpu("nvmlDeviceGetMigMode", device, &status) == NULL)
        return status;
    *current = *pending = MODE_OFF;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetComputeMode", device, &status);
    if (gpu == NULL)
        return status;
    *mode = (unsigned int)gpu->compute_mode;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                              unsigned int *count,
                                                              nvmlProcessInfo_t *processes)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetComputeRunningProcesses_v3", device, &status);
    if (gpu == NULL)
        return status;
    unsigned int room = *count;
    *count = (unsigned int)gpu->process_count;
    if (room < *count)
        return done(NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned int index = 0; index < *count; index++) {
        struct emulated_process *one = &gpu->processes[index];
        /* All ones: in no MIG instance. */
        processes[index] = (nvmlProcessInfo_t){one->pid, one->memory_bytes, ~0u, ~0u};
    }
    return done(NVML_SUCCESS);
}

/* Fabric: not applicable, as on a passed-through single GPU. */
EXPORTED nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *info)
{
    nvmlReturn_t status;
    (void)info;
    if (ask_gpu("nvmlDeviceGetGpuFabricInfoV", device, &status) == NULL)
        return status;
    return done(NVML_ERROR_NOT_SUPPORTED);
}

EXPORTED nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned int *mode)
{
    nvmlReturn_t status;
    if (ask_gpu("nvmlDeviceGetVirtualizationMode", device, &status) == NULL)
        return status;
    *mode = VIRTUALIZATION_NONE;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *text,
                                                unsigned int length)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetVbiosVersion", device, &status);
    return gpu == NULL ? status : answer_text(gpu->vbios, text, length);
}

EXPORTED nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *text,
                                                   unsigned int length)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetBoardPartNumber", device, &status);
    return gpu == NULL ? status : answer_text(gpu->board_part, text, length);
}

EXPORTED nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *text)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetGspFirmwareVersion", device, &status);
    return gpu == NULL ? status : answer_text(gpu->gsp_firmware, text, EMULATED_NAME_BYTES);
}

EXPORTED nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int *mode)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetPersistenceMode", device, &status);
    return gpu == NULL ? status : answer(&gpu->values[EMULATED_PERSISTENCE], mode);
}
