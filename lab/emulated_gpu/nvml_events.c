/* Events: XIDs, which come once for each version of the file that has some. */
#include <stdlib.h>
#include <time.h>

#include "libnvidia-ml.h"

enum { XID_EVENT = 0x8, LOOK_AGAIN_MS = 20 };

struct event_set {
    struct event_set *next;
    bool watches[EMULATED_GPUS_MAX];
};
typedef struct event_set *nvmlEventSet_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType;
    unsigned long long eventData;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
} nvmlEventData_t;

/* All that were made, so that a wrong one is refused. Under the lock. */
static struct event_set *event_sets;

static bool valid(const struct event_set *set)
{
    const struct event_set *known = event_sets;

    while (known != NULL && known != set)
        known = known->next;
    return known != NULL;
}

EXPORTED nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    nvmlReturn_t status;
    struct event_set *made;

    if (ask("nvmlEventSetCreate", &status) == NULL)
        return status;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        abort();
    made->next = event_sets;
    event_sets = made;
    *set = made;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    nvmlReturn_t status;

    if (ask("nvmlEventSetFree", &status) == NULL)
        return status;
    for (struct event_set **link = &event_sets; *link != NULL; link = &(*link)->next) {
        if (*link != set)
            continue;
        *link = set->next;
        free(set);
        return done(NVML_SUCCESS);
    }
    return done(NVML_ERROR_INVALID_ARGUMENT);
}

EXPORTED nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                       unsigned long long *types)
{
    nvmlReturn_t status;

    if (ask_gpu("nvmlDeviceGetSupportedEventTypes", device, &status) == NULL)
        return status;
    *types = XID_EVENT;
    return done(NVML_SUCCESS);
}

EXPORTED nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                               nvmlEventSet_t set)
{
    nvmlReturn_t status;

    if (ask_gpu("nvmlDeviceRegisterEvents", device, &status) == NULL)
        return status;
    if (!valid(set))
        return done(NVML_ERROR_INVALID_ARGUMENT);
    if ((types & ~(unsigned long long)XID_EVENT) != 0)
        return done(NVML_ERROR_NOT_SUPPORTED);
    set->watches[number_of_device(device)] = (types & XID_EVENT) != 0;
    return done(NVML_SUCCESS);
}

/* `after` counts waits; an event that was told of is so until the file changes. */
static bool take_event(struct emulated_config *config, const struct event_set *set, bool first,
                       nvmlEventData_t *data)
{
    for (int number = 0; number < config->gpu_count; number++) {
        struct emulated_value *xid = &config->gpus[number].values[EMULATED_XID];
        bool due = set->watches[number] && xid->value != EMULATED_ABSENT && !xid->taken;

        if (!due)
            continue;
        xid->readings += first;
        if (xid->after > 0 && xid->readings <= xid->after)
            continue;
        xid->taken = true;
        *data = (nvmlEventData_t){device_of_number(number), XID_EVENT,
                                  (unsigned long long)xid->value, ~0u, ~0u};
        return true;
    }
    return false;
}

EXPORTED nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                          unsigned int timeout_ms)
{
    const struct timespec pause = {0, LOOK_AGAIN_MS * 1000000L};
    nvmlReturn_t status;
    struct emulated_config *config = ask("nvmlEventSetWait_v2", &status);

    if (config == NULL)
        return status;
    for (unsigned int waited_ms = 0;; waited_ms += LOOK_AGAIN_MS) {
        if (!valid(set))
            return done(NVML_ERROR_INVALID_ARGUMENT);
        /* A file that is wrong for the moment has no events. */
        if (config != NULL && take_event(config, set, waited_ms == 0, data))
            return done(NVML_SUCCESS);
        done(NVML_SUCCESS);
        if (waited_ms >= timeout_ms)
            return NVML_ERROR_TIMEOUT;
        nanosleep(&pause, NULL);
        config = lock_again();
    }
}
