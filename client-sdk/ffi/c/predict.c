/* Predicts the rows of a table: with a file that `tributary job export` wrote, with the model that a client downloaded
 * last, or with the one that was released on a channel. Prints a line of JSON for each row.
 *
 *     predict FILE TABLE
 *     predict SERVER TOKEN FOLDER JOB TABLE
 *     predict SERVER TOKEN FOLDER @CHANNEL TABLE */
#include <tributary.h>

#include "lines.h"

/* The bytes of a file, to be freed; null if it cannot be read. */
static uint8_t *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    uint8_t *content = length > 0 ? malloc((size_t)length) : NULL;
    *bytes = content ? fread(content, 1, (size_t)length, file) : 0;
    fclose(file);
    return content;
}

static TributaryStatus of_file(const char *path, TributaryModel **model) {
    size_t bytes = 0;
    uint8_t *file = read_file(path, &bytes);
    TributaryStatus status = tributary_model_of_file(file, bytes, model);
    free(file);
    return status;
}

static TributaryStatus of_job(char **arguments, TributaryModel **model) {
    TributarySettings settings = {
        .size = sizeof settings, .server = arguments[0], .token = arguments[1], .state_dir = arguments[2]};
    TributaryClient *client = NULL;
    TributaryStatus status = tributary_client_new(&settings, &client);
    const char *name = arguments[3];
    if (status == TRIBUTARY_STATUS_OK && name[0] == '@')
        status = tributary_model_of_channel(client, name + 1, "latest", model);
    else if (status == TRIBUTARY_STATUS_OK)
        status = tributary_model_of_job(client, name, model);
    tributary_client_free(client);
    return status;
}

static void print(const TributaryPrediction *prediction) {
    printf("{\"class\": \"%s\", \"outputs\": [", prediction->label ? prediction->label : "");
    for (size_t index = 0; index < prediction->outputs_count; index++)
        printf("%s%.9g", index ? ", " : "", (double)prediction->outputs[index]);
    printf("]}\n");
}

int main(int argc, char **argv) {
    TributaryModel *model = NULL;
    TributaryPrediction prediction = {.size = sizeof prediction};
    TributaryValue row[COLUMNS_MAX];
    struct lines table;
    if ((argc != 3 && argc != 6) || open_lines(argv[argc - 1], &table) != 0) {
        fprintf(stderr, "usage: %s FILE TABLE, or %s SERVER TOKEN FOLDER JOB TABLE\n", argv[0], argv[0]);
        return 2;
    }
    TributaryStatus status = argc == 3 ? of_file(argv[1], &model) : of_job(argv + 1, &model);
    if (status == TRIBUTARY_STATUS_OK && !model) {
        fprintf(stderr, "the client has no model of the job %s\n", argv[4]);
        return 1;
    }
    while (status == TRIBUTARY_STATUS_OK && next_line(&table)) {
        for (size_t column = 0; column < table.columns; column++)
            row[column] = (TributaryValue){.column = table.names[column], .text = table.texts[column]};
        status = tributary_predict_row(model, row, table.columns, &prediction);
        if (status == TRIBUTARY_STATUS_OK) print(&prediction);
    }
    if (status != TRIBUTARY_STATUS_OK) fprintf(stderr, "status %d: %s\n", (int)status, tributary_last_error());
    tributary_model_free(model);
    fclose(table.file);
    return status == TRIBUTARY_STATUS_OK ? 0 : 1;
}
