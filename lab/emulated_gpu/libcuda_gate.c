/* The gate: one lock, the configuration as the file is now, faults, and what a call needs. */
#include "libcuda.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct emulated_config *config;
static pid_t initialised_by;

/* Tells the product and the tests that this is no NVIDIA driver. */
EXPORT int gdrcheck_emulated_gpu = 1;

void gate_lock(void)
{
    pthread_mutex_lock(&lock);
}

void gate_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

struct emulated_config *config_now(void)
{
    return config;
}

const struct emulated_gpu *gpu_now(int gpu)
{
    return &config->gpus[gpu];
}

/* As with a real driver, what a process set up is of no use to a child that it forks. */
bool initialised(void)
{
    return initialised_by == getpid();
}

void initialise(void)
{
    initialised_by = getpid();
}

static CUresult admitted(const char *function, enum need need, int gpu, bool *hang)
{
    struct context *context;
    int concerned, verdict;

    config = emulated_config();
    if (config == NULL)
        return CUDA_ERROR_UNKNOWN;
    context = current_context();
    if (gpu == CONTEXT_GPU)
        gpu = context != NULL ? context->gpu : NO_GPU;
    concerned = gpu == NO_GPU ? EMULATED_NO_GPU : gpu;
    verdict = emulated_call(config, function, concerned);
    if (verdict != 0) {
        *hang = verdict == EMULATED_CALL_HANGS;
        return (CUresult)verdict;
    }
    if (need == NOTHING)
        return CUDA_SUCCESS;
    if (!initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need == CURRENT_CONTEXT && context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (gpu != NO_GPU && (gpu < 0 || gpu >= config->gpu_count))
        return CUDA_ERROR_INVALID_DEVICE;
    if (emulated_gone(config, concerned))
        return CUDA_ERROR_UNKNOWN;
    if (need == CURRENT_CONTEXT && context->references == 0)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return need == CURRENT_CONTEXT ? context->sticky : CUDA_SUCCESS;
}

CUresult enter(const char *function, enum need need, int gpu)
{
    bool hang = false;
    CUresult status;

    gate_lock();
    status = admitted(function, need, gpu, &hang);
    if (status != CUDA_SUCCESS)
        gate_unlock();
    while (hang)
        pause();
    return status;
}

CUresult leave(CUresult status)
{
    gate_unlock();
    return status;
}
