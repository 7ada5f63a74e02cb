/* The one definition of the byte streams, for the GPU's kernels and for C on the CPU.
 *
 * Compiles as CUDA C (NVRTC, without any system header) and as C99. gdrcheck/pattern.py is the same
 * in Python; the tests compare all three.
 *
 * A stream is made of little-endian 64-bit words; `kind` says how the word at an index is made, and
 * every word is XORed with `tag`. Byte `position` of a stream is byte position % 8 of the word at
 * index position / 8. A buffer holds a piece of a stream, from byte `start` of the stream on.
 * Indices and positions are unsigned 64-bit numbers and wrap round.
 */
#ifndef GDRCHECK_PATTERN_H
#define GDRCHECK_PATTERN_H

#if defined(__CUDACC__)
#define GDRCHECK_INLINE static __device__ __forceinline__
#else
#define GDRCHECK_INLINE static inline
#endif

typedef unsigned long long gdrcheck_u64;

/* MIXED: mix(index), what messages are made of; the tag is that of the message's key.
 * EVEN: 2 * index. CONSTANT: 0, so that every word is the tag; with tag 0 these are zeros.
 * The poison of a stream is its complement: the same kind with the tag's complement. */
#define GDRCHECK_MIXED 0ULL
#define GDRCHECK_EVEN 1ULL
#define GDRCHECK_CONSTANT 2ULL

/* SplitMix64's finaliser. */
GDRCHECK_INLINE gdrcheck_u64 gdrcheck_mix(gdrcheck_u64 word)
{
    word += 0x9E3779B97F4A7C15ULL;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
    return word ^ (word >> 31);
}

/* The whole word at an index of a stream. */
GDRCHECK_INLINE gdrcheck_u64 gdrcheck_word(gdrcheck_u64 kind, gdrcheck_u64 tag, gdrcheck_u64 index)
{
    gdrcheck_u64 word = 0;

    if (kind == GDRCHECK_MIXED)
        word = gdrcheck_mix(index);
    else if (kind == GDRCHECK_EVEN)
        word = 2 * index;
    return word ^ tag;
}

/* The eight bytes of a stream from any byte position on, as a little-endian word. */
GDRCHECK_INLINE gdrcheck_u64 gdrcheck_word_at(gdrcheck_u64 kind, gdrcheck_u64 tag,
                                              gdrcheck_u64 position)
{
    gdrcheck_u64 index = position >> 3;
    unsigned phase = (unsigned)(position & 7) * 8;
    gdrcheck_u64 low = gdrcheck_word(kind, tag, index);

    if (phase == 0)
        return low;
    return (low >> phase) | (gdrcheck_word(kind, tag, index + 1) << (64 - phase));
}

/* One byte of a stream. */
GDRCHECK_INLINE unsigned char gdrcheck_byte(gdrcheck_u64 kind, gdrcheck_u64 tag,
                                            gdrcheck_u64 position)
{
    return (unsigned char)(gdrcheck_word(kind, tag, position >> 3) >> (8 * (position & 7)));
}

/* What the verify kernel writes. The caller sets first_bad_offset to ~0 and the others to 0.
 * A kernel that did not run, or not over every byte, is told from one that found nothing wrong. */
typedef struct {
    gdrcheck_u64 first_bad_offset; /* from the buffer's first byte; the least of all threads */
    gdrcheck_u64 bad_bytes;        /* added up over all threads */
    gdrcheck_u64 compared_bytes;   /* likewise; in the end the buffer's length */
} gdrcheck_verdict;

/* A stream that the wrong bytes may come from. */
typedef struct {
    gdrcheck_u64 kind;
    gdrcheck_u64 tag;
    gdrcheck_u64 start;
} gdrcheck_candidate;

/* The kernels. Every argument is a 64-bit number; addresses are device pointers of any alignment.
 *
 * gdrcheck_fill(address, length_bytes, kind, tag, start)
 *     writes the stream: byte i of the buffer is byte start + i of the stream.
 *
 * gdrcheck_verify(address, length_bytes, kind, tag, start, verdict)
 *     verdict: address of one gdrcheck_verdict (8-byte aligned). Compares every byte.
 *
 * gdrcheck_classify(address, length_bytes, kind, tag, start, candidates, candidate_count, counts)
 *     candidates: address of candidate_count gdrcheck_candidate; counts: address of candidate_count
 *     64-bit numbers, which the caller sets to 0. counts[c] grows by the number of bytes i that are
 *     not byte start + i of the stream, but byte candidates[c].start + i of candidate c.
 *
 * The grid has one dimension and no more than 2^24 threads, the block 32 to 256 in steps of 32.
 */

#endif
