/** @file Where an agent's demonstrations come from: the recipe, a file of messages, or the correct rollouts of a run. */
import { readFileSync } from "node:fs";
import type { RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { refuseMalformed, refuseOtherAgent, type Teachable } from "../../sft/check.ts";
import { type MessagesLine, type PlacedDemonstration, readMessages } from "../../sft/messages.ts";
import { correctConversations } from "./correct-rollouts.ts";

/** The demonstrations of one agent; at least one. */
export type Source = (teachable: Teachable) => readonly PlacedDemonstration[];

export interface SourceOptions {
  /** A file of messages, instead of the recipe's demonstrations. */
  readonly demonstrations?: string;
  /** A run, or the folder of an evaluation, whose correct rollouts are the demonstrations. */
  readonly fromRun?: string;
  /** The least reward of such a rollout. */
  readonly minReward?: number;
}

const LEAST_REWARD = 0.9;

/** @param only the agent that is trained alone, whose lines need not name it. */
export async function openDemonstrations(
  recipe: Recipe,
  config: RunConfig,
  { demonstrations, fromRun, minReward = LEAST_REWARD }: SourceOptions,
  only?: string,
): Promise<Source> {
  if (demonstrations !== undefined) return fromLines(demonstrations, readFile(demonstrations), only);
  if (fromRun === undefined) return fromRecipe(recipe, config);
  const found = await correctConversations(fromRun, minReward);
  return (teachable) => {
    const own = found.filter(({ agent }) => agent === teachable.agent);
    for (const one of own) refuseMalformed(one, teachable);
    if (own.length > 0) return own;
    throw none(
      `'${fromRun}' has no answered conversation of agent '${teachable.agent}' in a rollout of reward ${minReward} or more: lower --min-reward`,
    );
  };
}

/** The recipe's own demonstrations may contain faults and how to recover from them, so their turns are not checked. */
function fromRecipe({ name, demonstrations }: Recipe, { arm, seed }: RunConfig): Source {
  return ({ agent }) => {
    const found = [...(demonstrations?.(agent, arm, seed) ?? [])];
    if (found.length === 0) {
      throw none(
        `recipe '${name}' has no demonstrations of agent '${agent}' in arm '${arm}': add them to its recipe.ts, or give --demonstrations, --from-run or another --agent`,
      );
    }
    return found.map((demonstration, i) => {
      return { demonstration, where: `demonstration ${i} of agent '${agent}' in recipe '${name}'` };
    });
  };
}

function fromLines(file: string, lines: readonly MessagesLine[], only: string | undefined): Source {
  const unnamed = lines.find(({ agent }) => agent === undefined);
  if (unnamed && only === undefined) {
    throw none(`${unnamed.where} does not say which agent it is for: add "agent", or train one with --agent`);
  }
  return (teachable) => {
    const own = lines.filter(({ agent = only }) => agent === teachable.agent);
    if (own.length === 0)
      throw none(
        `${file} has no demonstrations of agent '${teachable.agent}': add some, or train another with --agent`,
      );
    for (const line of own) {
      refuseOtherAgent(line, teachable);
      refuseMalformed(line, teachable);
    }
    return own;
  };
}

function readFile(file: string): MessagesLine[] {
  try {
    return readMessages(readFileSync(file, "utf8"), file);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT") throw cause;
    throw none(`--demonstrations ${file}: no such file`);
  }
}

const none = (message: string) => new MgrpoError("demonstrations-invalid", message);
