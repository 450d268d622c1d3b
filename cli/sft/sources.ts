/**
 * @file Where an agent's demonstrations come from: the recipe, a file of messages, or the correct rollouts of a run or an evaluation. An
 * app defines its agents' system messages and tools: they come from the file's lines, or from the tokens of a run whose rollouts the app ran.
 */
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import type { RunConfig } from "../../core/contracts/config.ts";
import { agentsOfPolicy, ownerOf } from "../../core/contracts/shared-policy.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Demonstration, Recipe } from "../../core/recipe.ts";
import {
  refuseDeadEnd,
  refuseMalformed,
  refuseMalformedAppLine,
  refuseOtherAgent,
  type TargetAgent,
} from "../../sft/check.ts";
import type { Example } from "../../sft/example.ts";
import { type LocatedDemonstration, type MessagesLine, readMessages } from "../../sft/messages.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { type AgentDemonstration, correctConversations } from "./correct-rollouts.ts";

/** The demonstrations of one agent; at least one. @param tokenizerSha256 that of its tokenizer.json. */
export type ExampleSource = (target: TargetAgent, tokenizerSha256: string) => readonly ExampleInput[];

/** A demonstration that gets the agent's own system message and tools, a line of an app's messages, or tokens as they were sampled. */
export type ExampleInput = LocatedDemonstration | AppLine | LocatedExample;

interface AppLine {
  readonly line: MessagesLine;
  readonly where: string;
}

interface LocatedExample {
  readonly example: Example;
  readonly where: string;
}

export interface SourceOptions {
  /** A file of messages, instead of the recipe's demonstrations. */
  readonly demonstrations?: string;
  /** A run, or the folder of an evaluation, whose correct rollouts are the demonstrations. */
  readonly fromRun?: string;
  /**
   * The minimum reward of such a rollout's main agent. The rollout's correctness must reach it too, or 1 if that is lower. An evaluation
   * has no rewards, and records only the sum of a question's scores: there, its n answers together must score at least n - 1 + this. Absent: 0.9.
   */
  readonly minReward?: number;
}

const DEFAULT_MIN_REWARD = 0.9;

/** Maximum demonstrations of an agent in a recipe. The demonstrations of base models, which a recipe may return here too, never end. */
const MAX_DEMONSTRATIONS = 200_000;

/** Maximum number of unknown agents that a message names. */
const MAX_NAMED = 5;

/** Advice where a run's tokens of an app's agent are missing or cannot be used. */
const USE_TRACES = "take demonstrations from the app's traces (--demonstrations, `mgrpo import-traces`)";

/** @param only the agent that is trained alone, whose lines need not name it. */
export async function openDemonstrations(
  recipe: Recipe,
  config: RunConfig,
  { demonstrations, fromRun, minReward = DEFAULT_MIN_REWARD }: SourceOptions,
  only?: string,
): Promise<ExampleSource> {
  const isApp = config.runner !== "native";
  if (demonstrations !== undefined) {
    return fromLines(demonstrations, readMessages(readFile(demonstrations), demonstrations), config, only);
  }
  if (fromRun === undefined) return fromRecipe(recipe, config);
  const found = await correctConversations(fromRun, minReward);
  return (target, tokenizerSha256) => {
    const own = found.filter(({ agent }) => agent === target.agent);
    if (own.length === 0) {
      // At 0, every correct rollout is already taken, and a wrong one never is: a lower minimum would find no more.
      const more = minReward > 0 ? "lower --min-reward" : "name another run";
      const advice = found.length > 0 ? `${more}, or train another agent with --agent` : more;
      throw invalid(
        `'${fromRun}' has no conversation in which agent '${target.agent}' gave an answer, in a correct rollout with a reward of at least ${minReward}: ${advice}`,
      );
    }
    if (isApp) return asSampled(own, target.agent, fromRun, tokenizerSha256);
    for (const one of own) refuseMalformed(one, target);
    return own;
  };
}

/**
 * The branches that an app's agent sampled, as examples. Throws `demonstrations-invalid` if there are none, if the run did not run the app, or if
 * their tokens are unknown or of another tokenizer.
 */
export function asSampled(
  own: readonly AgentDemonstration[],
  agent: string,
  run: string,
  tokenizerSha256: string,
): readonly LocatedExample[] {
  const examples = own.flatMap(({ where, sampled }) => {
    if (!sampled) {
      throw invalid(
        `'${run}' did not run the app, so its conversations lack the app's messages and tools: add --set runner=native, or ${USE_TRACES}`,
      );
    }
    if (sampled.tokenizerSha256 === "") {
      throw invalid(`agent '${agent}' was behind an API in '${run}', so its tokens are unknown: ${USE_TRACES}`);
    }
    if (sampled.tokenizerSha256 !== tokenizerSha256) {
      throw invalid(
        `'${run}' has the app's messages and tools as tokens, and the model of agent '${agent}' has another tokenizer: start from a model with the same one, or ${USE_TRACES}`,
      );
    }
    return sampled.examples.map((example) => ({ example, where }));
  });
  if (examples.length > 0) return examples;
  throw invalid(
    `in the correct rollouts of '${run}', the app did not call agent '${agent}': train another with --agent, or ${USE_TRACES}`,
  );
}

/** The recipe's own demonstrations may contain faults and how to recover from them, so the texts of their turns are not checked. */
function fromRecipe({ name, demonstrations }: Recipe, { arm, seed }: RunConfig): ExampleSource {
  return ({ agent }) => {
    const found: Demonstration[] = [];
    for (const demonstration of demonstrations?.(agent, arm, seed) ?? []) {
      if (found.length === MAX_DEMONSTRATIONS) {
        throw invalid(
          `recipe '${name}' has more than ${MAX_DEMONSTRATIONS} demonstrations of agent '${agent}': end the sequence earlier, or give them as a file (--demonstrations)`,
        );
      }
      found.push(demonstration);
    }
    if (found.length === 0) {
      throw invalid(
        `recipe '${name}' has no demonstrations of agent '${agent}' in arm '${arm}': add them to its recipe.ts, or give --demonstrations, --from-run or another --agent`,
      );
    }
    return found.map((demonstration, i) => {
      const placed = { demonstration, where: `demonstration ${i} of agent '${agent}' in recipe '${name}'` };
      refuseDeadEnd(placed);
      return placed;
    });
  };
}

function fromLines(
  file: string,
  lines: readonly MessagesLine[],
  { agents, runner }: RunConfig,
  only: string | undefined,
): ExampleSource {
  const isApp = runner !== "native";
  const team = Object.keys(agents);
  const unnamed = lines.find(({ agent }) => agent === undefined);
  if (unnamed && only === undefined) {
    throw invalid(`${unnamed.where} does not say which agent it is for: add "agent", or train one with --agent`);
  }
  const stray = lines.find(({ agent }) => only === undefined && agent !== undefined && !team.includes(agent));
  if (stray) {
    const { agent: unknown = "", where } = stray;
    const message = `${where} is for agent '${unknown}': the team has ${team.join(", ")}`;
    throw new MgrpoError("demonstrations-invalid", message, { unknownNames: [{ unknown, known: team }] });
  }
  return (target) => {
    const own = lines.filter(({ agent = only }) => agent === target.agent);
    if (own.length === 0) throw invalid(`${file} ${noneOf(target.agent, lines, agents)}`);
    if (isApp) {
      for (const line of own) refuseMalformedAppLine(line, target.config);
      return own.map((line) => ({ line, where: line.where }));
    }
    for (const line of own) {
      refuseOtherAgent(line, target);
      refuseMalformed(line, target);
    }
    return own;
  };
}

/** Why a file has no lines for the agent, and what to do. It also lists unknown names of agents in the file: traces have the app's names. */
function noneOf(agent: string, lines: readonly MessagesLine[], agents: RunConfig["agents"]): string {
  // Agents that share a policy are trained together: none of them can be left out.
  const isAlone = agentsOfPolicy(agents, ownerOf(agents, agent)).length === 1;
  const unknown = [...new Set(lines.flatMap((line) => line.agent ?? []))].filter(
    (name) => !Object.hasOwn(agents, name),
  );
  const named = unknown.slice(0, MAX_NAMED).map((name) => `'${stripControlCharacters(name)}'`);
  const rename = `; it has some of agents that the team does not have, such as ${named.join(", ")}: if these are '${agent}', change the lines' "agent", or import the traces with --as ${agent}`;
  const advice = isAlone
    ? "add some, or train another with --agent"
    : "add some for every agent that shares its policy";
  return `has no demonstrations of agent '${agent}': ${advice}${named.length > 0 ? rename : ""}`;
}

function readFile(file: string): string {
  const unreadable = (fault: string) => invalid(`--demonstrations ${file}: ${fault}`);
  try {
    const bytes = readFileSync(file);
    // Other bytes would become U+FFFD, which the agents would learn to write.
    if (!isUtf8(bytes)) throw unreadable("not UTF-8 text: convert it to UTF-8, or decompress it");
    return bytes.toString();
  } catch (error) {
    if (isMgrpoError(error)) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    throw unreadable(code === "ENOENT" ? "no such file" : `cannot be read (${message})`);
  }
}

const invalid = (message: string) => new MgrpoError("demonstrations-invalid", message);
