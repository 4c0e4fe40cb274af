/* The SDK of Tributary for C. Every call checks its pointers for null and catches panics; tests compare this file with
 * client-sdk/ffi/src/c. */
#ifndef TRIBUTARY_H
#define TRIBUTARY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the binary interface: it changes if an app must be compiled again. `tributary_abi_version` gives that of
 * the library. */
#define TRIBUTARY_ABI_VERSION 1

/* How a call or a callback ended. */
typedef enum TributaryStatus {
    /* It succeeded. */
    TRIBUTARY_STATUS_OK = 0,
    /* An argument is null or cannot be used. */
    TRIBUTARY_STATUS_BAD_INPUT = 1,
    /* The coordinator does not answer. The next session may succeed. */
    TRIBUTARY_STATUS_UNREACHABLE = 2,
    /* The coordinator refused a request, or its answer cannot be used. */
    TRIBUTARY_STATUS_REFUSED = 3,
    /* The client runs a session in another thread. */
    TRIBUTARY_STATUS_BUSY = 4,
    /* The client's folder or key cannot be used. */
    TRIBUTARY_STATUS_STATE = 5,
    /* There is nothing to learn from. A trainer may return it. */
    TRIBUTARY_STATUS_NO_EXAMPLES = 6,
    /* The loss or a weight is not finite. A trainer may return it. */
    TRIBUTARY_STATUS_DIVERGED = 7,
    /* Examples, labels and model do not fit each other. A trainer may return it. */
    TRIBUTARY_STATUS_DOES_NOT_FIT = 8,
    /* The trainer failed otherwise. A trainer may return it. */
    TRIBUTARY_STATUS_TRAINING = 9,
    /* `tributary_should_stop` said so. Only a trainer returns it. */
    TRIBUTARY_STATUS_INTERRUPTED = 10,
    /* A fault of the SDK. */
    TRIBUTARY_STATUS_INTERNAL = 11,
    /* The server's certificate is not one that the client trusts for its name. */
    TRIBUTARY_STATUS_UNTRUSTED = 12,
    /* The job is weaker than what the settings demand. Nothing was sent but this reason. */
    TRIBUTARY_STATUS_PRIVACY = 13,
} TributaryStatus;

/* A client of one coordinator. Its calls block the calling thread; it does one at a time. */
typedef struct TributaryClient TributaryClient;

/* Examples in memory, for jobs whose model is a list of layers. */
typedef struct TributaryExamples TributaryExamples;

/* Example sets of an app with several models. */
typedef struct TributarySets TributarySets;

/* A model that predicts without a network. Threads may share it. */
typedef struct TributaryModel TributaryModel;

/* Ends the sessions that were started with it, from any thread and for good. */
typedef struct TributaryCancel TributaryCancel;

/* Whether a training should stop, where it stopped, and what it measured. */
typedef struct TributaryStop TributaryStop;

/* An attribute of the device. */
typedef struct TributaryAttribute {
    /* For example `platform`. */
    const char *name;
    /* For example `linux`. */
    const char *value;
} TributaryAttribute;

/* The device's key pair: ECDSA on P-256. The functions return 0 for success. */
typedef struct TributaryKeyStore {
    /* Passed to the functions. */
    void *context;
    /* Writes the 65 bytes of the public point, uncompressed. */
    int32_t (*public_key)(void *context, uint8_t *point);
    /* Signs the SHA-256 of a message: writes the signature in DER, at most 72 bytes, and its length. */
    int32_t (*sign)(void *context, const uint8_t *message, size_t message_bytes, uint8_t *signature,
                    size_t *signature_bytes);
} TributaryKeyStore;

/* A statement of the device's platform that an attester fills in with `tributary_attest`. */
typedef struct TributaryAttestation TributaryAttestation;

/* What the platform says about the device, where the operator asks for it. The function returns 0 for success. */
typedef struct TributaryAttester {
    /* Passed to the function. */
    void *context;
    /* Passes the statement to `tributary_attest`. `key` are the 32 bytes of the SHA-256 of the device's public key, which a
     * platform that signs a nonce of the app should sign; null where the client has no key. The thread that runs a
     * session calls it at an enrolment. */
    int32_t (*attest)(void *context, const uint8_t *key, TributaryAttestation *attestation);
} TributaryAttester;

/* The rows of a table, which `tributary_row` adds. */
typedef struct TributaryRows TributaryRows;

/* The rows from which a client answers analyses. They never leave the device: what is sent are the sums that an analysis
 * asks for. */
typedef struct TributaryTable {
    /* Passed to the function. */
    void *context;
    /* Passes each row to `tributary_row`, with a value for each of these columns. The thread that runs a session calls
     * it. It returns `TRIBUTARY_STATUS_OK`, `TRIBUTARY_STATUS_DOES_NOT_FIT` if the app has no such column, or another
     * status that a trainer may return. */
    int32_t (*rows)(void *context, const char *const *columns, size_t columns_count, TributaryRows *rows);
} TributaryTable;

/* Settings of a client. Zeros and nulls are the defaults, where there are any. */
typedef struct TributarySettings {
    /* `sizeof(TributarySettings)`. What a later release adds is zero for apps that were compiled before. */
    size_t size;
    /* URL of the coordinator. */
    const char *server;
    /* The enrolment token, which admits the client to a population. */
    const char *token;
    /* A folder for identity, model cache and undelivered work. Two clients must not share it. */
    const char *state_dir;
    /* Accepts only certificates of these CAs, in PEM. May be null. */
    const char *ca_pem;
    /* Describes the device. May be null. */
    const TributaryAttribute *attributes;
    /* Number of attributes. */
    size_t attributes_count;
    /* How long the coordinator may hold a check-in while it has no work, at most 60,000. */
    uint32_t wait_ms;
    /* Not 0: allows `http://` to other machines, where everyone on the way could read models and updates. */
    int32_t allow_plaintext;
    /* May be null: the key is then kept in the folder. */
    const TributaryKeyStore *key_store;
    /* How many seconds lie between two checkpoints of a training, from which the next session goes on after a crash or a
     * kill: 0 for 300, `UINT32_MAX` for no checkpoints. */
    uint32_t checkpoint_every_s;
    /* May be null: then the client enrols without a statement about the device. */
    const TributaryAttester *attester;
    /* The channels whose releases sessions and updates get, at most 8. May be null. */
    const char *const *channels;
    /* Number of channels. */
    size_t channels_count;
    /* Names the text of the consent with which the client takes part, such as `consent-v3`. Operators see it with the
     * client. May be null. */
    const char *consent;
    /* When the consent was given, in milliseconds since 1970. */
    int64_t consent_given_at_ms;
    /* Not 0: takes part only in jobs whose updates are masked, so that the coordinator learns sums of groups alone. */
    int32_t secure_aggregation;
    /* Not 0: takes part only in groups whose members sign who they are and who has survived. */
    int32_t signed_groups;
    /* Fewest members whose updates are in a sum with this client's; 0 for any number. */
    uint32_t survivors_min;
    /* Largest epsilon that this client spends in a job, against the coordinator, but for a chance of 1e-6; 0 for any. */
    double epsilon_max;
    /* Largest norm to which updates are clipped, where they are masked; 0 for any. */
    double clip_max;
    /* Answers analyses. May be null: then none is asked. */
    const TributaryTable *table;
} TributarySettings;

/* The device at a moment. -1 is unknown, which hinders nothing. */
typedef struct TributaryDevice {
    /* 1: the network connection is metered; 0: it is not. */
    int32_t metered;
    /* 1: the device has external power; 0: it has not. */
    int32_t charging;
    /* 0 to 100. */
    int32_t battery_percent;
    /* 0: no sign of heat, 1: light, 2: moderate, 3: severe. */
    int32_t thermal;
} TributaryDevice;

/* What must hold for a session to begin and to continue. `tributary_conditions` gives the defaults. */
typedef struct TributaryConditions {
    /* Not 0: only on networks that are not metered. */
    int32_t unmetered;
    /* Only while charging, or with at least this charge in percent; 0 asks nothing of the battery. */
    int32_t battery_percent_min;
    /* Not 0: only while the device is cooler than moderate. */
    int32_t cool;
    /* Longest time of a session. */
    uint64_t time_budget_ms;
} TributaryConditions;

/* The app's view of the device, asked at most once a second by the thread that runs the session. */
typedef struct TributaryHost {
    /* `sizeof(TributaryHost)`. */
    size_t size;
    /* Passed to the function. */
    void *context;
    /* Fills in the device and returns 0. Another value ends the session. */
    int32_t (*device)(void *context, TributaryDevice *device);
    /* What must hold. */
    TributaryConditions conditions;
} TributaryHost;

/* A parameter of the model. */
typedef struct TributaryTensor {
    /* Name of the parameter. */
    const char *name;
    /* Its dimensions. */
    const size_t *shape;
    /* Number of dimensions. */
    size_t dimensions;
    /* Values row by row. Training changes them in place. */
    float *values;
    /* Number of values: the product of the shape. */
    size_t count;
    /* Not 0: must stay as it is. */
    int32_t frozen;
} TributaryTensor;

/* Where a training was suspended. */
typedef struct TributaryCheckpoint {
    /* Number of steps that were taken. */
    uint64_t steps;
    /* Sum of their losses. */
    double losses;
    /* What the trainer needs besides: weights, what the optimiser keeps. */
    const uint8_t *state;
    /* Number of bytes, at least 1. */
    size_t state_bytes;
} TributaryCheckpoint;

/* What to learn or to measure. Everything is valid until the callback returns. */
typedef struct TributaryTask {
    /* The global model. */
    TributaryTensor *tensors;
    /* Number of parameters. */
    size_t tensors_count;
    /* How often to train on every example; if 0, `steps` says how long. */
    uint32_t epochs;
    /* Number of optimiser steps, or 0. */
    uint32_t steps;
    /* Examples of a step; 0 for all. */
    uint32_t batch_size;
    /* The optimiser's step size. */
    double learning_rate;
    /* Weight of `(w - w_global)` in each gradient (FedProx); 0 for nothing. */
    double proximal;
    /* The source of all randomness. */
    uint64_t seed;
    /* `cross_entropy`, `mse`, or `other` for a loss of the app. */
    const char *loss;
    /* `[training]` of the job file as JSON; empty for an evaluation. */
    const char *training_json;
    /* `[model]` of the job file as JSON. */
    const char *model_json;
    /* For `tributary_should_stop`, `tributary_checkpoint_is_due` and `tributary_is_over`. */
    const TributaryStop *stop;
    /* Where an earlier session suspended this training, perhaps with an earlier release of the app; null to begin. The
     * result must be that of a training that was not suspended. Begin if the checkpoint does not fit. */
    const TributaryCheckpoint *resume;
    /* Name of the job. */
    const char *job;
    /* The example set that the job names; null for the examples without a name. */
    const char *data;
} TributaryTask;

/* The result of training or of an evaluation. */
typedef struct TributaryResult {
    /* Number of examples, at least 1. */
    uint64_t examples;
    /* Number of optimiser steps; of training only. */
    uint64_t steps;
    /* Mean loss of the steps, or per example. */
    double loss;
    /* Share of right classes, 0 to 1; negative for none. Of an evaluation only. */
    double accuracy;
} TributaryResult;

/* A trainer of the app. Its functions are called on a thread of the SDK, one at a time. They return
 * `TRIBUTARY_STATUS_OK`, or one of the statuses that a trainer may return. */
typedef struct TributaryTrainer {
    /* `sizeof(TributaryTrainer)`. */
    size_t size;
    /* Passed to the functions. */
    void *context;
    /* How many examples the client has. */
    uint64_t examples;
    /* Trains the tensors of the task in place. It looks at `tributary_should_stop` before each batch. */
    int32_t (*train)(void *context, const TributaryTask *task, TributaryResult *result);
    /* Measures the model. */
    int32_t (*evaluate)(void *context, const TributaryTask *task, TributaryResult *result);
} TributaryTrainer;

/* How a session ended. */
typedef enum TributaryOutcomeKind {
    /* With an error: the call returned another status than `TRIBUTARY_STATUS_OK`. */
    TRIBUTARY_OUTCOME_KIND_FAILED = 0,
    /* The coordinator accepted an update. */
    TRIBUTARY_OUTCOME_KIND_CONTRIBUTED = 1,
    /* The coordinator accepted an evaluation. */
    TRIBUTARY_OUTCOME_KIND_EVALUATED = 2,
    /* The coordinator had no work for this client. */
    TRIBUTARY_OUTCOME_KIND_NOTHING_TO_DO = 3,
    /* The round closed before this client had reported. */
    TRIBUTARY_OUTCOME_KIND_TOO_LATE = 4,
    /* The host or the app stopped the session. */
    TRIBUTARY_OUTCOME_KIND_INTERRUPTED = 5,
    /* The coordinator accepted the sums of the client's examples. */
    TRIBUTARY_OUTCOME_KIND_DESCRIBED = 6,
} TributaryOutcomeKind;

/* How a session ended, and when to begin the next one. */
typedef struct TributaryOutcome {
    /* How it ended. */
    TributaryOutcomeKind kind;
    /* The round's number in its job, from 1; 0 without one. */
    uint32_t round;
    /* Wait this long before the next session; 0 if nobody said. */
    uint64_t retry_after_ms;
} TributaryOutcome;

/* A value of a row. */
typedef struct TributaryValue {
    /* Name of its column; not read in the rows of a table. */
    const char *column;
    /* A category, an ISO date, or a number as text; an empty one is missing. Null: it is `number`. */
    const char *text;
    /* A number, the code of a category, or a date in days since 1970; NaN is missing. */
    double number;
} TributaryValue;

/* What a model says of one row. The library fills it in. */
typedef struct TributaryPrediction {
    /* `sizeof(TributaryPrediction)`, which the app sets. */
    size_t size;
    /* The network's outputs. */
    const float *outputs;
    /* Number of outputs. */
    size_t outputs_count;
    /* Probability of each class in their order, for each output row. */
    const float *probabilities;
    /* Number of probabilities; 0 for numbers. */
    size_t probabilities_count;
    /* The predicted numbers, in the target's unit. */
    const double *numbers;
    /* Number of numbers; 0 for classes. */
    size_t numbers_count;
    /* The most probable class, of the last output row; -1 for numbers. */
    int64_t class_index;
    /* Its name, or its number where classes have no names; null for numbers. */
    const char *label;
} TributaryPrediction;

/* The `TRIBUTARY_ABI_VERSION` of this library. An app compares it with that of its header. */
uint32_t tributary_abi_version(void);

/* Why the last call of this thread that did not return `TRIBUTARY_STATUS_OK` failed. Valid until the next such call. */
const char *tributary_last_error(void);

/* The name of a status in a log, such as `unreachable`. For a number that is no status it is `unknown`. */
const char *tributary_status_name(int32_t status);

/* What the client of this thread's last session waits for, as JSON; empty if the session did not end with
 * `TRIBUTARY_OUTCOME_KIND_NOTHING_TO_DO`, or if the coordinator did not say. Valid until this thread's next session. */
const char *tributary_waits_for(void);

/* Makes a client. Nothing is read, written or sent yet. Free it with `tributary_client_free`. */
TributaryStatus tributary_client_new(const TributarySettings *settings, TributaryClient **client);

/* Gives the client's id, which enrols the client if it has none. The text is valid until this thread's next call of this
 * function or of `tributary_open_jobs`. */
TributaryStatus tributary_enrol(const TributaryClient *client, const char **id);

/* Leaves: deletes the client's folder, and has the coordinator delete what it has stored of the client. Stop its
 * sessions first. Writes 1 to `told` if the coordinator knows, else 0: then call it again, or the next session tells
 * it. */
TributaryStatus tributary_leave(const TributaryClient *client, uint8_t *told);

/* Gives what the running jobs of the population require of examples, as a list in JSON, with `name`, `loss`, and for
 * networks as layers `input` and `output`. It needs no enrolment. The text is valid until this thread's next call of this
 * function or of `tributary_enrol`. */
TributaryStatus tributary_open_jobs(const TributaryClient *client, const char **json);

/* Passes a statement of the device's platform: its kind, for example `ios-app-attest`, and its text, binary ones in
 * base64. An attester calls it. */
TributaryStatus tributary_attest(TributaryAttestation *attestation, const char *platform, const char *statement);

/* Adds a row: as many values as there are columns, in their order; the `column` of a value may be null. A table calls
 * it. */
TributaryStatus tributary_row(TributaryRows *rows, const TributaryValue *row, size_t count);

/* Frees a client; null is allowed. No session of it may run. */
void tributary_client_free(TributaryClient *client);

/* Makes examples of classes, which are copied: `inputs` are those of all examples one after another, each with the
 * values of `shape`; `labels` are numbers from 0, one for each example. Free them with `tributary_examples_free`. */
TributaryStatus tributary_examples_of_classes(const size_t *shape, size_t dimensions, const float *inputs,
                                              size_t inputs_count, const uint32_t *labels, size_t labels_count,
                                              TributaryExamples **examples);

/* Makes examples of numbers, which are copied: `targets` has `width` of them for each example. Free them with
 * `tributary_examples_free`. */
TributaryStatus tributary_examples_of_values(const size_t *shape, size_t dimensions, const float *inputs,
                                             size_t inputs_count, const float *targets, size_t targets_count,
                                             size_t width, TributaryExamples **examples);

/* Frees examples; null is allowed. */
void tributary_examples_free(TributaryExamples *examples);

/* Makes what ends sessions. Free it with `tributary_cancel_free`, after the sessions. */
TributaryStatus tributary_cancel_new(TributaryCancel **cancel);

/* Ends the sessions that were started with it, from any thread: a waiting one at once, a training one before its next
 * batch. */
TributaryStatus tributary_cancel(const TributaryCancel *cancel);

/* Frees it; null is allowed. */
void tributary_cancel_free(TributaryCancel *cancel);

/* The default conditions: unmetered, charging or at least 30 % of the battery, cooler than moderate, ten minutes. */
TributaryConditions tributary_conditions(void);

/* Runs one session on these examples: the SDK trains, or evaluates, the layers that the job describes. `host` and
 * `cancel` may be null. */
TributaryStatus tributary_run_once(const TributaryClient *client, const TributaryExamples *examples,
                                   const TributaryHost *host, const TributaryCancel *cancel, TributaryOutcome *outcome);

/* Runs one session with a trainer of the app. `host` and `cancel` may be null. */
TributaryStatus tributary_run_trainer(const TributaryClient *client, const TributaryTrainer *trainer,
                                      const TributaryHost *host, const TributaryCancel *cancel,
                                      TributaryOutcome *outcome);

/* Makes example sets, by the names that jobs give in `data`; none yet. Free them with `tributary_sets_free`. */
TributaryStatus tributary_sets_new(TributarySets **sets);

/* Adds examples under a name; with null, those of jobs that name no set. The examples may be freed afterwards. */
TributaryStatus tributary_sets_add_examples(const TributarySets *sets, const char *name,
                                            const TributaryExamples *examples);

/* Adds a trainer of the app under a name; with null, that of jobs that name no set. The structure is copied; its
 * functions and its context are valid until the sets are freed. */
TributaryStatus tributary_sets_add_trainer(const TributarySets *sets, const char *name,
                                           const TributaryTrainer *trainer);

/* Runs one session with these sets: the work of a job goes to the set that the job names. `host` and `cancel` may be
 * null. */
TributaryStatus tributary_run_sets(const TributaryClient *client, const TributarySets *sets,
                                   const TributaryHost *host, const TributaryCancel *cancel,
                                   TributaryOutcome *outcome);

/* Frees them; null is allowed. No session with them may run. */
void tributary_sets_free(TributarySets *sets);

/* The model of a file that `tributary job export` wrote; the bytes are copied. Free it with `tributary_model_free`. */
TributaryStatus tributary_model_of_file(const uint8_t *file, size_t bytes, TributaryModel **model);

/* The model of a job that the client downloaded last, with its own personal parameters: from its folder, without a
 * network. It is null until the client has taken part in a round of the job. Free it with `tributary_model_free`. */
TributaryStatus tributary_model_of_job(const TributaryClient *client, const char *job, TributaryModel **model);

/* The model that was released on a channel, such as `stable`, whether or not this client trains. `freshness` is
 * `latest`, which downloads a newer release first, or `local`, which asks nobody. It is null until a release is here.
 * Free it with `tributary_model_free`. */
TributaryStatus tributary_model_of_channel(const TributaryClient *client, const char *channel, const char *freshness,
                                           TributaryModel **model);

/* Frees a model; null is allowed. No prediction of it may run. */
void tributary_model_free(TributaryModel *model);

/* Gives what the model says of itself, as JSON: job, version, hashes, loss, and with `model` the layers, and the columns
 * and classes in their order. The text is valid until this thread's next call that gives a text. */
TributaryStatus tributary_model_card(const TributaryModel *model, const char **json);

/* Predicts one row by the names of its columns, in any order. Columns that the model has not are ignored. Threads may
 * share the model. What `prediction` points to is valid until this thread's next prediction. */
TributaryStatus tributary_predict_row(const TributaryModel *model, const TributaryValue *row, size_t count,
                                      TributaryPrediction *prediction);

/* Predicts one row of raw values in the order of the model's columns: numbers as they are, categories by their code,
 * dates in days since 1970, NaN where a value is missing. As `tributary_predict_row` otherwise. */
TributaryStatus tributary_predict(const TributaryModel *model, const double *raw, size_t count,
                                  TributaryPrediction *prediction);

/* Predicts one example that the app has prepared: the inputs of the network, which are neither scaled nor checked. As
 * `tributary_predict_row` otherwise. */
TributaryStatus tributary_predict_prepared(const TributaryModel *model, const float *inputs, size_t count,
                                           TributaryPrediction *prediction);

/* Whether a trainer should return `TRIBUTARY_STATUS_INTERRUPTED`: 1 or 0. For null it is 1. */
int32_t tributary_should_stop(const TributaryStop *stop);

/* Keeps where a training stopped, for a later session. A trainer returns what this call returns:
 * `TRIBUTARY_STATUS_INTERRUPTED`, or another status for a checkpoint that cannot be used. Where no later session can go on,
 * nothing is kept. */
TributaryStatus tributary_suspend(const TributaryTask *task, const TributaryCheckpoint *checkpoint);

/* Reports a figure of the app's own, such as an AUC, with the result of this training or evaluation: a finite number,
 * with a name of a-z, 0-9, `_`, `.` and `-`; at most 32. One of a name that was reported is replaced. */
TributaryStatus tributary_metric(const TributaryTask *task, const char *name, double value);

/* Whether a trainer should call `tributary_keep` and train on: 1 or 0. For null it is 0. */
int32_t tributary_checkpoint_is_due(const TributaryStop *stop);

/* Keeps where a training is that goes on, so that after a crash or a kill a later session goes on from there. */
TributaryStatus tributary_keep(const TributaryTask *task, const TributaryCheckpoint *checkpoint);

/* Whether the time that the job leaves for training is over: 1 or 0. The trainer then returns what it learned. */
int32_t tributary_is_over(const TributaryStop *stop);

#ifdef __cplusplus
}
#endif

#endif
