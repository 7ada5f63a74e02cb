/* NVLinks, and what two GPUs can do with each other. */
#include <stdio.h>

#include "libnvidia-ml.h"

#define LINK_VALUE(link, name) (&(link)->values[EMULATED_NVLINK_##name])

enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2 };
enum { ERROR_REPLAY = 0, ERROR_RECOVERY = 1, ERROR_CRC = 2, ERROR_CRC_DATA = 3, ERROR_ECC_DATA = 4 };
enum { CAPABILITIES = 6, TOPOLOGY_SYSTEM = 50, P2P_NOT_SUPPORTED = 5 };
/* What a healthy H200 counts of errors that its link corrects by itself. */
enum { HEALTHY_DATA_ERRORS = 7 };

/* A link of the GPU: NULL, without the lock and with the status to fail with, for one that the GPU
 * does not have and, when `up` is asked for, for one that is down.
 */
static struct emulated_nvlink *ask_link(const char *function, nvmlDevice_t device,
                                        unsigned int number, bool up, nvmlReturn_t *status)
{
    struct emulated_gpu *gpu = ask_gpu(function, device, status);
    struct emulated_nvlink *link;
    long links;

    if (gpu == NULL)
        return NULL;
    links = gpu->values[EMULATED_NVLINKS].value;
    *status = NVML_SUCCESS;
    if (links <= 0)
        *status = NVML_ERROR_NOT_SUPPORTED;
    else if (number >= links)
        *status = NVML_ERROR_INVALID_ARGUMENT;
    link = &gpu->nvlinks[number < EMULATED_NVLINKS_MAX ? number : 0];
    if (*status == NVML_SUCCESS && up && LINK_VALUE(link, STATE)->value == 0)
        *status = NVML_ERROR_NOT_SUPPORTED;
    if (*status == NVML_SUCCESS)
        return link;
    done(*status);
    return NULL;
}

EXPORTED nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int number,
                                               unsigned int *active)
{
    nvmlReturn_t status;
    struct emulated_nvlink *link =
        ask_link("nvmlDeviceGetNvLinkState", device, number, false, &status);
    return link == NULL ? status : answer(LINK_VALUE(link, STATE), active);
}

EXPORTED nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int number,
                                                 unsigned int *version)
{
    nvmlReturn_t status;
    struct emulated_nvlink *link =
        ask_link("nvmlDeviceGetNvLinkVersion", device, number, true, &status);
    return link == NULL ? status : answer(LINK_VALUE(link, VERSION), version);
}

EXPORTED nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int number,
                                                    unsigned int capability, unsigned int *able)
{
    nvmlReturn_t status;
    if (ask_link("nvmlDeviceGetNvLinkCapability", device, number, false, &status) == NULL)
        return status;
    if (capability >= CAPABILITIES)
        return done(NVML_ERROR_INVALID_ARGUMENT);
    *able = 1;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int number,
                                                          unsigned int *type)
{
    nvmlReturn_t status;
    struct emulated_nvlink *link =
        ask_link("nvmlDeviceGetNvLinkRemoteDeviceType", device, number, true, &status);
    if (link == NULL)
        return status;
    *type = LINK_VALUE(link, GPU)->value == EMULATED_ABSENT ? REMOTE_SWITCH : REMOTE_GPU;
    return done(NVML_SUCCESS);
}

/* Of a switch that a virtual machine does not have, the driver knows no address. */
static void describe_switch(nvmlPciInfo_t *info)
{
    *info = (nvmlPciInfo_t){.domain = ~0u, .bus = 0xff, .device = 0xff};
    snprintf(info->busId, sizeof info->busId, "FFFFFFFF:FF:FF.0");
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "FFFF:FF:FF.0");
}

EXPORTED nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int number,
                                                          nvmlPciInfo_t *info)
{
    nvmlReturn_t status;
    struct emulated_nvlink *link =
        ask_link("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, number, true, &status);
    struct emulated_config *config;
    long gpu;

    if (link == NULL)
        return status;
    config = emulated_config();
    gpu = LINK_VALUE(link, GPU)->value;
    if (gpu == EMULATED_ABSENT || config == NULL || gpu >= config->gpu_count)
        describe_switch(info);
    else
        describe_slot(config->gpus[gpu].slot, info);
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int number,
                                                      unsigned int counter,
                                                      unsigned long long *count)
{
    nvmlReturn_t status;
    struct emulated_nvlink *link =
        ask_link("nvmlDeviceGetNvLinkErrorCounter", device, number, false, &status);
    if (link == NULL)
        return status;
    switch (counter) {
    case ERROR_REPLAY:
        return answer_long(LINK_VALUE(link, REPLAY), count);
    case ERROR_RECOVERY:
        return answer_long(LINK_VALUE(link, RECOVERY), count);
    case ERROR_CRC:
        return answer_long(LINK_VALUE(link, CRC), count);
    case ERROR_CRC_DATA:
    case ERROR_ECC_DATA:
        *count = HEALTHY_DATA_ERRORS;
        return done(NVML_SUCCESS);
    default:
        return done(NVML_ERROR_INVALID_ARGUMENT);
    }
}

/* nvmlGpuP2PCapsIndex_t. */
enum { P2P_READ = 0, P2P_WRITE = 1, P2P_NVLINK = 2, P2P_ATOMICS = 3, P2P_PCI = 4 };

EXPORTED nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other,
                                             unsigned int capability, unsigned int *found)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetP2PStatus", device, &status);

    if (gpu == NULL)
        return status;
    if (device == other)
        return done(NVML_ERROR_INVALID_ARGUMENT);
    switch (capability) {
    case P2P_READ:
        return answer(&gpu->values[EMULATED_PEER_READ], found);
    case P2P_WRITE:
        return answer(&gpu->values[EMULATED_PEER_WRITE], found);
    case P2P_NVLINK:
    case P2P_ATOMICS:
        return answer(&gpu->values[EMULATED_PEER_NVLINK], found);
    case P2P_PCI:
        *found = P2P_NOT_SUPPORTED;
        return done(NVML_SUCCESS);
    default:
        return done(NVML_ERROR_INVALID_ARGUMENT);
    }
}

/* As far apart as the two GPUs of a lab node are: below two sockets. */
EXPORTED nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                                          unsigned int *level)
{
    nvmlReturn_t status;
    if (ask_gpu("nvmlDeviceGetTopologyCommonAncestor", device, &status) == NULL)
        return status;
    if (device == other)
        return done(NVML_ERROR_INVALID_ARGUMENT);
    *level = TOPOLOGY_SYSTEM;
    return done(NVML_SUCCESS);
}
