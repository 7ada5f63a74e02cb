/* A stand-in for libnvidia-ml.so.1: the functions that gdrcheck's NVML probe calls, for the GPUs of
 * the file that config.h describes. Layouts and values: nvml.h, as nvidia-ml-py 13 repeats them.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "config.h"

#define EXPORTED __attribute__((visibility("default")))

typedef int nvmlReturn_t;
typedef struct emulated_nvml_device *nvmlDevice_t;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_GPU_IS_LOST = 15,
};

enum { VIRTUALIZATION_NONE = 0, MODE_OFF = 0, H200_PCI_ID = 0x233510de };

typedef struct {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

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

EXPORTED int gdrcheck_emulated_gpu = 1;

/* A handle is an address in here: number 0 has the first. */
static char handles[EMULATED_GPUS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int started;

/* Gives the lock back and never returns. */
static void hang(void)
{
    pthread_mutex_unlock(&lock);
    for (;;)
        pause();
}

/* Takes the lock, and gives the configuration unless the call fails or hangs. Without one the
 * status says why and the lock is not held.
 */
static struct emulated_config *begin(const char *function, int gpu, nvmlReturn_t *status)
{
    pthread_mutex_lock(&lock);
    struct emulated_config *config = emulated_config();
    *status = config == NULL ? NVML_ERROR_DRIVER_NOT_LOADED : emulated_call(config, function, gpu);
    if (*status == EMULATED_CALL_HANGS)
        hang();
    if (*status == NVML_SUCCESS && gpu != EMULATED_NO_GPU && gpu >= config->gpu_count)
        *status = NVML_ERROR_INVALID_ARGUMENT;
    if (*status == NVML_SUCCESS && emulated_gone(config, gpu))
        *status = NVML_ERROR_GPU_IS_LOST;
    if (*status == NVML_SUCCESS)
        return config;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static nvmlReturn_t done(nvmlReturn_t status)
{
    pthread_mutex_unlock(&lock);
    return status;
}

/* A call about the driver as a whole, or why it cannot be answered. */
static struct emulated_config *ask(const char *function, nvmlReturn_t *status)
{
    if (!started) {
        *status = NVML_ERROR_UNINITIALIZED;
        return NULL;
    }
    return begin(function, EMULATED_NO_GPU, status);
}

/* A call about one GPU; config.gpus[*number] is the GPU. */
static struct emulated_gpu *ask_gpu(const char *function, nvmlDevice_t device, nvmlReturn_t *status)
{
    long number = (char *)device - handles;
    *status = NVML_ERROR_INVALID_ARGUMENT;
    if (!started)
        *status = NVML_ERROR_UNINITIALIZED;
    else if (number >= 0 && number < EMULATED_GPUS_MAX) {
        struct emulated_config *config = begin(function, (int)number, status);
        return config == NULL ? NULL : &config->gpus[number];
    }
    return NULL;
}

static nvmlReturn_t copy_text(const char *text, char *to, unsigned int length)
{
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_SUCCESS;
}

EXPORTED nvmlReturn_t nvmlInit_v2(void)
{
    nvmlReturn_t status;
    if (begin("nvmlInit_v2", EMULATED_NO_GPU, &status) == NULL)
        return status;
    started++;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return nvmlInit_v2();
}

EXPORTED nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t status;
    if (ask("nvmlShutdown", &status) == NULL)
        return status;
    started--;
    return done(NVML_SUCCESS);
}

EXPORTED const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "The operation was successful";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST:
        return "GPU is lost";
    default:
        return "Unknown Error";
    }
}

EXPORTED nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    nvmlReturn_t status;
    struct emulated_config *config = ask("nvmlSystemGetDriverVersion", &status);
    return config == NULL ? status : done(copy_text(config->driver_version, version, length));
}

EXPORTED nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    nvmlReturn_t status;
    struct emulated_config *config = ask("nvmlSystemGetCudaDriverVersion_v2", &status);
    if (config == NULL)
        return status;
    *version = config->cuda_version;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlSystemGetConfComputeState(void *state)
{
    nvmlReturn_t status;
    (void)state;
    struct emulated_config *config = ask("nvmlSystemGetConfComputeState", &status);
    return config == NULL ? status : done(NVML_ERROR_NOT_SUPPORTED);
}

EXPORTED nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    nvmlReturn_t status;
    struct emulated_config *config = ask("nvmlDeviceGetCount_v2", &status);
    if (config == NULL)
        return status;
    *count = (unsigned int)config->gpu_count;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    nvmlReturn_t status;
    if (index >= EMULATED_GPUS_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlDevice_t asked = (nvmlDevice_t)&handles[index];
    if (ask_gpu("nvmlDeviceGetHandleByIndex_v2", asked, &status) == NULL)
        return status;
    *device = asked;
    return done(NVML_SUCCESS);
}

/* The number of the GPU at a bus id, with a domain of four or of eight digits; -1 for none. */
static int number_at(const struct emulated_config *config, const char *bus_id)
{
    size_t length = strlen(bus_id);
    for (int number = 0; number < config->gpu_count; number++) {
        const char *slot = config->gpus[number].slot;
        size_t wanted = strlen(slot);
        if (length >= wanted && strcasecmp(bus_id + length - wanted, slot) == 0)
            return number;
    }
    return -1;
}

EXPORTED nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    nvmlReturn_t status;
    struct emulated_config *config = ask("nvmlDeviceGetHandleByPciBusId_v2", &status);
    if (config == NULL)
        return status;
    int number = number_at(config, bus_id);
    if (number < 0)
        return done(NVML_ERROR_NOT_FOUND);
    if (emulated_gone(config, number))
        return done(NVML_ERROR_GPU_IS_LOST);
    *device = (nvmlDevice_t)&handles[number];
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetPciInfo_v3", device, &status);
    if (gpu == NULL)
        return status;
    memset(info, 0, sizeof *info);
    sscanf(gpu->slot, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", info->domain & 0xffff,
             info->bus & 0xff, info->device & 0x1f);
    snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", info->domain, info->bus & 0xff,
             info->device & 0x1f);
    info->pciDeviceId = H200_PCI_ID;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetUUID", device, &status);
    return gpu == NULL ? status : done(copy_text(gpu->uuid_text, uuid, length));
}

EXPORTED nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetName", device, &status);
    return gpu == NULL ? status : done(copy_text(gpu->name, name, length));
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
