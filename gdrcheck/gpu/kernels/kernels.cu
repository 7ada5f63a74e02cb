/* The kernels that pattern.h lists. kernels.ptx is made of this file by scripts/make_ptx.py. */
#include "pattern.h"

/* Blocks of 16 bytes that a thread loads before it compares, and groups of threads that share a
 * multiprocessor. On an H200, verification reads 8 GiB at 1.05 of the rate of a copy; without the
 * bound on the groups, the compiler moves the loads apart, and it is 1.00, with one block 0.73. */
#define BATCH 4
#define GROUP_THREADS 256
#define GROUPS 4

/* A buffer as the threads see it: bytes up to the first 16-byte boundary, blocks, and the rest. */
struct Layout {
    gdrcheck_u64 head, blocks, tail;

    __device__ Layout(gdrcheck_u64 address, gdrcheck_u64 length)
    {
        head = (0 - address) & 15;
        if (head > length)
            head = length;
        blocks = (length - head) / 16;
        tail = head + 16 * blocks;
    }
};

struct Lane {
    gdrcheck_u64 first, step;

    __device__ Lane()
    {
        first = (gdrcheck_u64)blockIdx.x * blockDim.x + threadIdx.x;
        step = (gdrcheck_u64)gridDim.x * blockDim.x;
    }
};

/* The stream by whole blocks. PLAIN: mixed words that lie as the buffer's blocks do. */
template <bool PLAIN> struct Blocks {
    gdrcheck_u64 kind, tag, index;
    unsigned shift;

    __device__ Blocks(gdrcheck_u64 kind, gdrcheck_u64 tag, gdrcheck_u64 position)
        : kind(PLAIN ? GDRCHECK_MIXED : kind), tag(tag), index(position >> 3),
          shift(8 * (unsigned)(position & 7))
    {
    }

    __device__ ulonglong2 at(gdrcheck_u64 block) const
    {
        const gdrcheck_u64 first = index + 2 * block;
        const gdrcheck_u64 low = gdrcheck_word(kind, tag, first);
        const gdrcheck_u64 high = gdrcheck_word(kind, tag, first + 1);
        if (PLAIN || shift == 0)
            return make_ulonglong2(low, high);
        const gdrcheck_u64 next = gdrcheck_word(kind, tag, first + 2);
        return make_ulonglong2((low >> shift) | (high << (64 - shift)),
                               (high >> shift) | (next << (64 - shift)));
    }
};

static __device__ bool plain(gdrcheck_u64 kind, gdrcheck_u64 position)
{
    return kind == GDRCHECK_MIXED && position % 8 == 0;
}

template <bool PLAIN>
static __device__ void fill_blocks(ulonglong2 *data, gdrcheck_u64 blocks,
                                   const Blocks<PLAIN> &stream)
{
    const Lane lane;
    for (gdrcheck_u64 block = lane.first; block < blocks; block += lane.step)
        data[block] = stream.at(block);
}

extern "C" __global__ void gdrcheck_fill(gdrcheck_u64 address, gdrcheck_u64 length,
                                         gdrcheck_u64 kind, gdrcheck_u64 tag, gdrcheck_u64 start)
{
    const Layout layout(address, length);
    const Lane lane;
    unsigned char *bytes = (unsigned char *)address;
    ulonglong2 *data = (ulonglong2 *)(address + layout.head);
    const gdrcheck_u64 position = start + layout.head;

    for (gdrcheck_u64 i = lane.first; i < layout.head; i += lane.step)
        bytes[i] = gdrcheck_byte(kind, tag, start + i);
    for (gdrcheck_u64 i = layout.tail + lane.first; i < length; i += lane.step)
        bytes[i] = gdrcheck_byte(kind, tag, start + i);
    if (plain(kind, position))
        fill_blocks(data, layout.blocks, Blocks<true>(kind, tag, position));
    else
        fill_blocks(data, layout.blocks, Blocks<false>(kind, tag, position));
}

/* What one thread found. Each byte is loaded once, so no cache need keep it. */
struct Found {
    gdrcheck_u64 first_bad, bad, compared;

    __device__ Found() : first_bad(~0ULL), bad(0), compared(0) {}

    /* The bytes of a word that differ, as the top bits of theirs. */
    __device__ void word(gdrcheck_u64 difference, gdrcheck_u64 offset)
    {
        const gdrcheck_u64 low = 0x7f7f7f7f7f7f7f7fULL;
        const gdrcheck_u64 marks = (((difference & low) + low) | difference) & ~low;

        if (marks == 0)
            return;
        bad += __popcll(marks);
        first_bad = min(first_bad, offset + (__ffsll(marks) - 1) / 8);
    }

    __device__ void block(ulonglong2 got, ulonglong2 expected, gdrcheck_u64 offset)
    {
        word(got.x ^ expected.x, offset);
        word(got.y ^ expected.y, offset + 8);
        compared += 16;
    }

    __device__ void byte(gdrcheck_u64 address, gdrcheck_u64 offset, unsigned char expected)
    {
        word(__ldcs((const unsigned char *)(address + offset)) ^ expected, offset);
        compared++;
    }

    /* All threads of the warp call it together. */
    __device__ void report(gdrcheck_verdict *verdict) const
    {
        gdrcheck_u64 sum = compared;

        for (int distance = 16; distance; distance /= 2)
            sum += __shfl_down_sync(~0U, sum, distance);
        if (threadIdx.x % 32 == 0)
            atomicAdd(&verdict->compared_bytes, sum);
        if (bad == 0)
            return;
        atomicMin(&verdict->first_bad_offset, first_bad);
        atomicAdd(&verdict->bad_bytes, bad);
    }
};

/* Whole batches of plain blocks; returns the thread's first block that is left. */
static __device__ gdrcheck_u64 verify_batches(Found &found, const ulonglong2 *data,
                                              gdrcheck_u64 head, gdrcheck_u64 blocks,
                                              const Blocks<true> &stream)
{
    const Lane lane;
    const unsigned stride = 2 * (unsigned)lane.step;
    gdrcheck_u64 block = lane.first;

    for (; block + (BATCH - 1) * lane.step < blocks; block += BATCH * lane.step) {
        ulonglong2 got[BATCH];
        gdrcheck_u64 difference = 0;
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            got[i] = __ldcs(data + block + i * lane.step);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const gdrcheck_u64 at = stream.index + 2 * block + i * (gdrcheck_u64)stride;
            difference |= got[i].x ^ stream.tag ^ gdrcheck_mix(at);
            difference |= got[i].y ^ stream.tag ^ gdrcheck_mix(at + 1);
        }
        if (difference == 0) {
            found.compared += 16 * BATCH;
            continue;
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const gdrcheck_u64 at = block + i * lane.step;
            found.block(got[i], stream.at(at), head + 16 * at);
        }
    }
    return block;
}

extern "C" __global__ void __launch_bounds__(GROUP_THREADS, GROUPS)
    gdrcheck_verify(gdrcheck_u64 address, gdrcheck_u64 length, gdrcheck_u64 kind, gdrcheck_u64 tag,
                    gdrcheck_u64 start, gdrcheck_u64 verdict)
{
    const Layout layout(address, length);
    const Lane lane;
    const ulonglong2 *data = (const ulonglong2 *)(address + layout.head);
    const gdrcheck_u64 position = start + layout.head;
    const Blocks<false> stream(kind, tag, position);
    gdrcheck_u64 block = lane.first;
    Found found;

    for (gdrcheck_u64 i = lane.first; i < layout.head; i += lane.step)
        found.byte(address, i, gdrcheck_byte(kind, tag, start + i));
    for (gdrcheck_u64 i = layout.tail + lane.first; i < length; i += lane.step)
        found.byte(address, i, gdrcheck_byte(kind, tag, start + i));
    if (plain(kind, position))
        block = verify_batches(found, data, layout.head, layout.blocks,
                               Blocks<true>(kind, tag, position));
    for (; block < layout.blocks; block += lane.step)
        found.block(__ldcs(data + block), stream.at(block), layout.head + 16 * block);
    found.report((gdrcheck_verdict *)verdict);
}

/* Runs after a verification that failed, so it is short rather than fast. */
extern "C" __global__ void gdrcheck_classify(gdrcheck_u64 address, gdrcheck_u64 length,
                                             gdrcheck_u64 kind, gdrcheck_u64 tag,
                                             gdrcheck_u64 start, gdrcheck_u64 candidates,
                                             gdrcheck_u64 candidate_count, gdrcheck_u64 counts)
{
    const Lane lane;
    const unsigned char *bytes = (const unsigned char *)address;

    for (gdrcheck_u64 c = 0; c < candidate_count; c++) {
        const gdrcheck_candidate candidate = ((const gdrcheck_candidate *)candidates)[c];
        gdrcheck_u64 same = 0;

        for (gdrcheck_u64 i = lane.first; i < length; i += lane.step) {
            const unsigned char got = __ldcs(bytes + i);
            if (got != gdrcheck_byte(kind, tag, start + i) &&
                got == gdrcheck_byte(candidate.kind, candidate.tag, candidate.start + i))
                same++;
        }
        if (same)
            atomicAdd((gdrcheck_u64 *)counts + c, same);
    }
}
