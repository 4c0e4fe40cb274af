/* The shortest app: it takes part in a round of the job `points` and predicts. `smallest SERVER TOKEN` */
#include <stdio.h>
#include <tributary.h>

#define TRY(call) if ((call) != TRIBUTARY_STATUS_OK) return fprintf(stderr, "%s\n", tributary_last_error()), 1

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    TributarySettings settings = {
        .size = sizeof settings, .server = argv[1], .token = argv[2], .state_dir = "state", .wait_ms = 30000};
    TributaryClient *client = NULL;
    TributaryExamples *examples = NULL;
    TributaryModel *model = NULL;
    TributaryOutcome outcome;
    TributaryPrediction told = {.size = sizeof told};
    const float inputs[] = {0.5f, -1.0f, -0.25f, 0.75f};
    TRY(tributary_client_new(&settings, &client));
    TRY(tributary_examples_of_classes((size_t[]){2}, 1, inputs, 4, (uint32_t[]){0, 1}, 2, &examples));
    TRY(tributary_run_once(client, examples, NULL, NULL, &outcome));
    TRY(tributary_model_of_job(client, "points", &model));
    if (!model) return 1;
    TRY(tributary_predict(model, (double[]){0.1, -0.4}, 2, &told));
    return printf("%s %g\n", told.label, (double)told.probabilities[told.class_index]) < 0;
}
