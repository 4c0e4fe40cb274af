/* A client in C that answers analyses from a table: a line of names, then texts and numbers. Nothing of its rows is sent
 * but the sums that an analysis asks for. It ends once it has answered.
 *
 *     answers SERVER TOKEN FOLDER TABLE */
#include <tributary.h>

#include "lines.h"

/* Passes each row in the columns that are asked for. */
static int32_t rows(void *context, const char *const *columns, size_t columns_count, TributaryRows *rows) {
    static struct lines lines;
    static size_t places[COLUMNS_MAX];
    static TributaryValue row[COLUMNS_MAX];
    TributaryStatus status = TRIBUTARY_STATUS_OK;
    if (columns_count > COLUMNS_MAX || open_lines(context, &lines) != 0) return TRIBUTARY_STATUS_TRAINING;
    for (size_t column = 0; column < columns_count; column++) {
        size_t place = 0;
        while (place < lines.columns && strcmp(lines.names[place], columns[column]) != 0) place++;
        if (place == lines.columns) status = TRIBUTARY_STATUS_DOES_NOT_FIT;
        places[column] = place;
    }
    while (status == TRIBUTARY_STATUS_OK && next_line(&lines)) {
        /* A number as text is a number, and an empty text is missing. */
        for (size_t column = 0; column < columns_count; column++) row[column].text = lines.texts[places[column]];
        status = tributary_row(rows, row, columns_count);
    }
    fclose(lines.file);
    return (int32_t)status;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s SERVER TOKEN FOLDER TABLE\n", argv[0]);
        return 2;
    }
    TributaryTable table = {.context = argv[4], .rows = rows};
    TributarySettings settings = {
        .size = sizeof settings,
        .server = argv[1],
        .token = argv[2],
        .state_dir = argv[3],
        .wait_ms = 60000,
        .table = &table,
    };
    TributaryClient *client = NULL;
    TributarySets *sets = NULL;
    TributaryOutcome outcome = {0};
    TributaryStatus status = tributary_client_new(&settings, &client);
    /* It trains nothing. */
    if (status == TRIBUTARY_STATUS_OK) status = tributary_sets_new(&sets);
    while (status == TRIBUTARY_STATUS_OK && outcome.kind != TRIBUTARY_OUTCOME_KIND_CONTRIBUTED) {
        status = tributary_run_sets(client, sets, NULL, NULL, &outcome);
    }
    printf("{\"outcome\": %d, \"round\": %u}\n", (int)outcome.kind, (unsigned)outcome.round);
    if (status != TRIBUTARY_STATUS_OK) fprintf(stderr, "status %d: %s\n", (int)status, tributary_last_error());
    tributary_sets_free(sets);
    tributary_client_free(client);
    return status == TRIBUTARY_STATUS_OK ? 0 : 1;
}
