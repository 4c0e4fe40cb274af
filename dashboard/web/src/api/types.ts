// The types of the operator API that the page uses. Those in schema.ts are generated from the coordinator's OpenAPI
// document; those written here are not in the document by name.
//
// Times are milliseconds since 1970, durations milliseconds. A property that is left out is unknown.

import type * as schema from "./schema";

export type {
  AbandonReason,
  Account,
  Answer,
  Assignment,
  AssignmentState,
  AttributeName,
  AuditAction,
  AuditEntry,
  AuditRow,
  BudgetState,
  Cell,
  ClassCounts,
  ClassStats,
  ClassTotals,
  Client,
  ClientAssignment,
  CreatedToken,
  Curve,
  CurveMark,
  CurvePoint,
  Estimate,
  Event as FeedEvent,
  GroupFailure,
  GroupProgress,
  GroupStage,
  Health,
  JobAnswers,
  JobDraft,
  JobOverview,
  JobPrivacy,
  JobPrivacyState,
  JobState,
  JobSummary,
  LayerRow,
  LedgerEntry,
  LoadSample,
  MeasuredOn,
  Mechanism,
  MemberClock,
  MetricCurve,
  ModelVersion,
  Node,
  NodeState,
  Outlook,
  OutlookPoint,
  Overview,
  Phase,
  PhaseSpan,
  Population,
  Problem,
  Release,
  RingAttempt,
  RingPart,
  RingState,
  Role,
  Round,
  RoundDetail,
  RoundGroup,
  ScheduledWork,
  Session,
  Severity,
  ShapeCount,
  SignedIn as Who,
  SignInWays,
  StaleClient,
  StallKind,
  Standing,
  StarReason,
  StopPolicy,
  System,
  Target,
  Task,
  Token,
} from "./schema";

/** A page of a list. The document spells it out in the answer of each list. */
export interface Page<T> {
  items: T[];
  /** What to send as `after` for the next page; left out at the end. */
  next?: string;
}

/** The policy in an answer, where the coordinator has filled in what the job file left out. */
export type RoundPolicy = Required<Omit<schema.RoundPolicy, Tables>> & Pick<schema.RoundPolicy, Tables>;

/** The settings of a round policy that are tables, and left out where they are the default. */
export type Tables = "adapt" | "mode" | "selection";

/** A job as the coordinator answers it. */
export type Job = schema.Job & { file: { round: RoundPolicy } };

/** A round, with its cohort where that is known. */
export type CohortRound = schema.Round & { cells?: CohortCell[] };

/** A member of a cohort; `spare` is there where its assignment was loaded. */
export type CohortCell = schema.OpenRound["cells"][number] & { spare?: boolean };

/** Round, accuracy and loss of a point of a small learning curve. */
export type SparkPoint = schema.JobOverview["spark"][number];
