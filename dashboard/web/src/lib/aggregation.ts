// The rules that the form offers: the `[aggregation]` sections of a job file, and `[training] algorithm`.

export interface AggregationRule {
  name: string;
  about: string;
  /** The sections' text; empty for the default. */
  text: string;
  /** The value of `algorithm` in `[training]`; absent for plain training. */
  algorithm?: string;
}

const combine = (value: string) => `[aggregation]\ncombine = ${value}\n`;
const optimizer = (text: string) => `[aggregation.optimizer]\n${text}\n`;

export const RULES: readonly AggregationRule[] = [
  { name: "FedAvg", about: "the mean, weighted by examples", text: "" },
  { name: "Uniform mean", about: "every client counts the same", text: combine(`"uniform_mean"`) },
  {
    name: "FedProx",
    about: "clients stay near the global model",
    text: "",
    algorithm: `{ kind = "fed_prox", mu = 0.01 }`,
  },
  {
    name: "SCAFFOLD",
    about: "clients correct their drift; `clients` is how many there are",
    text: combine(`"uniform_mean"`),
    algorithm: `{ kind = "scaffold", clients = 100 }`,
  },
  {
    name: "FedDyn",
    about: "as SCAFFOLD, for clients that train long",
    text: combine(`"uniform_mean"`),
    algorithm: `{ kind = "fed_dyn", alpha = 0.1, clients = 100 }`,
  },
  {
    name: "Elastic averaging",
    about: "clients keep own weights, drawn to the model; `alpha` x cohort <= 1",
    text: combine(`"uniform_mean"`),
    algorithm: `{ kind = "easgd", alpha = 0.05 }`,
  },
  {
    name: "FedNova",
    about: "clients with more steps pull no harder",
    text: "",
    algorithm: `{ kind = "fed_nova" }`,
  },
  {
    name: "FedAvgM",
    about: "the server keeps a momentum over rounds",
    text: optimizer(`kind = "sgd"\nmomentum = 0.9`),
  },
  {
    name: "FedAdam",
    about: "each parameter has a rate of its own",
    text: optimizer(`kind = "adam"\nlearning_rate = 0.1`),
  },
  {
    name: "FedYogi",
    about: "as FedAdam, with rates that change slowly",
    text: optimizer(`kind = "yogi"\nlearning_rate = 0.01`),
  },
  {
    name: "FedAdagrad",
    about: "as FedAdam, for parameters that seldom change",
    text: optimizer(`kind = "adagrad"\nlearning_rate = 0.1`),
  },
  {
    name: "L-BFGS",
    about: "few rounds for smooth problems; set `steps = 1`, no batch size",
    text: optimizer(`kind = "lbfgs"`),
  },
  {
    name: "q-FedAvg",
    about: "clients with a larger loss count more",
    text: combine(`{ kind = "q_fedavg", q = 1.0 }`),
  },
  {
    name: "Norm clipping",
    about: "long updates are scaled down",
    text: combine(`{ kind = "norm_clipping", norm = 1.0 }`),
  },
  {
    name: "Adaptive clipping",
    about: "as above; the norm follows the median of the updates' norms",
    text: combine(`{ kind = "norm_clipping", norm = 1.0, adaptive = { quantile = 0.5 } }`),
  },
  {
    name: "Median",
    about: "each parameter takes the middle value, whatever a few clients send",
    text: combine(`"median"`),
  },
  {
    name: "Trimmed mean",
    about: "the mean without the extreme values",
    text: combine(`{ kind = "trimmed_mean", trim = 0.2 }`),
  },
  {
    name: "Multi-Krum",
    about: "the mean of the updates that are near to each other",
    text: combine(`{ kind = "multi_krum", byzantine = 1 }`),
  },
  {
    name: "Krum",
    about: "the one update that is nearest to the others",
    text: combine(`{ kind = "krum", byzantine = 1 }`),
  },
  {
    name: "Bulyan",
    about: "Krum, then the middle of each parameter; one wrong update of seven",
    text: combine(`{ kind = "bulyan", byzantine = 1 }`),
  },
  { name: "Geometric median", about: "the point nearest to all updates", text: combine(`"geometric_median"`) },
  {
    name: "Centered clipping",
    about: "no update pulls farther than a radius from the last step",
    text: combine(`{ kind = "centered_clipping", radius = 1.0 }`),
  },
];

/** The job file with this algorithm in its `[training]` section, or with none. */
function withAlgorithm(text: string, algorithm: string | undefined): string {
  return text.replace(/^\[training\].*\n(?:(?!\[).*\n?)*/m, (section) => {
    const kept = section.replace(/^algorithm\s*=.*\n?/m, "");
    return algorithm ? kept.replace("\n", `\nalgorithm = ${algorithm}\n`) : kept;
  });
}

/** The job file with this rule in place of its `[aggregation]` sections and its algorithm. */
export function withRule(text: string, rule: AggregationRule): string {
  const kept = withAlgorithm(text, rule.algorithm)
    .split(/^(?=\[)/m)
    .filter((section) => !/^\[aggregation(\.|\])/.test(section))
    .join("");
  return rule.text ? `${kept.trimEnd()}\n\n${rule.text}` : `${kept.trimEnd()}\n`;
}
