/* What the emulated libcuda tells the stand-in for verbs about its memory. */
#ifndef GDRCHECK_EMULATED_MEMORY_H
#define GDRCHECK_EMULATED_MEMORY_H

struct gdrcheck_emulated_range {
    int gpu;                       /* number of the [gpu N] section */
    unsigned long long bar1_bytes; /* size of that GPU's BAR1 */
    void *alias;                   /* where the CPU finds the first byte */
    unsigned long long bytes;      /* from there to the end of the allocation, or of the export */
    unsigned long long pointer;    /* device pointer of the first byte */
};

/* 0: all of it is memory of one emulated GPU that a NIC may reach; ENOENT: the pointer is none of
   GPU memory; EFAULT: it begins in GPU memory and leaves it, or no NIC may reach it. */
int gdrcheck_emulated_range_of(unsigned long long pointer, unsigned long long length,
                               struct gdrcheck_emulated_range *out);

/* 0, or EBADF when `fd` is none that cuMemGetHandleForAddressRange gave. */
int gdrcheck_emulated_export_of(int fd, struct gdrcheck_emulated_range *out);

#endif
