/* What NVML tells of a GPU's health, as numbers: one table for the parser and for libnvidia-ml.
 *
 * V(identifier, name in the file, least, most, what a healthy H200 has, words): a value may be
 * written as one of the words, which stand for 0, 1, 2 and so on. The values are those that an H200
 * with driver 580 answered, but for the PCIe generation: here it falls when the GPU is idle, as on
 * many others.
 */
#ifndef GDRCHECK_EMULATED_GPU_VALUES_H
#define GDRCHECK_EMULATED_GPU_VALUES_H

#include <limits.h>
#include <stdbool.h>

/* What the GPU does not have: `unsupported` in the file. */
enum { EMULATED_ABSENT = -1 };

#define EMULATED_PEER_WORDS \
    "ok chipset_not_supported gpu_not_supported topology_not_supported disabled not_supported " \
    "unknown"

#define EMULATED_GPU_VALUES(V)                                                              \
    V(PERSISTENCE, "persistence", 0, 1, 1, "off on")                                        \
    V(ECC_MODE, "ecc mode", 0, 1, 1, "off on")                                              \
    V(ECC_PENDING, "ecc pending", 0, 1, 1, "off on")                                        \
    V(ECC_VOLATILE_CORRECTABLE, "ecc volatile correctable", 0, LONG_MAX, 0, "")             \
    V(ECC_VOLATILE_UNCORRECTABLE, "ecc volatile uncorrectable", 0, LONG_MAX, 0, "")         \
    V(ECC_AGGREGATE_CORRECTABLE, "ecc aggregate correctable", 0, LONG_MAX, 0, "")           \
    V(ECC_AGGREGATE_UNCORRECTABLE, "ecc aggregate uncorrectable", 0, LONG_MAX, 0, "")       \
    V(SRAM_THRESHOLD, "sram threshold exceeded", 0, 1, 0, "no yes")                         \
    V(ROW_REMAP_CORRECTABLE, "row remap correctable", 0, INT_MAX, 0, "")                    \
    V(ROW_REMAP_UNCORRECTABLE, "row remap uncorrectable", 0, INT_MAX, 0, "")                \
    V(ROW_REMAP_PENDING, "row remap pending", 0, 1, 0, "no yes")                            \
    V(ROW_REMAP_FAILED, "row remap failed", 0, 1, 0, "no yes")                              \
    V(RETIRED_SINGLE_BIT, "retired single bit", 0, 64, EMULATED_ABSENT, "")                 \
    V(RETIRED_DOUBLE_BIT, "retired double bit", 0, 64, EMULATED_ABSENT, "")                 \
    V(RETIRED_PENDING, "retired pending", 0, 1, EMULATED_ABSENT, "no yes")                  \
    V(RECOVERY_ACTION, "recovery action", 0, 7, 0,                                          \
      "none reset reboot drain_p2p drain_and_reset recover_imex_domain bus_reset "          \
      "system_reboot")                                                                      \
    V(CLOCK_GRAPHICS, "clock graphics mhz", 0, 9999, 1980, "")                              \
    V(CLOCK_GRAPHICS_IDLE, "clock graphics idle mhz", 0, 9999, 345, "")                     \
    V(CLOCK_MEMORY, "clock memory mhz", 0, 9999, 3201, "")                                  \
    V(CLOCK_GRAPHICS_MAX, "clock max graphics mhz", 0, 9999, 1980, "")                      \
    V(CLOCK_MEMORY_MAX, "clock max memory mhz", 0, 9999, 3201, "")                          \
    V(CLOCK_LIMITS, "clock limits", 0, 0x1ff, 0, "")                                        \
    V(POWER_DRAW, "power draw w", 0, 9999, 134, "")                                         \
    V(POWER_LIMIT, "power limit w", 0, 9999, 700, "")                                       \
    V(POWER_DEFAULT, "power default w", 0, 9999, 700, "")                                   \
    V(POWER_MAX, "power max w", 0, 9999, 700, "")                                           \
    V(TEMPERATURE, "temperature gpu c", 0, 999, 41, "")                                     \
    V(TEMPERATURE_MEMORY, "temperature memory c", 0, 999, 41, "")                           \
    V(TEMPERATURE_SLOWDOWN, "temperature slowdown c", 0, 999, 89, "")                       \
    V(TEMPERATURE_SHUTDOWN, "temperature shutdown c", 0, 999, 95, "")                       \
    V(PCIE_GENERATION, "pcie generation load", 1, 9, 5, "")                                 \
    V(PCIE_GENERATION_IDLE, "pcie generation idle", 1, 9, 1, "")                            \
    V(PCIE_GENERATION_MAX, "pcie generation max", 1, 9, 5, "")                              \
    V(PCIE_WIDTH, "pcie width", 1, 32, 16, "")                                              \
    V(PCIE_WIDTH_MAX, "pcie width max", 1, 32, 16, "")                                      \
    V(PCIE_REPLAYS, "replays", 0, INT_MAX, 2, "")                                           \
    V(NVLINKS, "nvlinks", 0, EMULATED_NVLINKS_MAX, EMULATED_NVLINKS_MAX, "")                \
    V(PEER_READ, "peer read", 0, 6, 0, EMULATED_PEER_WORDS)                                 \
    V(PEER_WRITE, "peer write", 0, 6, 0, EMULATED_PEER_WORDS)                               \
    V(PEER_NVLINK, "peer nvlink", 0, 6, 0, EMULATED_PEER_WORDS)                             \
    V(XID, "xid", 1, 999, EMULATED_ABSENT, "")

/* Of each NVLink: `nvlink N = down`, `nvlink N recovery = 2`. Without a GPU it ends at a switch. */
#define EMULATED_NVLINK_VALUES(V)                              \
    V(NVLINK_STATE, "", 0, 1, 1, "down up")                    \
    V(NVLINK_GPU, "gpu", 0, 15, EMULATED_ABSENT, "")           \
    V(NVLINK_VERSION, "version", 1, 9, 6, "")                  \
    V(NVLINK_SPEED, "speed", 0, 999999, 26562, "")             \
    V(NVLINK_REPLAY, "replay", 0, LONG_MAX, 0, "")             \
    V(NVLINK_RECOVERY, "recovery", 0, LONG_MAX, 0, "")         \
    V(NVLINK_CRC, "crc", 0, LONG_MAX, 0, "")

enum { EMULATED_NVLINKS_MAX = 18 };

#define EMULATED_ID(id, ...) EMULATED_##id,
enum emulated_value_id { EMULATED_GPU_VALUES(EMULATED_ID) EMULATED_VALUES };
enum emulated_nvlink_id { EMULATED_NVLINK_VALUES(EMULATED_ID) EMULATED_NVLINK_VALUES_COUNT };
#undef EMULATED_ID

/* A value as it is after so many readings; before, it is what a healthy GPU has. */
struct emulated_value {
    long value;
    long healthy;
    long after;
    long readings; /* counted since the file was read */
    bool taken;    /* of an XID: it was told of */
};

/* What is read now: EMULATED_ABSENT for what the GPU does not have. Counts the reading. */
long emulated_read(struct emulated_value *value);

struct emulated_nvlink {
    struct emulated_value values[EMULATED_NVLINK_VALUES_COUNT];
};

struct parser;
struct emulated_gpu;

/* All values as a healthy H200 has them. */
void set_healthy(struct emulated_gpu *gpu);

/* One line of [gpu N] that is in the tables; false for any other key. */
bool set_value(struct parser *parser, const char *key, char *text);

#endif
