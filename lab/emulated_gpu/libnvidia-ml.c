/* A stand-in for libnvidia-ml.so.1: the functions that gdrcheck calls, for the GPUs of the file that
 * config.h describes. Here: the gate, the driver as a whole, and handles.
 */
#include "libnvidia-ml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

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

nvmlReturn_t done(nvmlReturn_t status)
{
    pthread_mutex_unlock(&lock);
    return status;
}

struct emulated_config *ask(const char *function, nvmlReturn_t *status)
{
    if (!started) {
        *status = NVML_ERROR_UNINITIALIZED;
        return NULL;
    }
    return begin(function, EMULATED_NO_GPU, status);
}

struct emulated_gpu *ask_gpu(const char *function, nvmlDevice_t device, nvmlReturn_t *status)
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

int number_of_device(nvmlDevice_t device)
{
    return (int)((char *)device - handles);
}

nvmlDevice_t device_of_number(int number)
{
    return (nvmlDevice_t)&handles[number];
}

struct emulated_config *lock_again(void)
{
    pthread_mutex_lock(&lock);
    return emulated_config();
}

nvmlReturn_t answer_long(struct emulated_value *value, unsigned long long *place)
{
    long read = emulated_read(value);

    if (read == EMULATED_ABSENT)
        return done(NVML_ERROR_NOT_SUPPORTED);
    *place = (unsigned long long)read;
    return done(NVML_SUCCESS);
}

nvmlReturn_t answer(struct emulated_value *value, unsigned int *place)
{
    unsigned long long read = 0;
    nvmlReturn_t status = answer_long(value, &read);

    if (status == NVML_SUCCESS)
        *place = (unsigned int)read;
    return status;
}

nvmlReturn_t answer_text(const char *text, char *place, unsigned int length)
{
    if (strcmp(text, "unsupported") == 0)
        return done(NVML_ERROR_NOT_SUPPORTED);
    if (strlen(text) >= length)
        return done(NVML_ERROR_INSUFFICIENT_SIZE);
    strcpy(place, text);
    return done(NVML_SUCCESS);
}

/* The emulated libcuda of this process knows; without one nothing was copied. */
bool busy(int gpu)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    bool (*asked)(int) = NULL;

    if (library == NULL)
        return false;
    asked = (bool (*)(int))dlsym(library, "gdrcheck_emulated_busy");
    dlclose(library);
    return asked != NULL && asked(gpu);
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
    case NVML_ERROR_TIMEOUT:
        return "Timeout";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "Argument Version Mismatch";
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
    return config == NULL ? status : answer_text(config->driver_version, version, length);
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

typedef struct {
    unsigned int environment;
    unsigned int ccFeature;
    unsigned int devToolsMode;
} nvmlConfComputeSystemState_t;

EXPORTED nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state)
{
    nvmlReturn_t status;
    struct emulated_config *config = ask("nvmlSystemGetConfComputeState", &status);
    if (config == NULL)
        return status;
    if (config->confidential == EMULATED_ABSENT)
        return done(NVML_ERROR_NOT_SUPPORTED);
    *state = (nvmlConfComputeSystemState_t){.ccFeature = (unsigned int)config->confidential};
    return done(NVML_SUCCESS);
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

static bool at_bus_id(const struct emulated_gpu *gpu, const char *bus_id)
{
    size_t length = strlen(bus_id), wanted = strlen(gpu->slot);

    /* The domain may have four digits or eight. */
    return length >= wanted && strcasecmp(bus_id + length - wanted, gpu->slot) == 0;
}

static bool has_uuid(const struct emulated_gpu *gpu, const char *uuid)
{
    return strcasecmp(gpu->uuid_text, uuid) == 0;
}

/* The number of the GPU that `is_it` is true for, or that of none. */
static int find_number(bool (*is_it)(const struct emulated_gpu *, const char *), const char *text)
{
    struct emulated_config *config = lock_again();
    int found = EMULATED_NO_GPU;

    for (int number = 0; config != NULL && number < config->gpu_count; number++) {
        if (is_it(&config->gpus[number], text))
            found = number;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static nvmlReturn_t find_device(const char *function, int number, nvmlDevice_t *device)
{
    nvmlReturn_t status;

    if (number == EMULATED_NO_GPU)
        return ask(function, &status) == NULL ? status : done(NVML_ERROR_NOT_FOUND);
    if (ask_gpu(function, device_of_number(number), &status) == NULL)
        return status;
    *device = device_of_number(number);
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    return find_device("nvmlDeviceGetHandleByPciBusId_v2", find_number(at_bus_id, bus_id), device);
}

EXPORTED nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return find_device("nvmlDeviceGetHandleByUUID", find_number(has_uuid, uuid), device);
}
