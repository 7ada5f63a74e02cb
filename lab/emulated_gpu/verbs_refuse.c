/* A NIC that cannot read a GPU's memory ends each work request that reads it with a protection
 * error. Soft-RoCE does so by itself when the region's key is wrong, so the key is what is spoilt,
 * for as long as the request is posted. ibv_post_send is inline in its callers: it is met where they
 * all call, in the context's table of functions.
 */
#include "verbs_refuse.h"

#include <pthread.h>
#include <stdlib.h>

enum { KEY_SPOILT = 0xff };

struct refused {
    const struct ibv_mr *mr;
    struct refused *next;
};

/* A context whose ibv_post_send is ours, and its own. */
struct met {
    struct ibv_context *context;
    post_send_function *post_send;
    struct met *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct refused *all_refused;
static struct met *all_met;

int access_left(const struct emulated_config *config, int gpu, int access)
{
    if (emulated_switch(config, EMULATED_REFUSE_SOURCE, gpu) ||
        emulated_switch(config, EMULATED_REFUSE_READ, gpu))
        access &= ~ACCESS_REMOTE_READ;
    if (emulated_switch(config, EMULATED_REFUSE_SINK, gpu))
        access &= ~(ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC);
    return access;
}

/* Whether the key is that of a region which the NIC cannot read. */
static bool is_refused(const struct ibv_context *context, uint32_t lkey)
{
    for (struct refused *one = all_refused; one != NULL; one = one->next) {
        if (one->mr->context == context && one->mr->lkey == lkey)
            return true;
    }
    return false;
}

static bool reads_memory(const struct ibv_send_wr *request)
{
    return request->opcode != WR_RDMA_READ && request->opcode != WR_ATOMIC_CMP_AND_SWP &&
           request->opcode != WR_ATOMIC_FETCH_AND_ADD;
}

/* Spoils the keys of refused regions in all requests of the list, or repairs them. `turned` is what
 * has been done to them: 0 when they are right.
 */
static void turn_keys(const struct ibv_context *context, struct ibv_send_wr *requests,
                      uint32_t turned)
{
    for (struct ibv_send_wr *one = requests; one != NULL; one = one->next) {
        for (int i = 0; reads_memory(one) && i < one->num_sge; i++) {
            struct ibv_sge *piece = &one->sg_list[i];

            if (is_refused(context, piece->lkey ^ turned))
                piece->lkey ^= KEY_SPOILT;
        }
    }
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *requests, struct ibv_send_wr **bad)
{
    struct met *met;
    int status;

    pthread_mutex_lock(&lock);
    met = all_met;
    while (met->context != qp->context)
        met = met->next;
    turn_keys(qp->context, requests, 0);
    status = met->post_send(qp, requests, bad);
    turn_keys(qp->context, requests, KEY_SPOILT);
    pthread_mutex_unlock(&lock);
    return status;
}

/* A context may lie where an earlier one lay that was closed. */
static bool meet(struct ibv_context *context)
{
    struct met *met = all_met;

    if (context->post_send == post_send)
        return true;
    while (met != NULL && met->context != context)
        met = met->next;
    if (met == NULL) {
        met = malloc(sizeof *met);
        if (met == NULL)
            return false;
        *met = (struct met){context, NULL, all_met};
        all_met = met;
    }
    met->post_send = context->post_send;
    context->post_send = post_send;
    return true;
}

bool refuse_reads(const struct ibv_mr *mr)
{
    struct refused *entry = malloc(sizeof *entry);
    bool done;

    if (entry == NULL)
        return false;
    pthread_mutex_lock(&lock);
    done = meet(mr->context);
    if (done) {
        *entry = (struct refused){mr, all_refused};
        all_refused = entry;
    } else {
        free(entry);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

void forget_refusal(const struct ibv_mr *mr)
{
    pthread_mutex_lock(&lock);
    for (struct refused **link = &all_refused; *link != NULL; link = &(*link)->next) {
        struct refused *entry = *link;
        if (entry->mr == mr) {
            *link = entry->next;
            free(entry);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}
