// The very source of the GPU's kernels, run thread by thread on the CPU. Each thread is a block of
// its own, so the sum over a warp is the thread's own number.
#include <algorithm>
#include <cassert>
#include <cstdint>

#define __CUDACC__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(threads, groups)

struct Dimension {
    unsigned x;
};
static Dimension blockIdx, threadIdx, blockDim = {1}, gridDim;

struct ulonglong2 {
    unsigned long long x, y;
};
static ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

template <class T> static T __ldcs(const T *address)
{
    assert((uintptr_t)address % sizeof(T) == 0);
    return *address;
}
template <class T> static void atomicMin(T *address, T value) { *address = std::min(*address, value); }
template <class T> static void atomicAdd(T *address, T value) { *address += value; }
template <class T> static T __shfl_down_sync(unsigned, T, int) { return 0; }
static int __popcll(unsigned long long word) { return __builtin_popcountll(word); }
static int __ffsll(unsigned long long word) { return __builtin_ffsll((long long)word); }
using std::min;

#include "kernels.cu"

template <class... Arguments>
static void launch(void (*kernel)(Arguments...), unsigned threads, Arguments... arguments)
{
    gridDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < threads; blockIdx.x++)
        kernel(arguments...);
}

typedef gdrcheck_u64 u64;

extern "C" void fill(unsigned threads, u64 address, u64 length, u64 kind, u64 tag, u64 start)
{
    launch(gdrcheck_fill, threads, address, length, kind, tag, start);
}

extern "C" void verify(unsigned threads, u64 address, u64 length, u64 kind, u64 tag, u64 start,
                       u64 verdict)
{
    launch(gdrcheck_verify, threads, address, length, kind, tag, start, verdict);
}

extern "C" void classify(unsigned threads, u64 address, u64 length, u64 kind, u64 tag, u64 start,
                         u64 candidates, u64 count, u64 counts)
{
    launch(gdrcheck_classify, threads, address, length, kind, tag, start, candidates, count,
           counts);
}
