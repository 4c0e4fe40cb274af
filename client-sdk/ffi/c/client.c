/* A client in C that needs no code for training: it passes examples and labels, and the SDK trains the layers that the
 * job describes. One call is one session; this program ends with it and prints how.
 *
 *     client SERVER TOKEN FOLDER TABLE */
#include <tributary.h>

#include "table.h"

int main(int argc, char **argv) {
    struct table table;
    if (argc != 5) {
        fprintf(stderr, "usage: %s SERVER TOKEN FOLDER TABLE\n", argv[0]);
        return 2;
    }
    if (read_table(argv[4], &table) != 0) {
        fprintf(stderr, "%s is no table of numbers\n", argv[4]);
        return 2;
    }

    TributaryAttribute attributes[] = {{.name = "kind", .value = "c-layers"}};
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
    TributaryExamples *examples = NULL;
    TributaryOutcome outcome;
    TributaryStatus status = tributary_client_new(&settings, &client);
    if (status == TRIBUTARY_STATUS_OK)
        status = tributary_examples_of_classes(&table.width, 1, table.inputs, table.count * table.width, table.labels,
                                               table.count, &examples);
    if (status == TRIBUTARY_STATUS_OK) status = tributary_run_once(client, examples, NULL, NULL, &outcome);

    if (status == TRIBUTARY_STATUS_OK)
        printf("{\"outcome\": %d, \"round\": %u}\n", (int)outcome.kind, (unsigned)outcome.round);
    else
        fprintf(stderr, "status %d: %s\n", (int)status, tributary_last_error());
    tributary_examples_free(examples);
    tributary_client_free(client);
    free(table.inputs);
    free(table.labels);
    return status == TRIBUTARY_STATUS_OK ? 0 : 1;
}
