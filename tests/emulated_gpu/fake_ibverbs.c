/* A libibverbs that registers nothing: each region says by its keys which function made it. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct ibv_mr {
    void *context;
    void *pd;
    void *addr;
    size_t length;
    uint32_t handle;
    uint32_t lkey;
    uint32_t rkey;
};

uint64_t fake_iova;
void *fake_addr;
int fake_registered;

static struct ibv_mr *made(void *pd, void *addr, size_t length, uint64_t iova, uint32_t by)
{
    struct ibv_mr *mr = calloc(1, sizeof *mr);

    fake_iova = iova;
    fake_addr = addr;
    fake_registered++;
    *mr = (struct ibv_mr){.pd = pd, .addr = addr, .length = length, .lkey = by, .rkey = by};
    return mr;
}

struct ibv_mr *ibv_reg_mr(void *pd, void *addr, size_t length, int access)
{
    (void)access;
    return made(pd, addr, length, (uint64_t)addr, 1);
}

struct ibv_mr *ibv_reg_mr_iova(void *pd, void *addr, size_t length, uint64_t iova, int access)
{
    (void)access;
    return made(pd, addr, length, iova, 2);
}

struct ibv_mr *ibv_reg_mr_iova2(void *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
    (void)access;
    return made(pd, addr, length, iova, 3);
}

struct ibv_mr *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                 int access)
{
    (void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
    errno = EOPNOTSUPP;
    return NULL;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    fake_registered--;
    free(mr);
    return 0;
}
