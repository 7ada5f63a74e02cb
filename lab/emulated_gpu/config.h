/* The file that describes the emulated GPUs and what shall go wrong with them.
 *
 * Compiled into each of the three stand-ins (libcuda, libnvidia-ml, the verbs preload), so each
 * counts calls for itself. Not thread-safe: a caller holds its own lock over all functions here and
 * over what they return.
 */
#ifndef GDRCHECK_EMULATED_CONFIG_H
#define GDRCHECK_EMULATED_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu_values.h"

#define EMULATED_CONFIG_VARIABLE "GDRCHECK_EMULATED_GPU"
#define EMULATED_CONFIG_DEFAULT "/etc/gdrcheck-emulated-gpu/gpus.conf"

enum {
    EMULATED_GPUS_MAX = 16,
    EMULATED_ATTRIBUTES_MAX = 32,
    EMULATED_FAULTS_MAX = 64,
    EMULATED_PROCESSES_MAX = 8,
    EMULATED_UUID_BYTES = 16,
    EMULATED_NAME_BYTES = 64,
    /* No GPU in particular: faults of [faults] apply, those of [faults gpu N] do not. */
    EMULATED_NO_GPU = -1,
};

/* One line `attribute N = value`; known is false for `attribute N = unknown`. */
struct emulated_attribute {
    int number;
    int value;
    bool known;
};

/* One line `process = PID MIB`: somebody else's process on the GPU. */
struct emulated_process {
    unsigned pid;
    uint64_t memory_bytes;
};

struct emulated_gpu {
    char slot[EMULATED_NAME_BYTES]; /* 0000:24:00.0 */
    unsigned char uuid[EMULATED_UUID_BYTES];
    char uuid_text[EMULATED_NAME_BYTES]; /* GPU-11111111-2222-3333-4444-555555555550 */
    char name[EMULATED_NAME_BYTES];
    char vbios[EMULATED_NAME_BYTES]; /* "unsupported": NVML does not tell */
    char board_part[EMULATED_NAME_BYTES];
    char gsp_firmware[EMULATED_NAME_BYTES];
    uint64_t memory_bytes;
    uint64_t bar1_bytes;
    int compute_mode; /* 0 default, 2 prohibited, 3 exclusive process */
    int process_count;
    struct emulated_process processes[EMULATED_PROCESSES_MAX];
    struct emulated_value values[EMULATED_VALUES];
    struct emulated_nvlink nvlinks[EMULATED_NVLINKS_MAX];
    int attribute_count;
    struct emulated_attribute attributes[EMULATED_ATTRIBUTES_MAX];
};

enum emulated_effect {
    EMULATED_FAIL,
    EMULATED_HANG,
    EMULATED_MANAGED,
    EMULATED_GONE,
    EMULATED_VERIFY_LIES,
    EMULATED_CORRUPT_SINK,
    EMULATED_CORRUPT_SOURCE,
    EMULATED_REFUSE_SOURCE,
    EMULATED_REFUSE_READ,
    EMULATED_REFUSE_SINK,
    EMULATED_PEER_CORRUPT,
    EMULATED_PEER_REFUSE,
};

struct emulated_fault {
    enum emulated_effect effect;
    char function[EMULATED_NAME_BYTES]; /* of EMULATED_FAIL and EMULATED_HANG */
    int gpu;                            /* EMULATED_NO_GPU: all */
    int status;                         /* of EMULATED_FAIL: CUresult, nvmlReturn_t or errno */
    uint64_t length_bytes;              /* of what corrupts: of so many bytes; 0: of all */
    long after;                         /* so many calls work first */
    long times;                         /* so often it happens then; 0: for ever */
    long calls;                         /* counted since the file was read */
};

struct emulated_config {
    char driver_version[EMULATED_NAME_BYTES];
    int cuda_version; /* 13000 is 13.0 */
    int confidential; /* computing: 0 off, 1 on, EMULATED_ABSENT */
    int gpu_count;
    struct emulated_gpu gpus[EMULATED_GPUS_MAX];
    bool peermem;
    bool dmabuf;
    int fault_count;
    struct emulated_fault faults[EMULATED_FAULTS_MAX];
};

/* The configuration as the file is now; read again when the file has changed. NULL when there is no
 * such file or anything is wrong with it: then every fault was written to stderr, once per version
 * of the file, and the caller must fail.
 */
struct emulated_config *emulated_config(void);

/* What becomes of one call of a function: 0: it works; EMULATED_CALL_HANGS: it must never return
 * (the caller gives its lock back first); else the status to fail with. Counts the call. `function`
 * may be a C symbol: a trailing _v2 that the fault's name lacks is overlooked.
 */
enum { EMULATED_CALL_HANGS = -1 };
int emulated_call(struct emulated_config *config, const char *function, int gpu);

/* Whether the GPU has vanished by now. Counts the call; false for EMULATED_NO_GPU. */
bool emulated_gone(struct emulated_config *config, int gpu);

/* Whether a kernel or a copy over so many bytes meets EMULATED_CORRUPT_SINK, EMULATED_CORRUPT_SOURCE
 * or EMULATED_PEER_CORRUPT. Counts it.
 */
bool emulated_corrupts(struct emulated_config *config, enum emulated_effect effect, int gpu,
                       uint64_t length_bytes);

/* Whether EMULATED_MANAGED, EMULATED_VERIFY_LIES, EMULATED_PEER_REFUSE or one of EMULATED_REFUSE_* is
 * on for the GPU.
 */
bool emulated_switch(const struct emulated_config *config, enum emulated_effect effect, int gpu);

/* Writes one line about the stand-in's own trouble to stderr. */
void emulated_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* config_parse.c: fills `config` from the file's text, which is changed; false when anything is
 * wrong, after saying what is wrong with each line.
 */
bool emulated_config_parse(const char *path, char *text, struct emulated_config *config);

#endif
