/**
 * @file A gateway on a real loopback port, with scripted agents that do what their last message says, and a record of every sample.
 *
 *     "say <text>"    the text              "call <JSON>"      a tool call for each line
 *     "long <n>"      n letters             anything else      "you said" and the message
 *
 * After a tool's response, the reply is all tool responses in an <answer> tag.
 */
import { onTestFinished } from "vitest";
import { AgentConfig } from "../../../core/contracts/agent-config.ts";
import type { AppResult } from "../../../core/contracts/app-rollout.ts";
import {
  type FinishedOutcome,
  type Invocation,
  mainTrajectories,
  type Trajectory,
} from "../../../core/contracts/rollout.ts";
import { isMgrpoError } from "../../../core/errors.ts";
import type { Sample, SampleRequest, Sampler, Tokenizer } from "../../../core/ports.ts";
import type { Random } from "../../../core/random.ts";
import { openTokenizer } from "../../../engine/tokenizer/tokenizer.ts";
import { AgentSessions } from "../../../gpu-workers/gateway/agent-sessions.ts";
import { gatewayApp } from "../../../gpu-workers/gateway/api/app.ts";
import { type AppRunner, appAttempts } from "../../../gpu-workers/gateway/app-rollout.ts";
import type { AppTeam, Attempt } from "../../../gpu-workers/gateway/attempt.ts";
import { openAttempts } from "../../../gpu-workers/gateway/attempts.ts";
import { localSubAgent } from "../../../gpu-workers/gateway/sub-agents.ts";
import { httpNetwork } from "../../../gpu-workers/invocations/network.ts";
import { createLog } from "../../../gpu-workers/log.ts";
import type { HostedAgent } from "../../../gpu-workers/rollouts/agent.ts";
import type { Inference, PolicyVersions } from "../../../gpu-workers/rollouts/policy-versions.ts";
import type { RolloutPlan } from "../../../gpu-workers/rollouts/rollout-plan.ts";
import type { RunContext } from "../../../gpu-workers/run-context.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { baseFiles, scriptedEngine } from "../../fixtures/relay/policy.ts";
import { question } from "../../fixtures/relay/questions.ts";

export type Script = (conversation: string, random: Random) => string;

/** One sample as the engine gave it. */
export interface RecordedSample {
  readonly agent: string;
  readonly version: number;
  readonly request: SampleRequest;
  readonly sample: Sample;
}

export interface HarnessOptions {
  readonly script?: Script;
  readonly config?: object;
  readonly maxBranches?: number;
  /** Awaited before each sample. */
  readonly beforeSample?: (request: SampleRequest) => Promise<void> | void;
  /** What the engine returns instead of the sample. */
  readonly damage?: (sample: Sample, agent: string) => Sample;
  /** The agents' tokenizer. */
  readonly tokenizer?: Tokenizer;
}

export const tokenizer = openTokenizer(baseFiles("main"));
export const VERSIONS = { main: 3, searcher: 5 };

/** Does what the last message says. */
function obedient(conversation: string): string {
  const messages = conversation.split("<|im_start|>").slice(1, -1);
  const [role = "", text = ""] = partsOf(messages.at(-1) ?? "");
  if (role === "tool")
    return `<answer>${messages
      .map(partsOf)
      .flatMap(([from, said]) => (from === "tool" ? said : []))
      .join(" ")}</answer>`;
  const [, order, rest = ""] = /^(say|call|long) ?([\s\S]*)$/.exec(text) ?? [];
  if (order === "call")
    return rest
      .split("\n")
      .map((call) => `<tool_call>${call}</tool_call>`)
      .join("\n");
  if (order === "long") return "x".repeat(Number(rest));
  return order === "say" ? rest : `you said ${text}`;
}

const partsOf = (message: string) => {
  const at = message.indexOf("\n");
  return [message.slice(0, at), message.slice(at + 1).replace(/<\|im_end\|>\n?$/, "")] as const;
};

/** Samples wait for `resume`. `begun`: how many have been asked for. */
export function pausedSampling() {
  let resume = () => {};
  const paused = new Promise<void>((resolve) => {
    resume = resolve;
  });
  let begun = 0;
  const beforeSample = () => {
    begun += 1;
    return paused;
  };
  return { resume, beforeSample, begun: () => begun };
}

/** Counts the turns of an attempt that are canceled: their client has disconnected, or the attempt is over. */
function countCanceled(attempt: Attempt): () => number {
  const turn = attempt.turn.bind(attempt);
  let canceled = 0;
  attempt.turn = (...request) =>
    turn(...request).catch((error: unknown) => {
      if (isMgrpoError(error, "canceled")) canceled += 1;
      throw error;
    });
  return () => canceled;
}

/** Time for the server to notice what its client has sent, or that it has disconnected, and for pending promises to settle. */
export const settled = () => new Promise((resolve) => setTimeout(resolve, 100));

/** An agent whose sampler records each sample in `samples`. Its weights follow from its name and version. */
export function scriptedAgent(
  name: string,
  samples: RecordedSample[],
  { script = obedient, config = {}, beforeSample, damage, tokenizer: ownTokenizer = tokenizer }: HarnessOptions = {},
): HostedAgent {
  const engine = scriptedEngine(script);
  const open = async (version: number): Promise<Inference> => {
    const files = new Map([
      ...baseFiles(name),
      ["model.safetensors", new TextEncoder().encode(`${name} ${version}`.padEnd(32))],
    ]);
    const sampler = await engine.openSampler(files, {
      ...agentConfig.engine,
      contextTokens: agentConfig.limits.contextTokens,
    });
    const recorded: Sampler = {
      ...sampler,
      async sample(request, signal) {
        await beforeSample?.(request);
        const sample = await sampler.sample(request, signal);
        samples.push({ agent: name, version, request, sample });
        return damage ? damage(sample, name) : sample;
      },
    };
    return { sampler: recorded, tokenizer: ownTokenizer };
  };
  const agentConfig = AgentConfig.parse({
    ...{ model: "scripted", policy: "recipe:relay", limits: { turns: 8, turnTokens: 400, contextTokens: 4000 } },
    ...config,
  });
  const opened = new Map<number, Promise<Inference>>();
  const policy = {
    acquire: async (version: number) => ({
      inference: await (opened.get(version) ?? opened.set(version, open(version)).get(version)),
      release: () => {},
      backend: () => {
        throw new Error("an app's agents have no backend");
      },
    }),
  };
  return { name, config: agentConfig, policy: policy as unknown as PolicyVersions, tools: new Map(), draws: "place" };
}

/** A team of main and searcher behind a gateway, which is closed when the test ends. */
export async function openHarness(options: HarnessOptions = {}) {
  const samples: RecordedSample[] = [];
  const lines: string[] = [];
  const log = createLog((line) => lines.push(line));
  const store = memoryStore();
  const sessionsOf = (name: string) =>
    new AgentSessions(scriptedAgent(name, samples, options), [7, "sample"], options.maxBranches ?? 32, 0);
  const run = { name: "relay", store, log } as unknown as RunContext;
  const team: AppTeam = {
    main: { name: "main", sessions: sessionsOf("main") },
    subs: new Map([["searcher", localSubAgent(run, sessionsOf("searcher"))]]),
  };
  let port = 0;
  const attempts = openAttempts("a secret for tests only", () => `http://127.0.0.1:${port}/gate/v1`);
  const server = await httpNetwork.listen(gatewayApp("gate", attempts, log), "127.0.0.1", 0);
  port = server.port;
  onTestFinished(() => server.close());
  const never = new AbortController().signal;
  return {
    ...{ samples, lines, attempts, team, port },
    open: (rollout = 0) => {
      const opened = attempts.open(team, planOf(rollout));
      const canceledTurns = countCanceled(opened.attempt);
      const outcome = async (result?: AppResult) => {
        await opened.attempt.settled();
        attempts.close(opened.attempt);
        return opened.attempt.outcome(result, never);
      };
      const main = opened.agents["main"];
      const searcher = opened.agents["searcher"];
      if (!main || !searcher) throw new Error("the team is incomplete");
      return { ...opened, main, searcher, outcome, canceledTurns };
    },
    /** Runs an app as the worker does. */
    run: (runner: AppRunner["run"], rollout = 0, signal = never) =>
      appAttempts({ team, attempts, runner: { run: runner }, seconds: 120 })(planOf(rollout), signal),
    async invocations(outcome: FinishedOutcome): Promise<Invocation[]> {
      const bytes = await Promise.all(outcome.invocations.map(({ key }) => store.objects.get(key)));
      return bytes.map((one) => JSON.parse(new TextDecoder().decode(one)));
    },
  };
}

/** What the main agent is trained on. */
export const trainedOn = (outcome: FinishedOutcome): Trajectory[] =>
  mainTrajectories(outcome).flatMap((one) => ("tokens" in one ? one : []));

export type Harness = Awaited<ReturnType<typeof openHarness>>;

export const planOf = (rollout: number): RolloutPlan => ({
  address: { run: "relay" as RolloutPlan["address"]["run"], phase: "train", step: 0, group: 0, rollout },
  question: question("amber", "train"),
  versions: VERSIONS,
  sampling: { temperature: 1, topP: 1, topK: 0 },
  ...{ purpose: [7, "sample"], closedBook: false },
});
