/**
 * @file Bounds on recorded data, so that every record fits in a DynamoDB item. Names and ids are bounded by their schemas; all other text
 * is bounded here: cut where it is written and where it is parsed, or refused if it cannot be cut.
 */
import * as z from "zod";

/** Maximum bytes of a DynamoDB item: a hard limit, which AWS does not raise on request. */
export const ITEM_BYTES = 400 * 1024;

/** Maximum bytes of a request to run an invocation. */
export const REQUEST_BYTES = 1 << 20;

/** Maximum bytes of the task in such a request, as JSON. It leaves ample room for the rest: a few names and numbers. */
export const TASK_BYTES = REQUEST_BYTES - 64 * 1024;

/** Maximum UTF-8 bytes of a recorded reason. */
export const REASON_BYTES = 1000;

/** Bytes at the start and the end of a reason that are kept when its middle is cut. The end often says what to do. */
const [HEAD_BYTES, TAIL_BYTES] = [650, 250];

/** The text itself, or its start and end if it is longer than `REASON_BYTES`. Tools, servers and judges write texts of any length. */
export function boundReason(text: string): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= REASON_BYTES) return text;
  const decode = (part: Uint8Array) => new TextDecoder().decode(part).replaceAll("\ufffd", "");
  const cut = bytes.length - HEAD_BYTES - TAIL_BYTES;
  return `${decode(bytes.subarray(0, HEAD_BYTES))} … (${cut} bytes left out) … ${decode(bytes.subarray(-TAIL_BYTES))}`;
}

/** Why something failed or ended. A longer text is cut when it is parsed. */
export const Reason = z.string().overwrite(boundReason);

/** Text that cannot be cut, such as a URL. */
export const RecordedText = z.string().max(1000);

/** Bytes of a GROUP without its rollouts. */
const GROUP_BYTES = 2048;
/** Bytes of a rollout in its GROUP: claim, crashes, score or reason, and its entry in the main agent's batch. */
const ROLLOUT_BYTES = 1500;
/** Bytes of a scored invocation, and its entry in a sub-agent's batch. */
const INVOCATION_BYTES = 150;

/** Bytes of the reward and the advantage of a turn. */
const TURN_BYTES = 30;

/** Maximum number of rewarded turns of the main agent, and of one invocation. 0 where `turnWeight` is 0. */
export interface RewardedTurns {
  readonly main: number;
  readonly sub: number;
}

/** The smallest K: rewards are compared within a group. */
export const MIN_ROLLOUTS_PER_QUESTION = 2;

/** The largest K whose GROUP record fits in an item. `invocations`: the maximum per rollout. */
export function maxRolloutsPerQuestion(invocations: number, turns: RewardedTurns = { main: 0, sub: 0 }): number {
  const perInvocation = INVOCATION_BYTES + turns.sub * TURN_BYTES;
  return Math.floor(
    (ITEM_BYTES - GROUP_BYTES) / (ROLLOUT_BYTES + turns.main * TURN_BYTES + invocations * perInvocation),
  );
}

/** Maximum number of question ids in a STEP record. */
export const MAX_QUESTIONS_PER_STEP = 4000;
