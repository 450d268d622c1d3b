/**
 * @file The split of look-ups into training and held-out ones. The hash of what a look-up asks for decides its side, so the side is the same in
 * every world and for every seed. Training questions have only training look-ups, held-out questions only held-out ones, and a question with
 * both is never asked. No demonstration has a look-up of a held-out question.
 */
import { stream } from "../../../core/random.ts";
import type { Draft } from "./kinds.ts";
import { type LookUp, taskOf } from "./look-up.ts";

/** The share of look-ups that are held out. Of questions with three look-ups, 0.4³, about 6%, have only held-out ones. */
const HELD_OUT_SHARE = 0.4;

export type Side = "training" | "held-out";

export const isHeldOut = (lookUp: LookUp): boolean =>
  stream("atlas-look-up", lookUpKey(lookUp)).uniform() < HELD_OUT_SHARE;

/** Whether a draft's question can be asked on a side of the split. */
export const isOn =
  (side: Side) =>
  ({ lookUps }: Draft): boolean =>
    lookUps.every((lookUp) => isHeldOut(lookUp) === (side === "held-out"));

/** What a look-up asks for, whatever the order of its conditions. */
export function lookUpKey(lookUp: LookUp): string {
  if (lookUp.ask !== "country") return taskOf(lookUp);
  const where = [...lookUp.where].sort((a, b) => (`${a.field} ${a.value}` < `${b.field} ${b.value}` ? -1 : 1));
  return taskOf({ ...lookUp, where });
}
