/* The configuration file's grammar. Every wrong line is complained of, not only the first. */
#include "config_values.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "functions.h"

#define NAME(name, ...) #name,
static const char *const FUNCTIONS[] = {EMULATED_CUDA_FUNCTIONS(NAME) EMULATED_VERBS_FUNCTIONS(NAME)
                                            EMULATED_NVML_FUNCTIONS(NAME) NULL};
static const char *const WITHOUT_FAULTS[] = {EMULATED_FUNCTIONS_WITHOUT_FAULTS(NAME) NULL};
static const char *const WITHOUT_GPU[] = {EMULATED_FUNCTIONS_WITHOUT_GPU(NAME) NULL};
#undef NAME

static void set_driver(struct parser *parser, const char *key, const char *text)
{
    if (strcmp(key, "version") == 0)
        keep_text(parser, key, text, parser->config->driver_version);
    else if (strcmp(key, "cuda") == 0)
        parser->config->cuda_version = (int)value_of(parser, key, text, 1000, 100000);
    else if (strcmp(key, "confidential") == 0)
        parser->config->confidential = strcmp(text, "unsupported") == 0
                                           ? EMULATED_ABSENT
                                           : (int)value_of(parser, key, text, 0, 1);
    else
        complain(parser, "unknown key %s in [driver]; known: version, cuda, confidential", key);
}

static void set_verbs(struct parser *parser, const char *key, const char *text)
{
    if (strcmp(key, "peermem") == 0)
        parser->config->peermem = value_of(parser, key, text, 0, 1) != 0;
    else if (strcmp(key, "dmabuf") == 0)
        parser->config->dmabuf = value_of(parser, key, text, 0, 1) != 0;
    else
        complain(parser, "unknown key %s in [verbs]; known: peermem, dmabuf", key);
}

static bool listed(const char *const *names, const char *name)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* Faults that are not of one function. */
static const struct named_effect {
    const char *name;
    enum emulated_effect effect;
    /* It is a state, not something that happens at a call: it cannot begin after some. */
    bool lasting;
} EFFECTS[] = {
    {"managed", EMULATED_MANAGED, true},
    {"gone", EMULATED_GONE, false},
    {"verify_lies", EMULATED_VERIFY_LIES, true},
    {"corrupt sink", EMULATED_CORRUPT_SINK, false},
    {"corrupt source", EMULATED_CORRUPT_SOURCE, false},
    {"refuse source", EMULATED_REFUSE_SOURCE, true},
    {"refuse read", EMULATED_REFUSE_READ, true},
    {"refuse sink", EMULATED_REFUSE_SINK, true},
    {"peer corrupt", EMULATED_PEER_CORRUPT, false},
    {"peer refuse", EMULATED_PEER_REFUSE, true},
};

static const struct named_effect *effect_named(const char *name)
{
    for (size_t i = 0; i < sizeof EFFECTS / sizeof *EFFECTS; i++) {
        if (strcmp(EFFECTS[i].name, name) == 0)
            return &EFFECTS[i];
    }
    return NULL;
}

/* The function of `fail FUNCTION` and `hang FUNCTION`. */
static void name_function(struct parser *parser, const char *key, struct emulated_fault *fault)
{
    const char *function = key + strlen("fail ");

    if (!listed(FUNCTIONS, function))
        complain(parser, "%s: the stand-ins have no function %s", key, function);
    else if (listed(WITHOUT_FAULTS, function))
        complain(parser, "%s: %s always works", key, function);
    else if (parser->gpu != EMULATED_NO_GPU && listed(WITHOUT_GPU, function))
        complain(parser, "%s: %s concerns no GPU: put it into [faults]", key, function);
    else
        keep_text(parser, key, function, fault->function);
}

/* What the fault does; false after a complaint that there is no such fault. */
static bool name_effect(struct parser *parser, const char *key, struct emulated_fault *fault)
{
    const struct named_effect *named = effect_named(key);

    if (strncmp(key, "fail ", strlen("fail ")) == 0 ||
        strncmp(key, "hang ", strlen("hang ")) == 0) {
        fault->effect = *key == 'f' ? EMULATED_FAIL : EMULATED_HANG;
        name_function(parser, key, fault);
    } else if (named != NULL) {
        fault->effect = named->effect;
        if (named->lasting && (fault->after > 0 || fault->times > 0))
            complain(parser, "%s cannot begin after some calls, or end", key);
    } else {
        complain(parser,
                 "unknown fault %s; known: fail FUNCTION, hang FUNCTION, managed, gone, "
                 "verify_lies, corrupt sink, corrupt source, refuse source, refuse read, "
                 "refuse sink, peer corrupt, peer refuse",
                 key);
        return false;
    }
    if (fault->length_bytes > 0 && fault->effect != EMULATED_CORRUPT_SINK &&
        fault->effect != EMULATED_CORRUPT_SOURCE && fault->effect != EMULATED_PEER_CORRUPT)
        complain(parser, "%s has no length", key);
    return true;
}

static void add_fault(struct parser *parser, const char *key, char *text)
{
    struct emulated_config *config = parser->config;
    struct emulated_fault fault = {.gpu = parser->gpu};
    bool failing = strncmp(key, "fail ", strlen("fail ")) == 0;

    fault.times = cut(parser, text, "times", "how often it happens");
    fault.after = cut(parser, text, "after", "how many calls work first");
    fault.length_bytes =
        (uint64_t)cut(parser, text, "length", "over how many bytes it must be");
    if (!name_effect(parser, key, &fault))
        return;
    fault.status = (int)value_of(parser, key, text, failing ? 1 : 0, failing ? 9999 : 1);
    if (fault.status == 0)
        return; /* `gone = 0` says that there is no fault */
    if (config->fault_count == EMULATED_FAULTS_MAX)
        complain(parser, "more than %d faults", EMULATED_FAULTS_MAX);
    else
        config->faults[config->fault_count++] = fault;
}

static void begin_gpu(struct parser *parser, const char *text)
{
    long gpu = value_of(parser, "gpu", text, 0, EMULATED_GPUS_MAX - 1);

    parser->gpu = (int)gpu;
    if (parser->section != GPU)
        return;
    if (parser->described[gpu])
        complain(parser, "[gpu %ld] for the second time", gpu);
    parser->described[gpu] = true;
}

static void begin_section(struct parser *parser, char *line)
{
    char *end = strchr(line, ']');
    char *name = line + 1;

    parser->section = NO_SECTION;
    parser->gpu = EMULATED_NO_GPU;
    if (end == NULL || end[1] != '\0') {
        complain(parser, "%s: a section is one name in brackets", line);
        return;
    }
    *end = '\0';
    if (strcmp(name, "driver") == 0) {
        parser->section = DRIVER;
    } else if (strcmp(name, "verbs") == 0) {
        parser->section = VERBS;
    } else if (strcmp(name, "faults") == 0) {
        parser->section = FAULTS;
    } else if (strncmp(name, "gpu ", strlen("gpu ")) == 0) {
        parser->section = GPU;
        begin_gpu(parser, name + strlen("gpu "));
    } else if (strncmp(name, "faults gpu ", strlen("faults gpu ")) == 0) {
        parser->section = FAULTS;
        begin_gpu(parser, name + strlen("faults gpu "));
    } else {
        complain(parser,
                 "unknown section [%s]; known: driver, gpu N, verbs, faults, faults gpu N", name);
    }
}

static void take_setting(struct parser *parser, char *line)
{
    char *equals = strchr(line, '=');
    char *key = line;
    char *text;

    if (equals == NULL) {
        complain(parser, "%s: expected key = value, or a section in brackets", line);
        return;
    }
    *equals = '\0';
    key = trimmed(key);
    text = trimmed(equals + 1);
    switch (parser->section) {
    case DRIVER:
        set_driver(parser, key, text);
        break;
    case GPU:
        set_gpu(parser, key, text);
        break;
    case VERBS:
        set_verbs(parser, key, text);
        break;
    case FAULTS:
        add_fault(parser, key, text);
        break;
    case NO_SECTION:
        complain(parser, "%s is in no known section", key);
        break;
    }
}

/* GPUs are numbered from 0 without a gap, as a driver numbers them. */
static void check_gpus(struct parser *parser)
{
    struct emulated_config *config = parser->config;

    for (int i = 0; i < EMULATED_GPUS_MAX; i++) {
        if (!parser->described[i])
            continue;
        if (config->gpu_count++ != i)
            complain(parser, "[gpu %d] without [gpu %d]", i, i - 1);
        if (!parser->has_slot[i] || !parser->has_uuid[i])
            complain(parser, "[gpu %d] needs slot and uuid", i);
    }
    for (int i = 0; i < config->fault_count; i++) {
        if (config->faults[i].gpu >= config->gpu_count)
            complain(parser, "[faults gpu %d], but there is no [gpu %d]", config->faults[i].gpu,
                     config->faults[i].gpu);
    }
}

bool emulated_config_parse(const char *path, char *text, struct emulated_config *config)
{
    struct parser parser = {.path = path, .config = config, .gpu = EMULATED_NO_GPU};
    char *next = text;

    *config = (struct emulated_config){
        .driver_version = "580.159.04", .cuda_version = 13000, .confidential = EMULATED_ABSENT,
        .peermem = true, .dmabuf = true};
    for (int i = 0; i < EMULATED_GPUS_MAX; i++)
        describe_h200(&config->gpus[i]);
    while (next != NULL) {
        char *line = strsep(&next, "\n");
        char *comment = strchr(line, '#');

        parser.line++;
        if (comment != NULL)
            *comment = '\0';
        line = trimmed(line);
        if (*line == '[')
            begin_section(&parser, line);
        else if (*line != '\0')
            take_setting(&parser, line);
    }
    check_gpus(&parser);
    return parser.complaints == 0;
}
