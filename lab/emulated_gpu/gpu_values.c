/* The lines of [gpu N] about the GPU's health. */
#include "gpu_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_values.h"

static const struct row {
    const char *name;
    long least, most, healthy;
    const char *words;
} ROWS[] = {
#define ROW(id, name, least, most, healthy, words) {name, least, most, healthy, words},
    EMULATED_GPU_VALUES(ROW)
}, NVLINK_ROWS[] = {
    EMULATED_NVLINK_VALUES(ROW)
#undef ROW
};

long emulated_read(struct emulated_value *value)
{
    return ++value->readings > value->after ? value->value : value->healthy;
}

static void fill(struct emulated_value *values, const struct row *rows, int count)
{
    for (int i = 0; i < count; i++)
        values[i] = (struct emulated_value){.value = rows[i].healthy, .healthy = rows[i].healthy};
}

void set_healthy(struct emulated_gpu *gpu)
{
    fill(gpu->values, ROWS, EMULATED_VALUES);
    for (int link = 0; link < EMULATED_NVLINKS_MAX; link++)
        fill(gpu->nvlinks[link].values, NVLINK_ROWS, EMULATED_NVLINK_VALUES_COUNT);
}

static const struct row *row_named(const struct row *rows, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    return NULL;
}

/* The place of a word among words, or -1. */
static long place_of(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (long place = 0; *words != '\0'; place++) {
        size_t one = strcspn(words, " ");

        if (one == length && strncmp(words, word, length) == 0)
            return place;
        words += one + (words[one] == ' ');
    }
    return -1;
}

static long number_of(struct parser *parser, const struct row *row, const char *key,
                      const char *text)
{
    long place = place_of(row->words, text);

    if (place >= 0)
        return place;
    if (strcmp(text, "unsupported") == 0)
        return EMULATED_ABSENT;
    if (*row->words == '\0')
        return value_of(parser, key, text, row->least, row->most);
    if (strspn(text, "0123456789") != strlen(text))
        complain(parser, "%s = %s: expected one of: %s", key, text, row->words);
    else
        return value_of(parser, key, text, row->least, row->most);
    return row->least;
}

static void set(struct parser *parser, const struct row *row, const char *key, char *text,
                struct emulated_value *value)
{
    value->after = cut(parser, text, "after", "how many readings are healthy first");
    value->value = number_of(parser, row, key, text);
}

/* `nvlink N`, `nvlink N NAME`; `nvlink all` for every one of them. */
static void set_nvlink(struct parser *parser, const char *key, char *text, struct emulated_gpu *gpu)
{
    char number[EMULATED_NAME_BYTES] = "", name[EMULATED_NAME_BYTES] = "";
    const struct row *row;
    long first = 0, last = EMULATED_NVLINKS_MAX - 1;
    struct emulated_value value = {0};

    sscanf(key, "nvlink %63s %63s", number, name);
    row = row_named(NVLINK_ROWS, EMULATED_NVLINK_VALUES_COUNT, name);
    if (row == NULL) {
        complain(parser, "%s: an NVLink has no %s; known: gpu, version, speed, replay, recovery, "
                 "crc", key, name);
        return;
    }
    if (strcmp(number, "all") != 0)
        first = last = value_of(parser, "nvlink", number, 0, EMULATED_NVLINKS_MAX - 1);
    value.healthy = row->healthy;
    set(parser, row, key, text, &value);
    for (long link = first; link <= last; link++)
        gpu->nvlinks[link].values[row - NVLINK_ROWS] = value;
}

bool set_value(struct parser *parser, const char *key, char *text)
{
    struct emulated_gpu *gpu = &parser->config->gpus[parser->gpu];
    const struct row *row = row_named(ROWS, EMULATED_VALUES, key);

    if (row != NULL)
        set(parser, row, key, text, &gpu->values[row - ROWS]);
    else if (strncmp(key, "nvlink ", strlen("nvlink ")) == 0)
        set_nvlink(parser, key, text, gpu);
    else
        return false;
    return true;
}
