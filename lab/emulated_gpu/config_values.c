/* The values of the configuration file, and the settings of [gpu N]. */
#include "config_values.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void complain(struct parser *parser, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    emulated_say("%s:%d: %s", parser->path, parser->line, text);
    parser->complaints++;
}

char *trimmed(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static bool number(const char *text, long least, long most, long *value)
{
    char *end;

    errno = 0;
    *value = strtol(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    return *text != '\0' && *end == '\0' && errno == 0 && *value >= least && *value <= most;
}

long value_of(struct parser *parser, const char *key, const char *text, long least,
                     long most)
{
    long value = least;

    if (!number(text, least, most, &value)) {
        complain(parser, "%s = %s: expected a number from %ld to %ld", key, text, least, most);
        return least;
    }
    return value;
}

long cut(struct parser *parser, char *text, const char *word, const char *meaning)
{
    char *found = strstr(text, word);
    char *number;

    if (found == NULL || found == text || found[-1] != ' ' ||
        (found[strlen(word)] != '\0' && found[strlen(word)] != ' '))
        return 0;
    number = trimmed(found + strlen(word));
    found[-1] = '\0';
    trimmed(text);
    if (*number == '\0') {
        complain(parser, "%s needs a number: %s", word, meaning);
        return 0;
    }
    return value_of(parser, word, number, 0, INT_MAX);
}

void keep_text(struct parser *parser, const char *key, const char *text,
                      char place[EMULATED_NAME_BYTES])
{
    if (*text == '\0' || strlen(text) >= EMULATED_NAME_BYTES)
        complain(parser, "%s = %s: expected 1 to %d characters", key, text,
                 EMULATED_NAME_BYTES - 1);
    else
        memcpy(place, text, strlen(text) + 1);
}

static void set_uuid(struct parser *parser, const char *text, struct emulated_gpu *gpu)
{
    unsigned char *u = gpu->uuid;
    int used = 0;
    int parts = sscanf(text,
                       "GPU-%2hhx%2hhx%2hhx%2hhx-%2hhx%2hhx-%2hhx%2hhx-%2hhx%2hhx-"
                       "%2hhx%2hhx%2hhx%2hhx%2hhx%2hhx%n",
                       &u[0], &u[1], &u[2], &u[3], &u[4], &u[5], &u[6], &u[7], &u[8], &u[9],
                       &u[10], &u[11], &u[12], &u[13], &u[14], &u[15], &used);

    if (parts != EMULATED_UUID_BYTES || used != 40 || text[used] != '\0')
        complain(parser, "uuid = %s: expected GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", text);
    else
        keep_text(parser, "uuid", text, gpu->uuid_text);
}

static void set_slot(struct parser *parser, const char *text, struct emulated_gpu *gpu)
{
    unsigned domain, bus, device, function;
    int used = 0;

    if (sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) != 4 ||
        used != 12 || text[used] != '\0')
        complain(parser, "slot = %s: expected a PCI address such as 0000:24:00.0", text);
    else
        keep_text(parser, "slot", text, gpu->slot);
}

static void set_attribute(struct parser *parser, const char *key, const char *text,
                          struct emulated_gpu *gpu)
{
    struct emulated_attribute *attribute = &gpu->attributes[gpu->attribute_count];

    if (gpu->attribute_count == EMULATED_ATTRIBUTES_MAX) {
        complain(parser, "more than %d attributes", EMULATED_ATTRIBUTES_MAX);
        return;
    }
    gpu->attribute_count++;
    attribute->number =
        (int)value_of(parser, "attribute", key + strlen("attribute "), 1, 100000);
    attribute->known = strcmp(text, "unknown") != 0;
    if (attribute->known)
        attribute->value = (int)value_of(parser, key, text, INT_MIN, INT_MAX);
}

static void set_process(struct parser *parser, const char *text, struct emulated_gpu *gpu)
{
    unsigned pid, memory_mib;
    int used = 0;

    if (sscanf(text, "%u %u%n", &pid, &memory_mib, &used) != 2 || text[used] != '\0')
        complain(parser, "process = %s: expected a process id and its MiB", text);
    else if (gpu->process_count == EMULATED_PROCESSES_MAX)
        complain(parser, "more than %d processes", EMULATED_PROCESSES_MAX);
    else
        gpu->processes[gpu->process_count++] =
            (struct emulated_process){pid, (uint64_t)memory_mib << 20};
}

void describe_h200(struct emulated_gpu *gpu)
{
    *gpu = (struct emulated_gpu){.name = "NVIDIA H200",
                                 .vbios = "96.00.A5.00.1A",
                                 .board_part = "692-2G520-0282-001",
                                 .gsp_firmware = "580.159.04",
                                 .memory_bytes = 1536ULL << 20,
                                 .bar1_bytes = 1024ULL << 20};
    set_healthy(gpu);
}

void set_gpu(struct parser *parser, const char *key, char *text)
{
    struct emulated_gpu *gpu = &parser->config->gpus[parser->gpu];

    parser->has_slot[parser->gpu] |= strcmp(key, "slot") == 0;
    parser->has_uuid[parser->gpu] |= strcmp(key, "uuid") == 0;
    if (strcmp(key, "slot") == 0)
        set_slot(parser, text, gpu);
    else if (strcmp(key, "uuid") == 0)
        set_uuid(parser, text, gpu);
    else if (strcmp(key, "name") == 0)
        keep_text(parser, key, text, gpu->name);
    else if (strcmp(key, "memory_mib") == 0)
        gpu->memory_bytes = (uint64_t)value_of(parser, key, text, 2, 1L << 20) << 20;
    else if (strcmp(key, "bar1_mib") == 0)
        gpu->bar1_bytes = (uint64_t)value_of(parser, key, text, 1, 1L << 20) << 20;
    else if (strcmp(key, "compute_mode") == 0)
        gpu->compute_mode = (int)value_of(parser, key, text, 0, 3);
    else if (strcmp(key, "process") == 0)
        set_process(parser, text, gpu);
    else if (strncmp(key, "attribute ", strlen("attribute ")) == 0)
        set_attribute(parser, key, text, gpu);
    else if (strcmp(key, "vbios") == 0)
        keep_text(parser, key, text, gpu->vbios);
    else if (strcmp(key, "board_part") == 0)
        keep_text(parser, key, text, gpu->board_part);
    else if (strcmp(key, "gsp_firmware") == 0)
        keep_text(parser, key, text, gpu->gsp_firmware);
    else if (!set_value(parser, key, text))
        complain(parser,
                 "unknown key %s in [gpu %d]; known: slot, uuid, name, memory_mib, bar1_mib, "
                 "compute_mode, process, attribute N, vbios, board_part, gsp_firmware, nvlink N, "
                 "and those of gpu_values.h",
                 key, parser->gpu);
}
