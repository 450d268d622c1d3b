/**
 * @file Which look-ups are held out. A look-up is on one side of the split by the hash of what it asks for, in every world and for every seed:
 * training questions consist only of look-ups of the training side, held-out questions only of held-out ones, and no demonstration has a look-up
 * of a held-out question. A question with look-ups of both sides is never asked.
 */
import { stream } from "../../../core/random.ts";
import type { Draft } from "./kinds.ts";
import { type LookUp, taskOf } from "./look-up.ts";

/** Large enough for questions whose three look-ups are all held out. */
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
