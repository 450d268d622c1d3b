/** @file An agent as a process runs it: its config, its policy, its tools. One conversation of it, with one pinned version. */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { Allowance, RolloutAddress, Sampling } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Tool } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import type { Hold, Policy } from "../policy.ts";
import { type Converse, converse, type Delegate, type Moment } from "./converse.ts";

export interface Agent {
  readonly name: string;
  readonly config: AgentConfig;
  readonly policy: Policy;
  readonly tools: ReadonlyMap<string, Tool>;
  /** What a rollout that it begins may ask of tools, its sub-agents included. */
  readonly allowance?: Allowance;
  /** Told of each of its conversations; `call` as in `Talk`. */
  readonly tell?: (moment: Moment, call: number | undefined) => void;
}

/** The tools of an agent, out of those of its recipe. */
export function toolsOf(
  name: string,
  config: AgentConfig,
  recipe: ReadonlyMap<string, Tool>,
): ReadonlyMap<string, Tool> {
  return new Map(
    config.tools.map((tool) => {
      const found = recipe.get(tool);
      if (found) return [tool, found];
      const known = [...recipe.keys()].join(", ");
      throw new MgrpoError(
        "recipe-invalid",
        `agents.${name}.tools: the recipe has no tool '${tool}' (it has ${known})`,
      );
    }),
  );
}

export interface Talk {
  readonly address: RolloutAddress;
  readonly version: number;
  readonly question: Question;
  /** What the agent is asked: the question's prompt, or the subtask. */
  readonly prompt: string;
  readonly delegate: Delegate;
  readonly sampling: Sampling;
  /** First parts of the name of its random stream: run seed and purpose. */
  readonly purpose: StreamName;
  /** Position of the delegation that this conversation answers; undefined for the main agent. */
  readonly call?: number;
  readonly closedBook: boolean;
  /** What it may ask of its tools; undefined: as much as it likes. */
  readonly allowance: Allowance | undefined;
}

/** Distinguishes attempts at the same conversation within this process, for the engine's cache only. */
let attempts = 0;

/** The conversation, once it is certain that the version's own weights spoke: while a version is stored, its foreseen ones may. */
export async function talk(agent: Agent, options: Talk, signal: AbortSignal): Promise<Converse> {
  for (;;) {
    const hold = await agent.policy.acquire(options.version);
    try {
      const conversed = await speak(agent, hold, options, signal);
      if (await hold.confirmed(signal)) return conversed;
    } finally {
      hold.release();
    }
  }
}

function speak(agent: Agent, hold: Hold, options: Talk, signal: AbortSignal): Promise<Converse> {
  const { name, config, tools } = agent;
  const { address, version, purpose, call, question, prompt, delegate, sampling, closedBook, allowance } = options;
  const where = [address.step, address.group, address.rollout, name, call ?? "asked"] as const;
  const stream = [...purpose, ...where];
  const sequence = `${stream.join("/")}#${attempts++}`;
  const speaker = hold.speaker({ agent: name, version, config, tools, sampling, stream, sequence });
  const tell = agent.tell && ((moment: Moment) => agent.tell?.(moment, call));
  const asked = { question, prompt, delegate, closedBook, allowance };
  return converse({ ...asked, speaker, limits: config.limits, sequence, tell, signal });
}
