/* A client in C of an app with two models: one example set for each, by the names that jobs give in `data`. Each call is
 * one session; this program ends once it has contributed to both jobs.
 *
 *     sets SERVER TOKEN FOLDER TYPING_TABLE PHOTOS_TABLE */
#include <tributary.h>

#include "table.h"

#define SETS 2

static const char *const names[SETS] = {"typing", "photos"};

int main(int argc, char **argv) {
    struct table tables[SETS];
    if (argc != 4 + SETS) {
        fprintf(stderr, "usage: %s SERVER TOKEN FOLDER TYPING_TABLE PHOTOS_TABLE\n", argv[0]);
        return 2;
    }
    TributaryAttribute attributes[] = {{.name = "kind", .value = "c-sets"}};
    TributarySettings settings = {
        .size = sizeof settings,
        .server = argv[1],
        .token = argv[2],
        .state_dir = argv[3],
        .attributes = attributes,
        .attributes_count = 1,
        .wait_ms = 60000,
    };
    TributaryClient *client = NULL;
    TributarySets *sets = NULL;
    TributaryStatus status = tributary_client_new(&settings, &client);
    if (status == TRIBUTARY_STATUS_OK) status = tributary_sets_new(&sets);
    for (int set = 0; set < SETS && status == TRIBUTARY_STATUS_OK; set++) {
        struct table *table = &tables[set];
        TributaryExamples *examples = NULL;
        if (read_table(argv[4 + set], table) != 0) {
            fprintf(stderr, "%s is no table of numbers\n", argv[4 + set]);
            return 2;
        }
        status = tributary_examples_of_classes(&table->width, 1, table->inputs, table->count * table->width,
                                               table->labels, table->count, &examples);
        if (status == TRIBUTARY_STATUS_OK) status = tributary_sets_add_examples(sets, names[set], examples);
        /* The sets have them. */
        tributary_examples_free(examples);
        free(table->inputs);
        free(table->labels);
    }
    for (int done = 0; done < SETS && status == TRIBUTARY_STATUS_OK;) {
        TributaryOutcome outcome;
        status = tributary_run_sets(client, sets, NULL, NULL, &outcome);
        if (status != TRIBUTARY_STATUS_OK) break;
        printf("{\"outcome\": %d, \"round\": %u}\n", (int)outcome.kind, (unsigned)outcome.round);
        done += outcome.kind == TRIBUTARY_OUTCOME_KIND_CONTRIBUTED;
    }
    if (status != TRIBUTARY_STATUS_OK) fprintf(stderr, "status %d: %s\n", (int)status, tributary_last_error());
    tributary_sets_free(sets);
    tributary_client_free(client);
    return status == TRIBUTARY_STATUS_OK ? 0 : 1;
}
