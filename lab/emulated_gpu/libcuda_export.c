/* dma-buf descriptors, and what the verbs preload asks about memory. */
#define _GNU_SOURCE
#include "libcuda.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"
#include "pool.h"
#include "ranges.h"

enum {
    ATTRIBUTE_HOST_PAGE_TABLES = 100,
    ATTRIBUTE_FLUSH_OPTIONS = 117,
    ATTRIBUTE_DMABUF = 124,
    HANDLE_TYPE_DMABUF = 1,
    FLAG_PCIE_MAPPING = 1,
    FLAG_PCIE_SINCE = 12080,
    EXPORTS_KEPT = 4096,
};

/* Of <linux/udmabuf.h>, which old headers lack. */
struct udmabuf_create {
    __u32 memfd;
    __u32 flags;
    __u64 offset;
    __u64 size;
};
#define UDMABUF_CREATE _IOW('u', 0x42, struct udmabuf_create)
#define UDMABUF_FLAGS_CLOEXEC 1

/* A descriptor's file is known by its inode, which no other dma-buf has while it lives. */
struct export {
    dev_t device;
    ino_t inode;
    struct gdrcheck_emulated_range range;
};

static struct export exports[EXPORTS_KEPT];
static size_t exported;

/* The allocation whose pages these are. They may reach beyond it, up to the ends of its pages. */
static struct range *range_of_pages(uint64_t start, uint64_t bytes, uint64_t page)
{
    struct range *range;

    for (size_t i = 0; (range = range_number(i)) != NULL; i++) {
        uint64_t first = range->base & ~(page - 1);
        uint64_t end = (range->base + range->bytes + page - 1) & ~(page - 1);

        if (start >= first && start < end && bytes <= end - start)
            return range;
    }
    return NULL;
}

/* A real dma-buf where the kernel makes them from a memfd. Elsewhere an empty file of the same size
 * that nobody can map or write: it stands for the range, and only this library knows for which.
 */
static int make_descriptor(int memfd, uint64_t place, uint64_t bytes)
{
    struct udmabuf_create request = {
        .memfd = (__u32)memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .offset = place, .size = bytes};
    int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    int fd;

    if (device >= 0) {
        fd = ioctl(device, UDMABUF_CREATE, &request);
        if (fd < 0)
            emulated_say("/dev/udmabuf refuses %llu bytes: %s", (unsigned long long)bytes,
                         strerror(errno));
        close(device);
        return fd;
    }
    if (errno != ENOENT && errno != EACCES && errno != EPERM) {
        emulated_say("/dev/udmabuf: %s", strerror(errno));
        return -1;
    }
    fd = memfd_create("gdrcheck-emulated-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)bytes) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        emulated_say("no file for a dma-buf: %s", strerror(errno));
    return fd;
}

static bool remember(int fd, const struct gdrcheck_emulated_range *range)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return false;
    exports[exported++ % EXPORTS_KEPT] = (struct export){status.st_dev, status.st_ino, *range};
    return true;
}

static CUresult export_range(const struct range *range, uint64_t start, uint64_t bytes, int *fd)
{
    struct pool *pool = pool_of(range->gpu);
    struct gdrcheck_emulated_range exported_range = {
        .gpu = range->gpu,
        .bar1_bytes = gpu_now(range->gpu)->bar1_bytes,
        .alias = range->alias + (int64_t)(start - range->base),
        .bytes = bytes,
        .pointer = start,
    };

    if (pool == NULL)
        return CUDA_ERROR_UNKNOWN;
    *fd = make_descriptor(pool->memfd, range->place + (start - range->base), bytes);
    if (*fd < 0)
        return CUDA_ERROR_UNKNOWN;
    if (!remember(*fd, &exported_range)) {
        close(*fd);
        return CUDA_ERROR_UNKNOWN;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr start, size_t bytes,
                                              int type, unsigned long long flags)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const struct range *range;
    int supported = 0, coherent = 0;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (handle == NULL || type != HANDLE_TYPE_DMABUF || flags > FLAG_PCIE_MAPPING ||
        (flags != 0 && config_now()->cuda_version < FLAG_PCIE_SINCE))
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (bytes == 0 || start % page != 0 || bytes % page != 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    range = range_of_pages(start, bytes, page);
    if (range == NULL || range->memory == HOST_MEMORY || range->memory == MANAGED_MEMORY)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!device_attribute(range->gpu, ATTRIBUTE_DMABUF, &supported) || !supported)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    /* A GPU behind plain PCIe has one way to map its memory and refuses to be told. One that is
     * coherent with the CPU has two. */
    device_attribute(range->gpu, ATTRIBUTE_HOST_PAGE_TABLES, &coherent);
    if (flags == FLAG_PCIE_MAPPING && !coherent)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    return leave(export_range(range, start, bytes, handle));
}

EXPORT CUresult cuFlushGPUDirectRDMAWrites(int target, int scope)
{
    int options = 0;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    /* CURRENT_CTX; TO_OWNER or TO_ALL_DEVICES */
    if (target != 0 || (scope != 100 && scope != 200))
        return leave(CUDA_ERROR_INVALID_VALUE);
    device_attribute(current_context()->gpu, ATTRIBUTE_FLUSH_OPTIONS, &options);
    return leave(options & 1 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
}

static int describe_pointer(uint64_t pointer, uint64_t bytes, struct gdrcheck_emulated_range *out)
{
    const struct range *range = range_at(pointer);
    uint64_t offset;

    if (range == NULL || range->memory == HOST_MEMORY || range->memory == MANAGED_MEMORY)
        return ENOENT;
    offset = pointer - range->base;
    if (!range->gdr_capable || !range->accessible || bytes > range->bytes - offset)
        return EFAULT;
    *out = (struct gdrcheck_emulated_range){
        .gpu = range->gpu,
        .bar1_bytes = gpu_now(range->gpu)->bar1_bytes,
        .alias = range->alias + offset,
        .bytes = range->bytes - offset,
        .pointer = pointer,
    };
    return 0;
}

EXPORT int gdrcheck_emulated_range_of(unsigned long long pointer, unsigned long long length,
                                      struct gdrcheck_emulated_range *out)
{
    int status;

    gate_lock();
    status = describe_pointer(pointer, length, out);
    gate_unlock();
    return status;
}

EXPORT int gdrcheck_emulated_export_of(int fd, struct gdrcheck_emulated_range *out)
{
    struct stat status;
    int found = EBADF;

    if (fstat(fd, &status) != 0)
        return EBADF;
    gate_lock();
    /* The newest first: an inode number may be used again after its file is gone. */
    for (size_t i = exported; found != 0 && i-- > 0 && exported - i <= EXPORTS_KEPT;) {
        const struct export *known = &exports[i % EXPORTS_KEPT];

        if (known->inode == status.st_ino && known->device == status.st_dev) {
            *out = known->range;
            found = 0;
        }
    }
    gate_unlock();
    return found;
}
