#include "ranges.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "pool.h"

static struct range **table;
static size_t count;
static size_t room;

struct range *ranges_add(const struct range *range)
{
    static uint64_t last_id;
    struct range *kept = malloc(sizeof *kept);

    if (kept != NULL && count == room) {
        size_t wanted = room > 0 ? 2 * room : 64;
        struct range **grown = realloc(table, wanted * sizeof *grown);

        if (grown == NULL) {
            free(kept);
            return NULL;
        }
        table = grown;
        room = wanted;
    }
    if (kept == NULL)
        return NULL;
    *kept = *range;
    kept->id = ++last_id;
    table[count++] = kept;
    return kept;
}

struct range *range_at(uint64_t address)
{
    for (size_t i = 0; i < count; i++) {
        if (address - table[i]->base < table[i]->bytes)
            return table[i];
    }
    return NULL;
}

struct range *range_number(size_t n)
{
    return n < count ? table[n] : NULL;
}

unsigned char *range_bytes(uint64_t address, uint64_t bytes)
{
    struct range *range = range_at(address);

    if (range == NULL || !range->accessible || bytes > range->bytes - (address - range->base))
        return NULL;
    return range->alias + (address - range->base);
}

void ranges_remove(struct range *range)
{
    for (size_t i = 0; i < count; i++) {
        if (table[i] != range)
            continue;
        table[i] = table[--count];
        free(range);
        return;
    }
}

void ranges_forget_context(int gpu)
{
    for (size_t i = count; i-- > 0;) {
        struct range *range = table[i];

        if (range->gpu != gpu || range->memory == MAPPED_MEMORY)
            continue;
        if (range->memory == DEVICE_MEMORY)
            pool_give(gpu, range->place);
        else
            munmap(range->alias, range->bytes);
        ranges_remove(range);
    }
}
