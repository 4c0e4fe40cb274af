/* A table of examples for the two programs beside it: a line of names, then numbers, the last of which is the class. */
#ifndef TABLE_H
#define TABLE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table {
    size_t width; /* numbers of an example */
    size_t count; /* examples */
    float *inputs;
    uint32_t *labels;
};

/* Reads a table; 0 for success. */
static int read_table(const char *path, struct table *table) {
    char line[4096];
    FILE *file = fopen(path, "r");
    size_t room = 0;
    memset(table, 0, sizeof *table);
    if (!file || !fgets(line, sizeof line, file)) return -1;
    for (const char *at = line; *at; at++) table->width += *at == ',';
    while (fgets(line, sizeof line, file)) {
        if (table->count == room) {
            room = room ? 2 * room : 64;
            table->inputs = realloc(table->inputs, room * table->width * sizeof(float));
            table->labels = realloc(table->labels, room * sizeof(uint32_t));
            if (!table->inputs || !table->labels) return -1;
        }
        char *at = line;
        for (size_t column = 0; column < table->width; column++) {
            table->inputs[table->count * table->width + column] = strtof(at, &at);
            if (*at++ != ',') return -1;
        }
        table->labels[table->count++] = (uint32_t)strtoul(at, NULL, 10);
    }
    fclose(file);
    return 0;
}

#endif
