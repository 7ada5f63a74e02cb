/* Clocks, power and temperatures. */
#include "libnvidia-ml.h"

#define VALUE(gpu, name) (&(gpu)->values[EMULATED_##name])

/* nvmlClockType_t; nvmlClocksEventReasonGpuIdle. */
enum { GRAPHICS = 0, SM = 1, MEMORY = 2, VIDEO = 3, REASON_IDLE = 0x1 };
enum { THRESHOLD_SHUTDOWN = 0, THRESHOLD_SLOWDOWN = 1, THRESHOLDS = 8 };
enum { MILLIWATTS = 1000, LEAST_LIMIT_W = 200 };

EXPORTED nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type,
                                             unsigned int *mhz)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetClockInfo", device, &status);

    if (gpu == NULL)
        return status;
    if (type > VIDEO)
        return done(NVML_ERROR_INVALID_ARGUMENT);
    if (type == MEMORY)
        return answer(VALUE(gpu, CLOCK_MEMORY), mhz);
    return answer(busy(number_of_device(device)) ? VALUE(gpu, CLOCK_GRAPHICS)
                                                 : VALUE(gpu, CLOCK_GRAPHICS_IDLE),
                  mhz);
}

EXPORTED nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int type,
                                                unsigned int *mhz)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetMaxClockInfo", device, &status);

    if (gpu == NULL)
        return status;
    if (type > VIDEO)
        return done(NVML_ERROR_INVALID_ARGUMENT);
    return answer(type == MEMORY ? VALUE(gpu, CLOCK_MEMORY_MAX) : VALUE(gpu, CLOCK_GRAPHICS_MAX),
                  mhz);
}

static nvmlReturn_t clock_limits(const char *function, nvmlDevice_t device,
                                 unsigned long long *reasons)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu(function, device, &status);

    if (gpu == NULL)
        return status;
    status = answer_long(VALUE(gpu, CLOCK_LIMITS), reasons);
    if (status == NVML_SUCCESS && !busy(number_of_device(device)))
        *reasons |= REASON_IDLE;
    return status;
}

EXPORTED nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                             unsigned long long *reasons)
{
    return clock_limits("nvmlDeviceGetCurrentClocksEventReasons", device, reasons);
}

/* The name before driver 535. */
EXPORTED nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                                unsigned long long *reasons)
{
    return clock_limits("nvmlDeviceGetCurrentClocksThrottleReasons", device, reasons);
}

static nvmlReturn_t answer_milliwatts(struct emulated_value *watts, unsigned int *place)
{
    nvmlReturn_t status = answer(watts, place);

    if (status == NVML_SUCCESS)
        *place *= MILLIWATTS;
    return status;
}

#define ANSWERS_POWER(function, name)                                             \
    EXPORTED nvmlReturn_t function(nvmlDevice_t device, unsigned int *place)      \
    {                                                                             \
        nvmlReturn_t status;                                                      \
        struct emulated_gpu *gpu = ask_gpu(#function, device, &status);           \
        return gpu == NULL ? status : answer_milliwatts(VALUE(gpu, name), place); \
    }

ANSWERS_POWER(nvmlDeviceGetPowerUsage, POWER_DRAW)
ANSWERS_POWER(nvmlDeviceGetPowerManagementLimit, POWER_LIMIT)
ANSWERS_POWER(nvmlDeviceGetEnforcedPowerLimit, POWER_LIMIT)
ANSWERS_POWER(nvmlDeviceGetPowerManagementDefaultLimit, POWER_DEFAULT)

EXPORTED nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                                   unsigned int *least,
                                                                   unsigned int *most)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu =
        ask_gpu("nvmlDeviceGetPowerManagementLimitConstraints", device, &status);

    if (gpu == NULL)
        return status;
    *least = LEAST_LIMIT_W * MILLIWATTS;
    return answer_milliwatts(VALUE(gpu, POWER_MAX), most);
}

EXPORTED nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor,
                                               unsigned int *celsius)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetTemperature", device, &status);

    if (gpu == NULL)
        return status;
    return sensor == 0 ? answer(VALUE(gpu, TEMPERATURE), celsius)
                       : done(NVML_ERROR_INVALID_ARGUMENT);
}

typedef struct {
    unsigned int version;
    unsigned int sensorType;
    int temperature;
} nvmlTemperature_t;

EXPORTED nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *found)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetTemperatureV", device, &status);
    unsigned int celsius = 0;

    if (gpu == NULL)
        return status;
    if (found->version != (sizeof *found | 1U << 24))
        return done(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (found->sensorType != 0)
        return done(NVML_ERROR_INVALID_ARGUMENT);
    status = answer(VALUE(gpu, TEMPERATURE), &celsius);
    found->temperature = (int)celsius;
    return status;
}

EXPORTED nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int which,
                                                        unsigned int *celsius)
{
    nvmlReturn_t status;
    struct emulated_gpu *gpu = ask_gpu("nvmlDeviceGetTemperatureThreshold", device, &status);

    if (gpu == NULL)
        return status;
    if (which == THRESHOLD_SHUTDOWN)
        return answer(VALUE(gpu, TEMPERATURE_SHUTDOWN), celsius);
    if (which == THRESHOLD_SLOWDOWN)
        return answer(VALUE(gpu, TEMPERATURE_SLOWDOWN), celsius);
    return done(which < THRESHOLDS ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT);
}
