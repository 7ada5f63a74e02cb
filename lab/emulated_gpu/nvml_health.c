/* Memory errors, repairs, clocks, power, temperatures, and the PCIe link. */
#include <string.h>

#include "libnvidia-ml.h"

#define VALUE(gpu, name) (&(gpu)->values[EMULATED_##name])

enum { CORRECTABLE = 0, UNCORRECTABLE = 1, VOLATILE = 0, AGGREGATE = 1 };

EXPORTED nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current,
                                           unsigned int *pending)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetEccMode", device, &status);
    long now, later;

    if (gpu == NULL)
        return status;
    now = emulated_read(VALUE(gpu, ECC_MODE));
    later = emulated_read(VALUE(gpu, ECC_PENDING));
    if (now == EMULATED_ABSENT)
        return done(NVML_ERROR_NOT_SUPPORTED);
    *current = (unsigned int)now;
    *pending = (unsigned int)later;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type,
                                                  unsigned int counter, unsigned long long *count)
{
    static const enum emulated_value_id counts[2][2] = {
        {EMULATED_ECC_VOLATILE_CORRECTABLE, EMULATED_ECC_AGGREGATE_CORRECTABLE},
        {EMULATED_ECC_VOLATILE_UNCORRECTABLE, EMULATED_ECC_AGGREGATE_UNCORRECTABLE},
    };
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetTotalEccErrors", device, &status);

    if (gpu == NULL)
        return status;
    if (type > UNCORRECTABLE || counter > AGGREGATE)
        return done(NVML_ERROR_INVALID_ARGUMENT);
    if (VALUE(gpu, ECC_MODE)->value == EMULATED_ABSENT)
        return done(NVML_ERROR_NOT_SUPPORTED);
    return answer_long(&gpu->values[counts[type][counter]], count);
}

typedef struct {
    unsigned int version;
    unsigned long long counts[11];
    unsigned int bThresholdExceeded;
} nvmlEccSramErrorStatus_t;

EXPORTED nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
                                                      nvmlEccSramErrorStatus_t *found)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetSramEccErrorStatus", device, &status);

    if (gpu == NULL)
        return status;
    if (found->version != (sizeof *found | 1U << 24))
        return done(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    memset(found->counts, 0, sizeof found->counts);
    return answer(VALUE(gpu, SRAM_THRESHOLD), &found->bThresholdExceeded);
}

EXPORTED nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
                                                unsigned int *uncorrectable, unsigned int *pending,
                                                unsigned int *failed)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetRemappedRows", device, &status);

    if (gpu == NULL)
        return status;
    if (VALUE(gpu, ROW_REMAP_PENDING)->value == EMULATED_ABSENT)
        return done(NVML_ERROR_NOT_SUPPORTED);
    *correctable = (unsigned int)emulated_read(VALUE(gpu, ROW_REMAP_CORRECTABLE));
    *uncorrectable = (unsigned int)emulated_read(VALUE(gpu, ROW_REMAP_UNCORRECTABLE));
    *pending = (unsigned int)emulated_read(VALUE(gpu, ROW_REMAP_PENDING));
    *failed = (unsigned int)emulated_read(VALUE(gpu, ROW_REMAP_FAILED));
    return done(NVML_SUCCESS);
}

/* NVML's causes: 0 many single bit errors, 1 one double bit error. A first call asks how many. */
static nvmlReturn_t list_pages(const char *function, nvmlDevice_t device, unsigned int cause,
                               unsigned int *count, unsigned long long *addresses,
                               unsigned long long *times)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu(function, device, &status);
    unsigned int room = *count;
    long pages;

    if (gpu == NULL)
        return status;
    if (cause > 1)
        return done(NVML_ERROR_INVALID_ARGUMENT);
    pages = emulated_read(cause == 0 ? VALUE(gpu, RETIRED_SINGLE_BIT)
                                     : VALUE(gpu, RETIRED_DOUBLE_BIT));
    if (pages == EMULATED_ABSENT)
        return done(NVML_ERROR_NOT_SUPPORTED);
    *count = (unsigned int)pages;
    if (addresses == NULL || room < *count)
        return done(*count == 0 ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned int page = 0; page < *count; page++) {
        addresses[page] = (page + 1ULL) << 16;
        if (times != NULL)
            times[page] = 0;
    }
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned int cause,
                                                unsigned int *count, unsigned long long *addresses)
{
    return list_pages("nvmlDeviceGetRetiredPages", device, cause, count, addresses, NULL);
}

EXPORTED nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned int cause,
                                                   unsigned int *count,
                                                   unsigned long long *addresses,
                                                   unsigned long long *times)
{
    return list_pages("nvmlDeviceGetRetiredPages_v2", device, cause, count, addresses, times);
}

/* A call that has one number for an answer. */
#define ANSWERS(function, name)                                                \
    EXPORTED nvmlReturn_t function(nvmlDevice_t device, unsigned int *place)   \
    {                                                                          \
        nvmlReturn_t status;                                                   \
        struct emulated_gpu *gpu = ask_gpu(#function, device, &status);        \
        return gpu == NULL ? status : answer(VALUE(gpu, name), place);         \
    }

ANSWERS(nvmlDeviceGetRetiredPagesPendingStatus, RETIRED_PENDING)
ANSWERS(nvmlDeviceGetCurrPcieLinkWidth, PCIE_WIDTH)
ANSWERS(nvmlDeviceGetMaxPcieLinkGeneration, PCIE_GENERATION_MAX)
ANSWERS(nvmlDeviceGetGpuMaxPcieLinkGeneration, PCIE_GENERATION_MAX)
ANSWERS(nvmlDeviceGetMaxPcieLinkWidth, PCIE_WIDTH_MAX)
ANSWERS(nvmlDeviceGetPcieReplayCounter, PCIE_REPLAYS)

EXPORTED nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device,
                                                          unsigned int *generation)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetCurrPcieLinkGeneration", device, &status);

    if (gpu == NULL)
        return status;
    return answer(busy(number_of_device(device)) ? VALUE(gpu, PCIE_GENERATION)
                                                 : VALUE(gpu, PCIE_GENERATION_IDLE),
                  generation);
}
