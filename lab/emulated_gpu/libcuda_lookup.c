/* How the CUDA bindings find every other function. */
#include "libcuda.h"

#include <string.h>

#include "functions.h"

/* Their types do not matter here: only addresses are taken. */
#define DECLARE(name, symbol, since) void symbol(void);
EMULATED_CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

static const struct {
    const char *name;
    void (*address)(void);
    int since;
} FUNCTIONS[] = {
#define ENTRY(name, symbol, since) {#name, symbol, since},
    EMULATED_CUDA_FUNCTIONS(ENTRY)
#undef ENTRY
};

enum { SYMBOL_FOUND = 0, SYMBOL_NOT_FOUND = 1, VERSION_NOT_SUFFICIENT = 2 };

/* A driver of the configured CUDA version does not have what came later. */
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **address, int version,
                                    unsigned long long flags, int *result)
{
    int best = -1, known = 0;
    struct emulated_config *config;

    (void)flags;
    if (name == NULL || address == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    gate_lock();
    config = emulated_config();
    for (int i = 0; i < (int)(sizeof FUNCTIONS / sizeof *FUNCTIONS); i++) {
        if (strcmp(FUNCTIONS[i].name, name) != 0 ||
            (config != NULL && FUNCTIONS[i].since > config->cuda_version))
            continue;
        known = 1;
        if (FUNCTIONS[i].since <= version &&
            (best < 0 || FUNCTIONS[i].since > FUNCTIONS[best].since))
            best = i;
    }
    gate_unlock();
    *address = best >= 0 ? (void *)FUNCTIONS[best].address : NULL;
    if (result != NULL)
        *result = best >= 0 ? SYMBOL_FOUND : known ? VERSION_NOT_SUFFICIENT : SYMBOL_NOT_FOUND;
    return best >= 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
