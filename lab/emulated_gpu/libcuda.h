/* What the files of the emulated libcuda share: CUDA's types, and the gate that every call passes.
 *
 * The numbers are those of NVIDIA's cuda.h, which is not needed to build this.
 */
#ifndef GDRCHECK_EMULATED_LIBCUDA_H
#define GDRCHECK_EMULATED_LIBCUDA_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define EXPORT __attribute__((visibility("default")))

typedef int CUdevice;
typedef uint64_t CUdeviceptr;

typedef enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_UNKNOWN = 999,
} CUresult;

/* The primary context of one GPU. Other contexts cannot be made. */
struct context {
    int gpu;
    int references;
    CUresult sticky; /* what a kernel did wrong: every later call in the context fails with it */
};
typedef struct context *CUcontext;

/* What must be true before a call may do anything. */
enum need { NOTHING, INITIALISED, CURRENT_CONTEXT };

/* For `gpu` of enter(): no GPU in particular, or that of the current context if there is one. No
 * caller means these by a device number.
 */
enum { NO_GPU = INT_MIN, CONTEXT_GPU = INT_MIN + 1 };

/* Takes the one lock of the library and says whether the call may go on. Anything but CUDA_SUCCESS
 * is to be returned to the caller, and the lock is not held. Faults come true here; a call that
 * shall hang never returns from here.
 */
CUresult enter(const char *function, enum need need, int gpu);

/* Gives the lock back; returns `status`. */
CUresult leave(CUresult status);

#define ENTER_OR_RETURN(need, gpu)                         \
    do {                                                   \
        CUresult refusal_ = enter(__func__, (need), (gpu)); \
        if (refusal_ != CUDA_SUCCESS)                      \
            return refusal_;                               \
    } while (0)

/* The following hold between enter() and leave(). */
struct emulated_config *config_now(void);
const struct emulated_gpu *gpu_now(int gpu);
bool initialised(void);
void initialise(void);
struct context *current_context(void);
bool valid_context(const struct context *context);

/* A CUdevice_attribute as the file or an H200 has it; false when the driver does not know it. */
bool device_attribute(int gpu, int number, int *value);

/* The lock alone, for what the verbs preload asks; never fails. */
void gate_lock(void);
void gate_unlock(void);

#endif
