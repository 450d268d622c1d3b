/** @file A small finished run of one step, as records: two questions, two rollouts of each, one searcher. */
import type { Manifest } from "../../core/contracts/checkpoint.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { Conversation } from "../../core/contracts/conversation.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { Question, QuestionSet } from "../../core/contracts/question.ts";
import type { GroupRecord, JobRecord, StepRecord, WorkerRecord } from "../../core/contracts/records.ts";
import type { Invocation, Outcome } from "../../core/contracts/rollout.ts";
import type { Store } from "../../core/ports.ts";
import { wilson } from "../../core/training/confidence-interval.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { runRecord } from "../fakes/scripted-team.ts";

export const RUN = "tiny";
const FIRST = "A".repeat(22);
const SECOND = "B".repeat(22);

export const config = RunConfig.parse({
  run: RUN,
  recipe: "atlas",
  steps: 1,
  questionsPerStep: 2,
  rolloutsPerQuestion: 2,
  agents: { main: { model: "models/main", delegates: ["searcher"] }, searcher: { model: "models/searcher" } },
  evaluation: { suites: [{ name: "sampled" }, { name: "greedy", temperature: 0, when: "ends" }] },
});

export const step: StepRecord = {
  run: RUN,
  step: 0,
  state: "closed",
  groups: ["q1", "q2"],
  round: 0,
  policy: { main: 0, searcher: 0 },
  trained: ["main", "searcher"],
  sampledBefore: 0,
  sampledTokens: 30,
  curriculum: { stage: 0, drawn: [2] },
};

export const question = (id: string): Question => ({
  id,
  kind: "hop1",
  level: 1,
  prompt: `What is the capital of ${id}?`,
  answer: "Lisbon",
  facts: null,
});

const GROUP = { run: RUN, step: 0, rolloutsPerQuestion: 2, state: "finalized", claims: {}, crashes: {} } as const;
const CORRECT = { reward: 1, correct: 1, wellFormed: true, tokens: 10 };

/** q1: one rollout correct with two calls, one wrong without a call. q2: one correct with one call, one lost. */
export const groups: GroupRecord[] = [
  {
    ...GROUP,
    group: 0,
    questionId: "q1",
    rollouts: {
      "0": { ...CORRECT, invocations: { searcher: [scored(FIRST, 0.9, 0.8), scored(SECOND, 0.5, 0)] } },
      "1": { reward: 0.1, correct: 0, wellFormed: true, tokens: 10, invocations: { searcher: [] } },
    },
    finalized: {
      main: finalized([0, 1], [1, -1], 0.55, 0.45),
      searcher: { ...finalized(["0/0"], [1], 0.7, 0.2), dropped: 1, duplicated: 0 },
    },
  },
  {
    ...GROUP,
    group: 1,
    questionId: "q2",
    rollouts: {
      "0": { ...CORRECT, invocations: { searcher: [scored("C".repeat(22), 1, 1)] } },
      "1": { excluded: "infrastructure: gone" },
    },
    finalized: {},
  },
];

export const manifests: Manifest[] = ["main", "searcher"].map((agent) => ({
  run: RUN,
  agent,
  version: 1,
  trained: agent === "main",
  files: {},
  stats:
    agent === "main"
      ? {
          loss: 0,
          gradientNorm: 1,
          clipFraction: 0,
          kl: 2e-7,
          maxRatioDeviation: 1e-6,
          trajectories: 2,
          actionTokens: 60,
          tokens: 90,
        }
      : null,
  seconds: { sampling: 1, training: 0.5, waiting: 0.25 },
}));

export const worker = (agent: string, state: WorkerRecord["state"] = "alive"): WorkerRecord => ({
  run: RUN,
  worker: `${agent}-1`,
  agent,
  roles: ["rollout", "train"],
  url: "",
  state,
  counter: 1,
  seenCounter: 1,
  seenAt: 0,
  release: "",
  inFlight: [],
});

export const job = (suite: string, team: number, correct: number): JobRecord => ({
  run: RUN,
  job: `${suite}-${team}`,
  team,
  suite,
  state: "done",
  owner: "",
  fence: 1,
  ...scoreOf(10, correct),
});

/** The score of a suite that is run once. */
export const scoreOf = (n: number, correct: number) => ({
  ...{ n, correct, runs: [{ n, correct }] },
  interval: wilson({ n, correct }),
});

/** The text of a page, with markup for a browser and an escape sequence for a terminal. */
const HOSTILE = '<script>alert("x")</script>\u001b[2J';

const conversation: Conversation = {
  prompt: "What is the capital of q1?",
  turns: [
    {
      text: "delegating",
      calls: [{ name: "delegate", arguments: { agent: "searcher", task: "capital" } }],
      responses: [{ name: "delegate", text: "Lisbon", invocation: FIRST }],
    },
  ],
  stop: "answered",
  answer: "Lisbon",
  fault: null,
};

const address = { run: RUN, phase: "train", step: 0, group: 0, rollout: 0 };
const trajectory = (agent: string) => ({ agent, version: 0, tokens: [1], actions: [], logProbs: [] });

const invocation: Invocation = {
  id: FIRST,
  request: {
    address,
    questionId: "q1",
    agent: "searcher",
    version: 0,
    call: 0,
    task: "capital",
    sampling: { temperature: 1, topP: 1, topK: 0 },
    closedBook: false,
  },
  conversation: {
    prompt: "capital",
    turns: [
      {
        text: "searching",
        calls: [{ name: "search", arguments: { query: "capital" } }],
        responses: [{ name: "search", text: HOSTILE }],
      },
    ],
    stop: "answered",
    answer: "Lisbon",
    fault: null,
  },
  trajectory: trajectory("searcher"),
};

const outcome: Outcome = {
  status: "finished",
  address,
  questionId: "q1",
  conversation,
  trajectory: trajectory("main"),
  invocations: [{ id: FIRST, agent: "searcher", key: objectKeys.invocation(RUN, 0, FIRST), sha256: "0".repeat(64) }],
};

/** A store that holds the finished run: its step and manifests, the questions, one outcome with its invocation, and all evaluations. */
export async function storeOfFinishedRun() {
  const store = memoryStore();
  await fillFinishedRun(store);
  return store;
}

/** What may differ between finished runs. */
export interface FinishedRun {
  readonly groups: readonly GroupRecord[];
  readonly questions: QuestionSet;
  readonly outcome: Outcome;
  readonly invocation: Invocation;
}

export const finishedRun: FinishedRun = {
  groups,
  questions: { train: [question("q1"), question("q2")], heldOut: [] },
  outcome,
  invocation,
};

/** Each filled store has a config hash of its own, since a process reads the config of a hash once (cli/show/source.ts). */
let filled = 0;

export async function fillFinishedRun({ table, objects }: Store, run = finishedRun): Promise<void> {
  const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const configSha256 = String(filled++).padStart(64, "0");
  await table.insert(tableKeys.run(RUN), runRecord({ run: RUN, status: "finished", configSha256 }));
  await table.insert(tableKeys.step(RUN, 0), { ...step });
  for (const group of run.groups) await table.insert(tableKeys.group(RUN, 0, group.group), { ...group });
  for (const one of [job("sampled", 0, 3), job("greedy", 0, 4), job("sampled", 1, 8), job("greedy", 1, 9)]) {
    await table.insert(tableKeys.job(RUN, one.job), { ...one });
  }
  for (const manifest of manifests) await objects.commit(objectKeys.manifest(RUN, manifest.agent, 1), bytes(manifest));
  await objects.commit(objectKeys.questions(RUN), bytes(run.questions));
  await objects.commit(objectKeys.outcome(address), bytes(run.outcome));
  await objects.commit(objectKeys.invocation(RUN, 0, FIRST), bytes(run.invocation));
}

function scored(id: string, reward: number, expert: number) {
  return { id, reward, expert };
}

function finalized(trajectories: (number | string)[], advantages: number[], mean: number, std: number) {
  const weights = trajectories.map(() => 1 / trajectories.length);
  return { trajectories, weights, advantages, mean, std, duplicated: 0, dropped: 0 };
}
