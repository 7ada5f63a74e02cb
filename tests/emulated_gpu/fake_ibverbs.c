/* A libibverbs that registers nothing: each region says by its keys which function made it. Its one
 * context posts nothing either: it notes the key of the first piece of each request.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

struct send_wr {
    uint64_t wr_id;
    struct send_wr *next;
    struct sge *sg_list;
    int num_sge;
    int opcode;
};

/* struct ibv_context and struct ibv_qp, as far as ibv_post_send looks at them. */
struct context {
    void *device;
    void *ops_before_post_send[25];
    int (*post_send)(void *, struct send_wr *, struct send_wr **);
};

struct ibv_mr {
    struct context *context;
    void *pd;
    void *addr;
    size_t length;
    uint32_t handle;
    uint32_t lkey;
    uint32_t rkey;
};

enum { POSTED_MAX = 16 };

uint64_t fake_iova;
void *fake_addr;
int fake_registered;
int fake_access;
int fake_posted;
uint32_t fake_posted_keys[POSTED_MAX];

static int post_send(void *qp, struct send_wr *requests, struct send_wr **bad)
{
    (void)qp, (void)bad;
    for (struct send_wr *one = requests; one != NULL && fake_posted < POSTED_MAX; one = one->next)
        fake_posted_keys[fake_posted++] = one->sg_list->lkey;
    return 0;
}

struct context fake_context = {.post_send = post_send};
struct context *fake_qp = &fake_context;

static struct ibv_mr *made(void *pd, void *addr, size_t length, uint64_t iova, int access,
                           uint32_t by)
{
    struct ibv_mr *mr = calloc(1, sizeof *mr);

    fake_iova = iova;
    fake_addr = addr;
    fake_access = access;
    fake_registered++;
    *mr = (struct ibv_mr){&fake_context, pd, addr, length, 0, by, by};
    return mr;
}

struct ibv_mr *ibv_reg_mr(void *pd, void *addr, size_t length, int access)
{
    return made(pd, addr, length, (uint64_t)addr, access, 1);
}

struct ibv_mr *ibv_reg_mr_iova(void *pd, void *addr, size_t length, uint64_t iova, int access)
{
    return made(pd, addr, length, iova, access, 2);
}

struct ibv_mr *ibv_reg_mr_iova2(void *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
    return made(pd, addr, length, iova, (int)access, 3);
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
