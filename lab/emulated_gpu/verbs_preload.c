/* Stands before libibverbs (LD_PRELOAD or ld.so.preload) and gives what no driver of software can:
 * registration of GPU memory. Memory of the emulated libcuda is registered where the CPU finds it,
 * under the address by which the caller knows it. Everything else goes through to libibverbs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "config.h"
#include "memory.h"
#include "verbs_refuse.h"

#define EXPORTED __attribute__((visibility("default")))

typedef struct ibv_mr *reg_mr_function(struct ibv_pd *, void *, size_t, int);
typedef struct ibv_mr *reg_mr_iova_function(struct ibv_pd *, void *, size_t, uint64_t, int);
typedef struct ibv_mr *reg_mr_iova2_function(struct ibv_pd *, void *, size_t, uint64_t,
                                             unsigned int);
typedef struct ibv_mr *reg_dmabuf_mr_function(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
typedef int dereg_mr_function(struct ibv_mr *);

/* A registration that takes room in a GPU's window. */
struct pinned {
    struct ibv_mr *mr;
    int gpu;
    size_t length;
    struct pinned *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned *all_pinned;

static void *real(const char *name, const char *version)
{
    void *found = dlvsym(RTLD_NEXT, name, version);
    if (found == NULL) {
        /* Opened with RTLD_LOCAL, by Python for one, it is in no scope of ours. */
        void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
        found = library == NULL ? NULL : dlvsym(library, name, version);
    }
    if (found == NULL) {
        emulated_say("libibverbs.so.1 has no %s@%s", name, version);
        abort();
    }
    return found;
}

/* A function of the emulated libcuda; NULL without one in this process. */
static void *of_libcuda(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return NULL;
    void *found = dlsym(library, name);
    dlclose(library);
    return found;
}

/* As gdrcheck_emulated_range_of; without the emulated libcuda no pointer is GPU memory. */
static int range_of(uint64_t pointer, size_t length, struct gdrcheck_emulated_range *range)
{
    int (*find)(unsigned long long, unsigned long long, struct gdrcheck_emulated_range *) =
        of_libcuda("gdrcheck_emulated_range_of");
    return find == NULL ? ENOENT : find(pointer, length, range);
}

static int export_of(int fd, struct gdrcheck_emulated_range *range)
{
    int (*find)(int, struct gdrcheck_emulated_range *) = of_libcuda("gdrcheck_emulated_export_of");
    return find == NULL ? EBADF : find(fd, range);
}

/* The errno of a call by the file, 0 when it works. Called with the lock, which a call that never
 * returns gives back.
 */
static int fault_of(struct emulated_config *config, const char *function, int gpu)
{
    int status = emulated_call(config, function, gpu);
    if (status == EMULATED_CALL_HANGS) {
        pthread_mutex_unlock(&lock);
        for (;;)
            pause();
    }
    return status;
}

static uint64_t pinned_bytes(int gpu)
{
    uint64_t sum = 0;
    for (struct pinned *one = all_pinned; one != NULL; one = one->next)
        if (one->gpu == gpu)
            sum += one->length;
    return sum;
}

static struct ibv_mr *refused(int error)
{
    errno = error;
    return NULL;
}

/* Registers what lies `offset` bytes into the range under `iova`; `full` is the errno when the GPU's
 * window has no room for it.
 */
static struct ibv_mr *register_alias(const struct emulated_config *config,
                                     const struct gdrcheck_emulated_range *range, uint64_t offset,
                                     struct ibv_pd *pd, size_t length, uint64_t iova, int access,
                                     int full)
{
    if (pinned_bytes(range->gpu) + length > config->gpus[range->gpu].bar1_bytes)
        return refused(full);
    struct pinned *entry = malloc(sizeof *entry);
    if (entry == NULL)
        return refused(ENOMEM);
    reg_mr_iova2_function *reg = real("ibv_reg_mr_iova2", "IBVERBS_1.8");
    int left = access_left(config, range->gpu, access);
    struct ibv_mr *mr = reg(pd, (char *)range->alias + offset, length, iova, (unsigned int)left);
    if (mr == NULL) {
        free(entry);
        return NULL;
    }
    if (emulated_switch(config, EMULATED_REFUSE_SOURCE, range->gpu) && !refuse_reads(mr)) {
        emulated_say("no memory to refuse what reads a region");
        abort();
    }
    *entry = (struct pinned){mr, range->gpu, length, all_pinned};
    all_pinned = entry;
    return mr;
}

/* peermem: ib_core asks nvidia-peermem for the pages of a pointer that is no memory of the CPU. */
static struct ibv_mr *register_pointer(const struct gdrcheck_emulated_range *range,
                                       struct ibv_pd *pd, void *address, size_t length,
                                       uint64_t iova, int access)
{
    struct emulated_config *config = emulated_config();
    if (config == NULL || range->gpu >= config->gpu_count)
        return refused(EFAULT);
    int error = fault_of(config, "ibv_reg_mr", range->gpu);
    if (error != 0)
        return refused(error);
    if (!config->peermem || emulated_gone(config, range->gpu))
        return refused(EFAULT);
    struct ibv_mr *mr = register_alias(config, range, 0, pd, length, iova, access, EFAULT);
    if (mr != NULL)
        mr->addr = address;
    return mr;
}

/* Whether the address is memory of an emulated GPU; then `mr` is what came of its registration. */
static bool taken(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, int access,
                  struct ibv_mr **mr)
{
    struct gdrcheck_emulated_range range;
    int error = range_of((uint64_t)(uintptr_t)address, length, &range);
    if (error == ENOENT)
        return false;
    if (error != 0) {
        *mr = refused(error);
        return true;
    }
    pthread_mutex_lock(&lock);
    *mr = register_pointer(&range, pd, address, length, iova, access);
    pthread_mutex_unlock(&lock);
    return true;
}

EXPORTED struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    struct ibv_mr *mr;
    if (taken(pd, address, length, (uint64_t)(uintptr_t)address, access, &mr))
        return mr;
    reg_mr_function *reg = real("ibv_reg_mr", "IBVERBS_1.1");
    return reg(pd, address, length, access);
}

EXPORTED struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length,
                                        uint64_t iova, int access)
{
    struct ibv_mr *mr;
    if (taken(pd, address, length, iova, access, &mr))
        return mr;
    reg_mr_iova_function *reg = real("ibv_reg_mr_iova", "IBVERBS_1.7");
    return reg(pd, address, length, iova, access);
}

EXPORTED struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length,
                                         uint64_t iova, unsigned int access)
{
    struct ibv_mr *mr;
    if (taken(pd, address, length, iova, (int)access, &mr))
        return mr;
    reg_mr_iova2_function *reg = real("ibv_reg_mr_iova2", "IBVERBS_1.8");
    return reg(pd, address, length, iova, access);
}

/* As the kernel says it of a descriptor that is no dma-buf. */
static int errno_of_no_dmabuf(int fd)
{
    return fcntl(fd, F_GETFD) == -1 ? EBADF : EINVAL;
}

static struct ibv_mr *register_export(struct emulated_config *config, struct ibv_pd *pd,
                                      uint64_t offset, size_t length, uint64_t iova, int fd,
                                      int access)
{
    struct gdrcheck_emulated_range range;
    bool ours = export_of(fd, &range) == 0 && range.gpu < config->gpu_count;
    int error = fault_of(config, "ibv_reg_dmabuf_mr", ours ? range.gpu : EMULATED_NO_GPU);
    if (error != 0)
        return refused(error);
    if (!ours)
        return refused(errno_of_no_dmabuf(fd));
    if (emulated_gone(config, range.gpu))
        return refused(ENODEV);
    if (offset > range.bytes || length > range.bytes - offset)
        return refused(EINVAL);
    struct ibv_mr *mr = register_alias(config, &range, offset, pd, length, iova, access, ENOMEM);
    if (mr != NULL)
        mr->addr = NULL;
    return mr;
}

EXPORTED struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                          uint64_t iova, int fd, int access)
{
    pthread_mutex_lock(&lock);
    struct emulated_config *config = emulated_config();
    if (config != NULL && config->dmabuf) {
        struct ibv_mr *mr = register_export(config, pd, offset, length, iova, fd, access);
        pthread_mutex_unlock(&lock);
        return mr;
    }
    pthread_mutex_unlock(&lock);
    reg_dmabuf_mr_function *reg = real("ibv_reg_dmabuf_mr", "IBVERBS_1.12");
    return reg(pd, offset, length, iova, fd, access);
}

static void unpin(struct ibv_mr *mr)
{
    for (struct pinned **link = &all_pinned; *link != NULL; link = &(*link)->next) {
        struct pinned *entry = *link;
        if (entry->mr == mr) {
            *link = entry->next;
            free(entry);
            return;
        }
    }
}

EXPORTED int ibv_dereg_mr(struct ibv_mr *mr)
{
    /* With the lock, lest another thread is given this address anew before it is forgotten. */
    pthread_mutex_lock(&lock);
    dereg_mr_function *dereg = real("ibv_dereg_mr", "IBVERBS_1.1");
    forget_refusal(mr);
    int status = dereg(mr);
    if (status == 0)
        unpin(mr);
    pthread_mutex_unlock(&lock);
    return status;
}
