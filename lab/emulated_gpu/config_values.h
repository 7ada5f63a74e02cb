/* What config_parse.c and config_values.c share. */
#ifndef GDRCHECK_EMULATED_CONFIG_VALUES_H
#define GDRCHECK_EMULATED_CONFIG_VALUES_H

#include "config.h"

enum section { NO_SECTION, DRIVER, GPU, VERBS, FAULTS };

struct parser {
    const char *path;
    int line;
    int complaints;
    enum section section;
    int gpu; /* of [gpu N] and [faults gpu N] */
    bool described[EMULATED_GPUS_MAX];
    /* Said, rightly or wrongly: a wrong one was complained of at its own line. */
    bool has_slot[EMULATED_GPUS_MAX];
    bool has_uuid[EMULATED_GPUS_MAX];
    struct emulated_config *config;
};

/* Says what is wrong with the current line. */
void complain(struct parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* `text` without white space at its ends. */
char *trimmed(char *text);

/* A number, as 0x1f or 31; `least` after a complaint when it is none or out of bounds. */
long value_of(struct parser *parser, const char *key, const char *text, long least, long most);

void keep_text(struct parser *parser, const char *key, const char *text,
               char place[EMULATED_NAME_BYTES]);

/* Cuts " WORD N" off the end of the value; N, or 0 without it. */
long cut(struct parser *parser, char *text, const char *word, const char *meaning);

/* A healthy H200. */
void describe_h200(struct emulated_gpu *gpu);

/* One setting of [gpu N]. */
void set_gpu(struct parser *parser, const char *key, char *text);

#endif
