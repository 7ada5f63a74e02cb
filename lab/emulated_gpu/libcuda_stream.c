/* Streams and events. Work is done when it is submitted, so there is nothing to wait for. */
#include "stream.h"

#include <stdlib.h>
#include <time.h>

/* Handles that were given out, in a list, so that a wrong one is refused. */
struct stream {
    struct stream *next;
};

struct event {
    struct event *next;
    bool recorded;
    struct timespec when;
};
typedef struct event *CUevent;

static struct stream *streams;
static struct event *events;

/* 0, 1 and 2 are the default, the legacy and the per-thread default stream. */
bool valid_stream(CUstream stream)
{
    if ((uintptr_t)stream <= 2)
        return true;
    for (struct stream *known = streams; known != NULL; known = known->next) {
        if (known == stream)
            return true;
    }
    return false;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    struct stream *made;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (stream == NULL || flags > 1)
        return leave(CUDA_ERROR_INVALID_VALUE);
    made = malloc(sizeof *made);
    if (made == NULL)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->next = streams;
    streams = made;
    *stream = made;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    for (struct stream **link = &streams; *link != NULL; link = &(*link)->next) {
        if (*link != stream)
            continue;
        *link = stream->next;
        free(stream);
        return leave(CUDA_SUCCESS);
    }
    return leave(CUDA_ERROR_INVALID_HANDLE);
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(valid_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static bool valid_event(CUevent event)
{
    for (struct event *known = events; known != NULL; known = known->next) {
        if (known == event)
            return true;
    }
    return false;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    struct event *made;

    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (event == NULL || flags > 7)
        return leave(CUDA_ERROR_INVALID_VALUE);
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->next = events;
    events = made;
    *event = made;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    if (!valid_event(event) || !valid_stream(stream))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    clock_gettime(CLOCK_MONOTONIC, &event->when);
    event->recorded = true;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(valid_event(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end)
{
    if (milliseconds == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid_event(start) || !valid_event(end) || !start->recorded || !end->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)(end->when.tv_sec - start->when.tv_sec) * 1e3F +
                    (float)(end->when.tv_nsec - start->when.tv_nsec) * 1e-6F;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(elapsed(milliseconds, start, end));
}

EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    return leave(elapsed(milliseconds, start, end));
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER_OR_RETURN(CURRENT_CONTEXT, CONTEXT_GPU);
    for (struct event **link = &events; *link != NULL; link = &(*link)->next) {
        if (*link != event)
            continue;
        *link = event->next;
        free(event);
        return leave(CUDA_SUCCESS);
    }
    return leave(CUDA_ERROR_INVALID_HANDLE);
}
