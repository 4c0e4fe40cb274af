// The `[aggregation]` section of a job file: the rules that the form offers.

export interface AggregationRule {
  name: string;
  about: string;
  /** The section's text; empty for the default. */
  text: string;
}

const combine = (value: string) => `[aggregation]\ncombine = ${value}\n`;
const optimizer = (text: string) => `[aggregation.optimizer]\n${text}\n`;

export const RULES: readonly AggregationRule[] = [
  { name: "FedAvg", about: "the mean, weighted by examples", text: "" },
  { name: "Uniform mean", about: "every client counts the same", text: combine(`"uniform_mean"`) },
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

/** The job file with this rule in place of its `[aggregation]` sections. */
export function withRule(text: string, rule: AggregationRule): string {
  const kept = text
    .split(/^(?=\[)/m)
    .filter((section) => !/^\[aggregation(\.|\])/.test(section))
    .join("");
  return rule.text ? `${kept.trimEnd()}\n\n${rule.text}` : `${kept.trimEnd()}\n`;
}
