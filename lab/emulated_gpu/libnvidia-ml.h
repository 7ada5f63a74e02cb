/* What the files of the emulated libnvidia-ml share: NVML's types, and the gate that every call
 * passes. Layouts and values: nvml.h, as nvidia-ml-py 13 repeats them.
 */
#ifndef GDRCHECK_EMULATED_LIBNVIDIA_ML_H
#define GDRCHECK_EMULATED_LIBNVIDIA_ML_H

#include <stddef.h>

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
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

typedef struct {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

/* A call about the driver as a whole: the configuration, with the lock; or NULL, without the lock
 * and with the status to fail with. A call that shall hang never returns from here.
 */
struct emulated_config *ask(const char *function, nvmlReturn_t *status);

/* The same about one GPU. */
struct emulated_gpu *ask_gpu(const char *function, nvmlDevice_t device, nvmlReturn_t *status);

/* Gives the lock back; returns `status`. */
nvmlReturn_t done(nvmlReturn_t status);

/* done(), with a number in its place unless the GPU does not have it. */
nvmlReturn_t answer(struct emulated_value *value, unsigned int *place);
nvmlReturn_t answer_long(struct emulated_value *value, unsigned long long *place);

/* done(), with a text in its place; "unsupported" stands for what the GPU does not have. */
nvmlReturn_t answer_text(const char *text, char *place, unsigned int length);

/* The number of a GPU with a handle that ask_gpu took, and the other way round. */
int number_of_device(nvmlDevice_t device);
nvmlDevice_t device_of_number(int number);

/* The lock alone, for who waits with it; the configuration as the file is now, or NULL. */
struct emulated_config *lock_again(void);

/* Whether the GPU did a copy for this process within the last second. */
bool busy(int gpu);

void describe_slot(const char *slot, nvmlPciInfo_t *info);

#endif
