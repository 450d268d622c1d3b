/** @file One trajectory token by token, decoded with the tokenizer of the version that sampled it. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { ownerOf } from "../../core/contracts/shared-policy.ts";
import { trajectoryName } from "../../core/contracts/telemetry.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store, Tokenizer } from "../../core/ports.ts";
import { readTrainedTokens } from "../../engine/trained-tokens.ts";
import type { TokenView } from "../../ui/views.ts";
import { readRollout, type StoredRollout } from "../conversations.ts";
import { readTokenizer } from "../show/branch-texts.ts";
import type { Source } from "../show/source.ts";

export interface TrajectoryAddress {
  readonly step: number;
  readonly group: number;
  readonly rollout: number;
  /** `main`, `main/<branch>`, or an invocation's id. */
  readonly trajectory: string;
}

export async function tokenView(source: Source, { trajectory, ...address }: TrajectoryAddress): Promise<TokenView> {
  const { run } = source.config;
  return source.read(async (store) => {
    const stored = await readRollout(store, { run, phase: "train", ...address });
    const found = stored && trajectoryOf(stored, trajectory);
    if (!found) throw new MgrpoError("not-found", `the rollout has no tokens of '${trajectory}'`);
    const tokenizer = await readTokenizer(store, source.config, found);
    if (!tokenizer) {
      const version = `${found.agent} version ${found.version}`;
      throw new MgrpoError("not-found", `no manifest of ${version} in the store, so its tokenizer is unknown`);
    }
    const { agent, version, actions, logProbs } = found;
    const trained = await readTrained(store, source.config, found, { ...address, trajectory });
    return { agent, version, tokens: textsOf(found.tokens, tokenizer), actions, logProbs, trained };
  });
}

/** What the trainer stored about the trajectory; null if it stored nothing. */
async function readTrained(
  { objects }: Store,
  { run, agents }: RunConfig,
  { agent }: Trajectory,
  { step, group, rollout, trajectory }: TrajectoryAddress,
): Promise<TokenView["trained"]> {
  const key = objectKeys.trainedTokens(run, step, ownerOf(agents, agent));
  const bytes = await objects.get(key);
  const [, isMain, branch = "0"] = /^(main)(?:\/(\d+))?$/.exec(trajectory) ?? [];
  const name = trajectoryName(group, isMain ? rollout : trajectory, Number(branch));
  const found = bytes && readTrainedTokens(bytes, name, key);
  return found ? { logProbs: [...found.logProbs_A], clipped: [...found.clipped] } : null;
}

function trajectoryOf({ outcome, invocations }: StoredRollout, wanted: string): Trajectory | undefined {
  if (outcome.status === "failed") return undefined;
  const [, branch] = /^main\/(\d+)$/.exec(wanted) ?? [];
  const found =
    wanted === "main"
      ? outcome.trajectory
      : branch !== undefined
        ? outcome.app?.branches[Number(branch) - 1]
        : invocations.get(wanted)?.trajectory;
  return found && "tokens" in found ? found : undefined;
}

/** Decoding the whole prefix for each token would take quadratic time, so a window is decoded. A longer one is cut to its last MAX_UNFINISHED_TOKENS. */
const WINDOW_TOKENS = 8;

/**
 * A character has at most four bytes in UTF-8, and a token at least one: at most three tokens end before the character
 * does. Decoding them with the tokens after them also keeps the space before a word.
 */
const MAX_UNFINISHED_TOKENS = 3;

/**
 * The text that each token adds. A character of several tokens belongs to the last of them: until then, its bytes are decoded as one U+FFFD at
 * the end. The U+FFFD of bytes that form no character belongs to the token that reveals this, or to the trajectory's last token.
 */
export function textsOf(tokens: readonly number[], { decode }: Pick<Tokenizer, "decode">): string[] {
  let start = 0;
  /** Characters of the window's text that earlier tokens have added. */
  let added = 0;
  return tokens.map((_, i) => {
    const text = decode(tokens.slice(start, i + 1));
    const mayBeUnfinished = text.endsWith("\uFFFD") && i < tokens.length - 1;
    const end = mayBeUnfinished ? text.length - 1 : text.length;
    const own = text.slice(added, end);
    added = end;
    if (i - start < WINDOW_TOKENS) return own;
    // The next window includes the tokens of an unfinished character, so that its text ends the same way.
    start = i + 1 - MAX_UNFINISHED_TOKENS;
    // The tokens so far have added all of the new window's text except the unfinished character.
    added = decode(tokens.slice(start, i + 1)).length - (text.length - end);
    return own;
  });
}
