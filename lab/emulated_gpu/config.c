#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 1 << 18 };

/* What tells one version of the file from another. */
struct version {
    char path[4096];
    struct stat status;
    bool known;
};

static struct version current;
static struct emulated_config configuration;
static bool usable;

void emulated_say(const char *format, ...)
{
    va_list arguments;

    fputs("gdrcheck emulated GPU: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static bool same_version(const struct version *old, const char *path, const struct stat *status)
{
    return old->known && strcmp(old->path, path) == 0 && old->status.st_ino == status->st_ino &&
           old->status.st_dev == status->st_dev && old->status.st_size == status->st_size &&
           old->status.st_mtim.tv_sec == status->st_mtim.tv_sec &&
           old->status.st_mtim.tv_nsec == status->st_mtim.tv_nsec;
}

static bool read_text(const char *path, char *text, struct stat *status)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;
    size_t length = 0;

    if (fd >= 0 && fstat(fd, status) == 0) {
        while (length < TEXT_BYTES_MAX - 1 &&
               (got = read(fd, text + length, TEXT_BYTES_MAX - 1 - length)) > 0)
            length += (size_t)got;
    }
    if (got != 0)
        emulated_say("%s: %s; %s names the file that describes the GPUs", path,
                     got < 0 ? strerror(errno) : "too long", EMULATED_CONFIG_VARIABLE);
    if (fd >= 0)
        close(fd);
    text[length] = '\0';
    return got == 0;
}

/* The version is kept even when the file is wrong, so that it is complained of once. */
static void read_again(const char *path, const struct stat *status)
{
    static char text[TEXT_BYTES_MAX];
    static struct emulated_config fresh;

    current.known = true;
    current.status = *status;
    snprintf(current.path, sizeof current.path, "%s", path);
    memset(&fresh, 0, sizeof fresh);
    usable = read_text(path, text, &current.status) && emulated_config_parse(path, text, &fresh);
    if (usable)
        configuration = fresh;
}

struct emulated_config *emulated_config(void)
{
    const char *path = getenv(EMULATED_CONFIG_VARIABLE);
    struct stat status;

    if (path == NULL || *path == '\0')
        path = EMULATED_CONFIG_DEFAULT;
    if (stat(path, &status) != 0)
        memset(&status, 0, sizeof status);
    if (!same_version(&current, path, &status))
        read_again(path, &status);
    return usable ? &configuration : NULL;
}

static bool concerns(const struct emulated_fault *fault, int gpu)
{
    return fault->gpu == EMULATED_NO_GPU || fault->gpu == gpu;
}

static bool same_function(const char *named, const char *called)
{
    size_t length = strlen(named);

    return strncmp(named, called, length) == 0 &&
           (called[length] == '\0' || strcmp(called + length, "_v2") == 0);
}

/* Whether this call, which is counted, is one of those that go wrong. */
static bool comes_true(struct emulated_fault *fault)
{
    long number = ++fault->calls;

    return number > fault->after && (fault->times == 0 || number <= fault->after + fault->times);
}

int emulated_call(struct emulated_config *config, const char *function, int gpu)
{
    int verdict = 0;

    for (int i = 0; i < config->fault_count; i++) {
        struct emulated_fault *fault = &config->faults[i];
        bool named = fault->effect == EMULATED_FAIL || fault->effect == EMULATED_HANG;

        if (!named || !concerns(fault, gpu) || !same_function(fault->function, function))
            continue;
        if (comes_true(fault) && verdict == 0)
            verdict = fault->effect == EMULATED_HANG ? EMULATED_CALL_HANGS : fault->status;
    }
    return verdict;
}

bool emulated_gone(struct emulated_config *config, int gpu)
{
    bool gone = false;

    for (int i = 0; gpu != EMULATED_NO_GPU && i < config->fault_count; i++) {
        struct emulated_fault *fault = &config->faults[i];

        if (fault->effect == EMULATED_GONE && concerns(fault, gpu))
            gone |= comes_true(fault);
    }
    return gone;
}

bool emulated_corrupts(struct emulated_config *config, enum emulated_effect effect, int gpu,
                       uint64_t length_bytes)
{
    bool corrupts = false;

    for (int i = 0; i < config->fault_count; i++) {
        struct emulated_fault *fault = &config->faults[i];
        bool such = fault->length_bytes == 0 || fault->length_bytes == length_bytes;

        if (fault->effect == effect && concerns(fault, gpu) && such)
            corrupts |= comes_true(fault);
    }
    return corrupts;
}

bool emulated_switch(const struct emulated_config *config, enum emulated_effect effect, int gpu)
{
    for (int i = 0; i < config->fault_count; i++) {
        if (config->faults[i].effect == effect && concerns(&config->faults[i], gpu))
            return true;
    }
    return false;
}
