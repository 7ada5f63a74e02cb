#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { HUGE_PAGE_BYTES = 2 << 20, RESERVE_KIB = 64 << 10 };

/* What is taken, sorted by place. */
struct extent {
    uint64_t place;
    uint64_t bytes;
};

struct shelf {
    struct pool pool;
    bool made;
    uint64_t populated; /* the bytes below were touched */
    size_t count;
    size_t room;
    struct extent *taken;
};

static struct shelf shelves[EMULATED_GPUS_MAX];

uint64_t reserve_addresses(uint64_t bytes)
{
    uint64_t whole = bytes + HUGE_PAGE_BYTES;
    unsigned char *found = mmap(NULL, whole, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t start, head;

    if (found == MAP_FAILED)
        return 0;
    start = ((uint64_t)(uintptr_t)found + HUGE_PAGE_BYTES - 1) & ~(uint64_t)(HUGE_PAGE_BYTES - 1);
    head = start - (uint64_t)(uintptr_t)found;
    if (head > 0)
        munmap(found, head);
    munmap(found + head + bytes, HUGE_PAGE_BYTES - head);
    return start;
}

static bool make(struct pool *pool, int gpu, uint64_t capacity)
{
    char name[64];
    void *alias;

    snprintf(name, sizeof name, "gdrcheck-emulated-gpu-%d", gpu);
    pool->capacity = capacity;
    pool->memfd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (pool->memfd < 0 || ftruncate(pool->memfd, (off_t)capacity) != 0 ||
        fcntl(pool->memfd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        emulated_say("no memory file of %llu bytes for GPU %d: %s", (unsigned long long)capacity,
                     gpu, strerror(errno));
        return false;
    }
    alias = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, pool->memfd,
                 0);
    pool->base = alias == MAP_FAILED ? 0 : reserve_addresses(capacity);
    if (pool->base == 0) {
        emulated_say("no addresses for %llu bytes of GPU %d: %s", (unsigned long long)capacity, gpu,
                     strerror(errno));
        return false;
    }
    pool->alias = alias;
    return true;
}

static void unmake(struct shelf *shelf)
{
    munmap(shelf->pool.alias, shelf->pool.capacity);
    munmap((void *)(uintptr_t)shelf->pool.base, shelf->pool.capacity);
    close(shelf->pool.memfd);
    shelf->made = false;
    shelf->populated = 0;
}

struct pool *pool_of(int gpu)
{
    struct shelf *shelf = &shelves[gpu];
    uint64_t capacity = gpu_now(gpu)->memory_bytes;

    if (shelf->made && shelf->count == 0 && shelf->pool.capacity != capacity)
        unmake(shelf);
    if (!shelf->made)
        shelf->made = make(&shelf->pool, gpu, capacity);
    return shelf->made ? &shelf->pool : NULL;
}

/* The index in `taken` at which an extent of `bytes` fits, and its place; SIZE_MAX for none. */
static size_t first_fit(const struct shelf *shelf, uint64_t bytes, uint64_t alignment,
                        uint64_t *place)
{
    uint64_t start = 0;

    for (size_t i = 0; i <= shelf->count; i++) {
        uint64_t end = i < shelf->count ? shelf->taken[i].place : shelf->pool.capacity;

        start = (start + alignment - 1) & ~(alignment - 1);
        if (start <= end && bytes <= end - start) {
            *place = start;
            return i;
        }
        if (i < shelf->count)
            start = shelf->taken[i].place + shelf->taken[i].bytes;
    }
    return SIZE_MAX;
}

/* In MemAvailable's kibibytes; LONG_MAX when it cannot be read. */
static long available_kib(void)
{
    char line[128];
    long kib = __LONG_MAX__;
    FILE *stream = fopen("/proc/meminfo", "re");

    while (stream != NULL && fgets(line, sizeof line, stream) != NULL) {
        if (sscanf(line, "MemAvailable: %ld", &kib) == 1)
            break;
    }
    if (stream != NULL)
        fclose(stream);
    return kib;
}

/* Touches what was never touched. Refused in time: what the kernel does otherwise is to kill some
 * process of its choice.
 */
static bool populate(struct shelf *shelf, uint64_t end)
{
    uint64_t from = shelf->populated;

    if (end <= from)
        return true;
    end = (end + HUGE_PAGE_BYTES - 1) & ~(uint64_t)(HUGE_PAGE_BYTES - 1);
    if (end > shelf->pool.capacity)
        end = shelf->pool.capacity;
    if ((long)((end - from) >> 10) > available_kib() - RESERVE_KIB) {
        emulated_say("this machine has too little memory left for %llu MiB of an emulated GPU",
                     (unsigned long long)((end - from) >> 20));
        return false;
    }
    if (madvise(shelf->pool.alias + from, end - from, MADV_POPULATE_WRITE) != 0) {
        if (errno != EINVAL) {
            emulated_say("populating the memory of an emulated GPU: %s", strerror(errno));
            return false;
        }
        /* Linux before 5.14 */
        memset(shelf->pool.alias + from, 0, end - from);
    }
    shelf->populated = end;
    return true;
}

bool pool_take(int gpu, uint64_t bytes, uint64_t alignment, uint64_t *place)
{
    struct shelf *shelf = &shelves[gpu];
    size_t index;

    if (pool_of(gpu) == NULL)
        return false;
    index = first_fit(shelf, bytes, alignment, place);
    if (index == SIZE_MAX || !populate(shelf, *place + bytes))
        return false;
    if (shelf->count == shelf->room) {
        size_t room = shelf->room > 0 ? 2 * shelf->room : 64;
        struct extent *grown = realloc(shelf->taken, room * sizeof *grown);

        if (grown == NULL)
            return false;
        shelf->taken = grown;
        shelf->room = room;
    }
    memmove(shelf->taken + index + 1, shelf->taken + index,
            (shelf->count - index) * sizeof *shelf->taken);
    shelf->taken[index] = (struct extent){*place, bytes};
    shelf->count++;
    return true;
}

void pool_give(int gpu, uint64_t place)
{
    struct shelf *shelf = &shelves[gpu];

    for (size_t i = 0; i < shelf->count; i++) {
        if (shelf->taken[i].place != place)
            continue;
        memmove(shelf->taken + i, shelf->taken + i + 1,
                (shelf->count - i - 1) * sizeof *shelf->taken);
        shelf->count--;
        return;
    }
}

uint64_t pool_used(int gpu)
{
    uint64_t used = 0;

    for (size_t i = 0; i < shelves[gpu].count; i++)
        used += shelves[gpu].taken[i].bytes;
    return used;
}
