/* A client in C with a trainer of its own: softmax regression on all examples in each step, for a job with one linear
 * layer. The host asks for a charging or well charged device, as on a board with a battery.
 *
 *     trainer SERVER TOKEN FOLDER TABLE */
#include <math.h>
#include <tributary.h>

#include "table.h"

/* Weights [classes, width] and biases [classes] of the task. */
struct network {
    size_t classes;
    float *weights, *biases;
};

static int find(const TributaryTask *task, const struct table *table, struct network *network) {
    memset(network, 0, sizeof *network);
    for (size_t index = 0; index < task->tensors_count; index++) {
        const TributaryTensor *tensor = &task->tensors[index];
        if (tensor->dimensions == 2 && tensor->shape[1] == table->width) {
            network->classes = tensor->shape[0];
            network->weights = tensor->values;
        } else if (tensor->dimensions == 1) {
            network->biases = tensor->values;
        }
    }
    return network->weights && network->biases ? 0 : -1;
}

/* Probabilities of the classes of an example. Returns its cross-entropy. */
static double forward(const struct network *network, const struct table *table, size_t example, double *shares) {
    double sum = 0, highest = -INFINITY;
    for (size_t class = 0; class < network->classes; class++) {
        double score = network->biases[class];
        for (size_t column = 0; column < table->width; column++)
            score += network->weights[class * table->width + column] * table->inputs[example * table->width + column];
        shares[class] = score;
        if (score > highest) highest = score;
    }
    for (size_t class = 0; class < network->classes; class++) sum += exp(shares[class] - highest);
    double loss = log(sum) - (shares[table->labels[example]] - highest);
    for (size_t class = 0; class < network->classes; class++) shares[class] = exp(shares[class] - highest) / sum;
    return loss;
}

/* Continues where an earlier session stopped. Returns whether there is such a place. */
static int resumes(const TributaryTask *task, struct network *network, size_t values) {
    if (!task->resume || task->resume->state_bytes != values * sizeof(float)) return 0;
    size_t weights = (values - network->classes) * sizeof(float);
    memcpy(network->weights, task->resume->state, weights);
    memcpy(network->biases, task->resume->state + weights, network->classes * sizeof(float));
    return 1;
}

/* Keeps the network for a later session. */
static int32_t suspend(const TributaryTask *task, const struct network *network, size_t values, uint64_t steps,
                       double losses) {
    float *state = malloc(values * sizeof(float));
    if (!state) return TRIBUTARY_STATUS_INTERRUPTED;
    memcpy(state, network->weights, (values - network->classes) * sizeof(float));
    memcpy(state + values - network->classes, network->biases, network->classes * sizeof(float));
    TributaryCheckpoint checkpoint = {
        .steps = steps, .losses = losses, .state = (const uint8_t *)state, .state_bytes = values * sizeof(float)};
    int32_t status = (int32_t)tributary_suspend(task, &checkpoint);
    free(state);
    return status;
}

static int32_t train(void *context, const TributaryTask *task, TributaryResult *result) {
    const struct table *table = context;
    struct network network;
    uint32_t steps = task->steps ? task->steps : task->epochs;
    if (table->count == 0) return TRIBUTARY_STATUS_NO_EXAMPLES;
    if (find(task, table, &network) != 0) return TRIBUTARY_STATUS_DOES_NOT_FIT;
    size_t values = network.classes * (table->width + 1);
    double *gradient = malloc(values * sizeof(double)), *shares = malloc(network.classes * sizeof(double));
    int32_t status = gradient && shares ? TRIBUTARY_STATUS_OK : TRIBUTARY_STATUS_TRAINING;
    double losses = 0;
    uint32_t step = 0;
    if (status == TRIBUTARY_STATUS_OK && resumes(task, &network, values)) {
        losses = task->resume->losses;
        step = (uint32_t)task->resume->steps;
    }
    for (; status == TRIBUTARY_STATUS_OK && step < steps; step++) {
        if (tributary_should_stop(task->stop)) {
            status = suspend(task, &network, values, step, losses);
            break;
        }
        memset(gradient, 0, values * sizeof(double));
        for (size_t example = 0; example < table->count; example++) {
            losses += forward(&network, table, example, shares) / table->count;
            for (size_t class = 0; class < network.classes; class++) {
                double share = (shares[class] - (table->labels[example] == class)) / table->count;
                for (size_t column = 0; column < table->width; column++)
                    gradient[class * table->width + column] += share * table->inputs[example * table->width + column];
                gradient[network.classes * table->width + class] += share;
            }
        }
        for (size_t index = 0; index < network.classes * table->width; index++)
            network.weights[index] -= task->learning_rate * gradient[index];
        for (size_t class = 0; class < network.classes; class++)
            network.biases[class] -= task->learning_rate * gradient[network.classes * table->width + class];
    }
    free(gradient);
    free(shares);
    result->examples = table->count;
    result->steps = steps;
    result->loss = losses / steps;
    return status;
}

static int32_t evaluate(void *context, const TributaryTask *task, TributaryResult *result) {
    const struct table *table = context;
    struct network network;
    size_t right = 0;
    if (table->count == 0) return TRIBUTARY_STATUS_NO_EXAMPLES;
    if (find(task, table, &network) != 0) return TRIBUTARY_STATUS_DOES_NOT_FIT;
    double *shares = malloc(network.classes * sizeof(double));
    if (!shares) return TRIBUTARY_STATUS_TRAINING;
    result->loss = 0;
    for (size_t example = 0; example < table->count; example++) {
        size_t best = 0;
        result->loss += forward(&network, table, example, shares) / table->count;
        for (size_t class = 1; class < network.classes; class++)
            if (shares[class] > shares[best]) best = class;
        right += best == table->labels[example];
    }
    free(shares);
    result->examples = table->count;
    result->accuracy = (double)right / table->count;
    return TRIBUTARY_STATUS_OK;
}

static int32_t device(void *context, TributaryDevice *device) {
    (void)context;
    device->metered = 0;
    device->charging = 1;
    return 0;
}

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

    TributaryAttribute attributes[] = {{.name = "kind", .value = "c-trainer"}};
    TributarySettings settings = {
        .size = sizeof settings,
        .server = argv[1],
        .token = argv[2],
        .state_dir = argv[3],
        .attributes = attributes,
        .attributes_count = 1,
        .wait_ms = 60000,
    };
    TributaryTrainer trainer = {
        .size = sizeof trainer,
        .context = &table,
        .examples = table.count,
        .train = train,
        .evaluate = evaluate,
    };
    TributaryHost host = {.size = sizeof host, .device = device, .conditions = tributary_conditions()};
    TributaryClient *client = NULL;
    TributaryOutcome outcome;
    TributaryStatus status = tributary_client_new(&settings, &client);
    if (status == TRIBUTARY_STATUS_OK) status = tributary_run_trainer(client, &trainer, &host, NULL, &outcome);

    if (status == TRIBUTARY_STATUS_OK)
        printf("{\"outcome\": %d, \"round\": %u}\n", (int)outcome.kind, (unsigned)outcome.round);
    else
        fprintf(stderr, "status %d: %s\n", (int)status, tributary_last_error());
    tributary_client_free(client);
    free(table.inputs);
    free(table.labels);
    return status == TRIBUTARY_STATUS_OK ? 0 : 1;
}
