/* The values that NVML gives by number instead of by a function of their own. */
#include "libnvidia-ml.h"

/* NVML_FI_DEV_*. */
enum {
    FIELD_MEMORY_TEMP = 82,
    FIELD_NVLINK_COUNT = 91,
    FIELD_PCIE_REPLAYS = 94,
    FIELD_NVLINK_REPLAY = 161,
    FIELD_NVLINK_RECOVERY = 162,
    FIELD_NVLINK_CRC = 163,
    FIELD_NVLINK_SPEED = 164,
    FIELD_NVLINK_STATE = 165,
    FIELD_NVLINK_VERSION = 166,
    FIELD_RECOVERY_ACTION = 230,
};

/* nvmlValueType_t. */
enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };

typedef struct {
    unsigned int fieldId;
    unsigned int scopeId;
    long long timestamp;
    long long latencyUsec;
    unsigned int valueType;
    nvmlReturn_t nvmlReturn;
    union {
        unsigned int uiVal;
        unsigned long long ullVal;
    } value;
} nvmlFieldValue_t;

/* Of a link the number is the scope. NULL: this GPU has no such value. */
static struct emulated_value *link_value(struct emulated_gpu *gpu, const nvmlFieldValue_t *field)
{
    static const enum emulated_nvlink_id values[] = {
        EMULATED_NVLINK_REPLAY, EMULATED_NVLINK_RECOVERY, EMULATED_NVLINK_CRC,
        EMULATED_NVLINK_SPEED,  EMULATED_NVLINK_STATE,    EMULATED_NVLINK_VERSION,
    };

    if ((long)field->scopeId >= gpu->values[EMULATED_NVLINKS].value)
        return NULL;
    return &gpu->nvlinks[field->scopeId].values[values[field->fieldId - FIELD_NVLINK_REPLAY]];
}

static struct emulated_value *value_of_field(struct emulated_gpu *gpu,
                                             const nvmlFieldValue_t *field)
{
    switch (field->fieldId) {
    case FIELD_MEMORY_TEMP:
        return &gpu->values[EMULATED_TEMPERATURE_MEMORY];
    case FIELD_NVLINK_COUNT:
        return &gpu->values[EMULATED_NVLINKS];
    case FIELD_PCIE_REPLAYS:
        return &gpu->values[EMULATED_PCIE_REPLAYS];
    case FIELD_RECOVERY_ACTION:
        return &gpu->values[EMULATED_RECOVERY_ACTION];
    case FIELD_NVLINK_REPLAY ... FIELD_NVLINK_VERSION:
        return link_value(gpu, field);
    default:
        return NULL;
    }
}

static void fill(struct emulated_gpu *gpu, nvmlFieldValue_t *field)
{
    struct emulated_value *value = value_of_field(gpu, field);
    long read = value == NULL ? EMULATED_ABSENT : emulated_read(value);
    bool counts = field->fieldId >= FIELD_NVLINK_REPLAY && field->fieldId <= FIELD_NVLINK_CRC;

    field->timestamp = field->latencyUsec = 0;
    field->nvmlReturn = read == EMULATED_ABSENT ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    field->valueType = counts ? UNSIGNED_LONG_LONG : UNSIGNED_INT;
    field->value.ullVal = read == EMULATED_ABSENT ? 0 : (unsigned long long)read;
}

EXPORTED nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                               nvmlFieldValue_t *fields)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetFieldValues", device, &status);

    if (gpu == NULL)
        return status;
    for (int i = 0; i < count; i++)
        fill(gpu, &fields[i]);
    return done(NVML_SUCCESS);
}
