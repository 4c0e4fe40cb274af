/* Lines of texts between commas, for the programs beside it: the first line has the names. */
#ifndef LINES_H
#define LINES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 256
#define LINE_MAX_BYTES 8192

struct lines {
    FILE *file;
    size_t columns;
    char header[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
    const char *names[COLUMNS_MAX], *texts[COLUMNS_MAX];
};

/* Cuts a line into its texts; their number. */
static size_t cut(char *line, const char **texts) {
    size_t count = 0;
    line[strcspn(line, "\r\n")] = 0;
    for (char *at = line; at && count < COLUMNS_MAX; count++) {
        texts[count] = at;
        at = strchr(at, ',');
        if (at) *at++ = 0;
    }
    return count;
}

/* Reads the next line: 1, or 0 at the end and for a line with another number of texts. */
static int next_line(struct lines *lines) {
    return fgets(lines->line, sizeof lines->line, lines->file) && cut(lines->line, lines->texts) == lines->columns;
}

/* Opens a table and reads its names; 0 for success. */
static int open_lines(const char *path, struct lines *lines) {
    lines->file = fopen(path, "r");
    if (!lines->file || !fgets(lines->header, sizeof lines->header, lines->file)) return -1;
    lines->columns = cut(lines->header, lines->names);
    return 0;
}

#endif
