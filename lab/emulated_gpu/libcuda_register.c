/* Page-locking of memory that the process has. Every copy here is one of the CPU, so there is nothing
 * to do but to remember it: a range cannot be registered twice, nor be given up when it is not.
 */
#include <stdlib.h>

#include "libcuda.h"

struct locked {
    uint64_t address;
    uint64_t bytes;
    struct locked *next;
};

static struct locked *all_locked;

static CUresult lock_range(uint64_t address, uint64_t bytes)
{
    struct locked *made;

    for (const struct locked *one = all_locked; one != NULL; one = one->next) {
        if (address < one->address + one->bytes && one->address < address + bytes)
            return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    made = malloc(sizeof *made);
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (struct locked){address, bytes, all_locked};
    all_locked = made;
    return CUDA_SUCCESS;
}

static CUresult unlock_range(uint64_t address)
{
    for (struct locked **link = &all_locked; *link != NULL; link = &(*link)->next) {
        struct locked *one = *link;

        if (one->address != address)
            continue;
        *link = one->next;
        free(one);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

EXPORT CUresult cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    /* PORTABLE 1, DEVICEMAP 2 */
    if (host == NULL || bytes == 0 || flags > 3)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(lock_range((uint64_t)(uintptr_t)host, bytes));
}

EXPORT CUresult cuMemHostUnregister(void *host)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (host == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(unlock_range((uint64_t)(uintptr_t)host));
}
