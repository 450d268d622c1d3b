/**
 * @file The text of the main agent's branches that an outcome has only as tokens: decoded with the tokenizer of the version that sampled
 * them.
 */
import { openExternalFiles } from "../../adapters/checkpoints/external-files.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Outcome, Trajectory } from "../../core/contracts/rollout.ts";
import { ownerOf } from "../../core/contracts/shared-policy.ts";
import type { Store, Tokenizer } from "../../core/ports.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { isOptimizer, isWeights, openCheckpoints } from "../../gpu-workers/checkpoints.ts";
import type { TurnTexts } from "./app-tree.ts";

/** The tokenizer of the version that sampled a branch; undefined if the store has no manifest of it. */
export type TokenizerOf = (branch: Trajectory) => Promise<Tokenizer | undefined>;

/** Opens the tokenizer of each version once: that of a large model takes hundreds of megabytes. */
export function openTokenizers(store: Store, config: Pick<RunConfig, "run" | "agents">): TokenizerOf {
  const opened = new Map<string, Promise<Tokenizer | undefined>>();
  return (branch) => {
    const version = `${ownerOf(config.agents, branch.agent)}/${branch.version}`;
    const tokenizer = opened.get(version) ?? readTokenizer(store, config, branch);
    opened.set(version, tokenizer);
    return tokenizer;
  };
}

/** By branch. Empty unless the outcome has several branches and the store has a manifest of their version. */
export async function readBranchTexts(tokenizerOf: TokenizerOf, outcome: Outcome): Promise<Map<number, TurnTexts>> {
  if (outcome.status === "failed" || !outcome.app || outcome.app.branches.length === 0) return new Map();
  const { trajectory, app } = outcome;
  const branches = [trajectory, ...app.branches].flatMap((branch) => ("actions" in branch ? [branch] : []));
  const tokenizer = branches[0] && (await tokenizerOf(branches[0]));
  return new Map(tokenizer && branches.map((branch, i) => [i, turnsOf(branch, tokenizer)]));
}

function turnsOf({ tokens, actions }: Trajectory, { ends, decode }: Tokenizer): TurnTexts {
  return actions.map(([start, end]) => {
    const sampled = tokens.slice(start, end);
    return decode(ends.includes(sampled.at(-1) ?? Number.NaN) ? sampled.slice(0, -1) : sampled);
  });
}

/** Undefined if the store has no manifest of the version. */
export async function readTokenizer(
  store: Store,
  { run, agents }: Pick<RunConfig, "run" | "agents">,
  branch: Trajectory,
): Promise<Tokenizer | undefined> {
  const checkpoints = openCheckpoints(run, store, openExternalFiles());
  const agent = ownerOf(agents, branch.agent);
  const manifest = await checkpoints.find(agent, branch.version);
  if (!manifest) return undefined;
  // A tokenizer needs neither weights nor Adam's state, and retention may have deleted them.
  const files = Object.entries(manifest.files).filter(([name]) => !isWeights(name) && !isOptimizer(name));
  return openTokenizer(await checkpoints.files({ agent, files: Object.fromEntries(files) }, "inference"));
}
