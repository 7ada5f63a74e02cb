/* Modules and launches. The one PTX that loads is gdrcheck's own: its kernels exist here in C. */
#include "libcuda.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "libcuda_peers.h"
#include "stream.h"

/* The text of kernels.ptx as it was when this library was built, and a zero byte. */
extern const char builtin_ptx[];
__asm__(".section .rodata\n"
        ".local builtin_ptx\n"
        "builtin_ptx:\n"
        ".incbin \"" KERNELS_PTX "\"\n"
        ".byte 0\n"
        ".previous\n");

enum { THREADS_PER_BLOCK_MAX = 1024, FLIPPED = 0x10 };

struct module {
    struct module *next;
};
typedef struct module *CUmodule;
typedef const struct kernel *CUfunction;

static struct module *modules;

static CUresult load(CUmodule *module, const void *image)
{
    struct module *made;

    if (module == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (strcmp(image, builtin_ptx) != 0) {
        emulated_say("this is not the kernels.ptx that the stand-in was built with");
        return CUDA_ERROR_INVALID_PTX;
    }
    made = malloc(sizeof *made);
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->next = modules;
    modules = made;
    *module = made;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(load(module, image));
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                                   int *options, void **values)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (count > 0 && (options == NULL || values == NULL))
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(load(module, image));
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    for (struct module **link = &modules; *link != NULL; link = &(*link)->next) {
        if (*link != module)
            continue;
        *link = module->next;
        free(module);
        return leave(CUDA_SUCCESS);
    }
    return leave(CUDA_ERROR_INVALID_HANDLE);
}

static bool valid_module(CUmodule module)
{
    struct module *known = modules;

    while (known != NULL && known != module)
        known = known->next;
    return known != NULL;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (function == NULL || name == NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!valid_module(module))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    *function = kernel_named(name);
    return leave(*function != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

/* Flips a bit of the last byte of what a kernel with `role` works on, if the file says so. */
static void spoil(CUfunction kernel, const uint64_t *arguments, int gpu)
{
    enum emulated_effect effect =
        kernel->role == FILLS ? EMULATED_CORRUPT_SOURCE : EMULATED_CORRUPT_SINK;
    unsigned char *data = kernel_bytes(gpu, arguments[0], arguments[1]);

    if (emulated_corrupts(config_now(), effect, gpu, arguments[1]) && data != NULL &&
        arguments[1] > 0)
        data[arguments[1] - 1] ^= FLIPPED;
}

/* What another GPU's memory holds is right there, and may arrive changed. */
static bool run(CUfunction kernel, const uint64_t *arguments, int gpu, bool lies)
{
    bool changed = kernel->role == VERIFIES && peer_corrupts(gpu, arguments[0], arguments[1]);
    unsigned char *data = changed ? kernel_bytes(gpu, arguments[0], arguments[1]) : NULL;
    bool ran;

    if (data != NULL)
        data[arguments[1] - 1] ^= FLIPPED;
    ran = kernel->run(arguments, gpu, lies);
    if (data != NULL)
        data[arguments[1] - 1] ^= FLIPPED;
    return ran;
}

/* An address that is not there kills the context, and the call after the launch is the first that
 * says so.
 */
static void launch(CUfunction kernel, void **parameters)
{
    struct context *context = current_context();
    bool lies = emulated_switch(config_now(), EMULATED_VERIFY_LIES, context->gpu);
    uint64_t arguments[KERNEL_ARGUMENTS_MAX];

    for (int i = 0; i < kernel->arguments; i++)
        memcpy(&arguments[i], parameters[i], sizeof arguments[i]);
    if (kernel->role == VERIFIES)
        spoil(kernel, arguments, context->gpu);
    if (!run(kernel, arguments, context->gpu, lies))
        context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (kernel->role == FILLS)
        spoil(kernel, arguments, context->gpu);
}

EXPORT CUresult cuLaunchKernel(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z,
                               unsigned shared_bytes, CUstream stream, void **parameters,
                               void **extra)
{
    uint64_t threads = (uint64_t)block_x * block_y * block_z;

    (void)shared_bytes;
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (kernel == NULL || !valid_stream(stream))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535 ||
        threads == 0 || threads > THREADS_PER_BLOCK_MAX || parameters == NULL || extra != NULL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    launch(kernel, parameters);
    return leave(CUDA_SUCCESS);
}
