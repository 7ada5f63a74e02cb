/* The public layouts of infiniband/verbs.h that the stand-in reads, which have not changed since
 * IBVERBS_1.1.
 */
#ifndef GDRCHECK_EMULATED_VERBS_LAYOUT_H
#define GDRCHECK_EMULATED_VERBS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

struct ibv_pd;
struct ibv_send_wr;
struct ibv_qp;

typedef int post_send_function(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

struct ibv_context {
    void *device;
    void *ops_before_post_send[25];
    post_send_function *post_send;
};

struct ibv_qp {
    struct ibv_context *context;
};

struct ibv_mr {
    struct ibv_context *context;
    struct ibv_pd *pd;
    void *addr;
    size_t length;
    uint32_t handle;
    uint32_t lkey;
    uint32_t rkey;
};

struct ibv_sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

enum { WR_RDMA_READ = 4, WR_ATOMIC_CMP_AND_SWP = 5, WR_ATOMIC_FETCH_AND_ADD = 6 };

struct ibv_send_wr {
    uint64_t wr_id;
    struct ibv_send_wr *next;
    struct ibv_sge *sg_list;
    int num_sge;
    int opcode;
};

enum {
    ACCESS_LOCAL_WRITE = 1,
    ACCESS_REMOTE_WRITE = 1 << 1,
    ACCESS_REMOTE_READ = 1 << 2,
    ACCESS_REMOTE_ATOMIC = 1 << 3,
};

#endif
