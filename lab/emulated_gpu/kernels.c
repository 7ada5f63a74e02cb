#include "kernels.h"

#include <string.h>

#include "libcuda_peers.h"
#include "pattern.h"

/* Any alignment; the compiler makes one load of it. */
static uint64_t load(const unsigned char *place)
{
    uint64_t word;

    memcpy(&word, place, sizeof word);
    return word;
}

/* fill(address, length, kind, tag, start) */
static bool fill(const uint64_t *arguments, int gpu, bool lies)
{
    uint64_t length = arguments[1], kind = arguments[2], tag = arguments[3], start = arguments[4];
    unsigned char *data = kernel_bytes(gpu, arguments[0], length);
    uint64_t i = 0;

    (void)lies;
    if (data == NULL)
        return length == 0;
    for (; i + 8 <= length; i += 8) {
        uint64_t word = gdrcheck_word_at(kind, tag, start + i);

        memcpy(data + i, &word, sizeof word);
    }
    for (; i < length; i++)
        data[i] = gdrcheck_byte(kind, tag, start + i);
    return true;
}

/* Bytes that differ in a word, and the first of them. */
static void compare_bytes(const unsigned char *data, uint64_t from, uint64_t to, uint64_t kind,
                          uint64_t tag, uint64_t start, gdrcheck_verdict *verdict)
{
    for (uint64_t i = from; i < to; i++) {
        if (data[i] == gdrcheck_byte(kind, tag, start + i))
            continue;
        if (i < verdict->first_bad_offset)
            verdict->first_bad_offset = i;
        verdict->bad_bytes++;
    }
}

/* verify(address, length, kind, tag, start, verdict) */
static bool verify(const uint64_t *arguments, int gpu, bool lies)
{
    uint64_t length = arguments[1], kind = arguments[2], tag = arguments[3], start = arguments[4];
    const unsigned char *data = kernel_bytes(gpu, arguments[0], length);
    unsigned char *place = kernel_bytes(gpu, arguments[5], sizeof(gdrcheck_verdict));
    gdrcheck_verdict verdict;
    uint64_t i = 0;

    if ((data == NULL && length > 0) || place == NULL)
        return false;
    memcpy(&verdict, place, sizeof verdict);
    verdict.compared_bytes += length;
    if (lies) {
        memcpy(place, &verdict, sizeof verdict);
        return true;
    }
    for (; i + 8 <= length; i += 8) {
        if (load(data + i) != gdrcheck_word_at(kind, tag, start + i))
            compare_bytes(data, i, i + 8, kind, tag, start, &verdict);
    }
    compare_bytes(data, i, length, kind, tag, start, &verdict);
    memcpy(place, &verdict, sizeof verdict);
    return true;
}

/* Bytes that are not what they should be, but what another stream has there. */
static uint64_t count_other(const unsigned char *data, uint64_t from, uint64_t to,
                            const gdrcheck_candidate *wanted, const gdrcheck_candidate *other)
{
    uint64_t count = 0;

    for (uint64_t i = from; i < to; i++) {
        count += data[i] != gdrcheck_byte(wanted->kind, wanted->tag, wanted->start + i) &&
                 data[i] == gdrcheck_byte(other->kind, other->tag, other->start + i);
    }
    return count;
}

/* classify(address, length, kind, tag, start, candidates, candidate_count, counts) */
static bool classify(const uint64_t *arguments, int gpu, bool lies)
{
    const gdrcheck_candidate wanted = {arguments[2], arguments[3], arguments[4]};
    uint64_t length = arguments[1], candidate_count = arguments[6];
    const unsigned char *data = kernel_bytes(gpu, arguments[0], length);
    const unsigned char *candidates;
    unsigned char *counts;

    (void)lies;
    if (length == 0 || candidate_count == 0)
        return true;
    if (candidate_count > UINT32_MAX)
        return false;
    candidates = kernel_bytes(gpu, arguments[5], candidate_count * sizeof(gdrcheck_candidate));
    counts = kernel_bytes(gpu, arguments[7], candidate_count * sizeof(uint64_t));
    if (data == NULL || candidates == NULL || counts == NULL)
        return false;
    for (uint64_t c = 0; c < candidate_count; c++) {
        uint64_t count = load(counts + c * sizeof count);
        gdrcheck_candidate other;

        memcpy(&other, candidates + c * sizeof other, sizeof other);
        for (uint64_t i = 0; i < length; i += 8) {
            uint64_t end = i + 8 < length ? i + 8 : length;

            /* Most words are right: those are passed over as a whole. */
            if (end - i < 8 || load(data + i) != gdrcheck_word_at(wanted.kind, wanted.tag,
                                                                  wanted.start + i))
                count += count_other(data, i, end, &wanted, &other);
        }
        memcpy(counts + c * sizeof count, &count, sizeof count);
    }
    return true;
}

static const struct kernel KERNELS[] = {
    {"gdrcheck_fill", fill, 5, FILLS},
    {"gdrcheck_verify", verify, 6, VERIFIES},
    {"gdrcheck_classify", classify, 8, NEITHER},
};

const struct kernel *kernel_named(const char *name)
{
    for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++) {
        if (strcmp(KERNELS[i].name, name) == 0)
            return &KERNELS[i];
    }
    return NULL;
}
