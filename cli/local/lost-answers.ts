/** @file The answers that an evaluation lost: its result, if the store has one, and a phrase about them. */
import { objectKeys } from "../../core/contracts/keys.ts";
import { EvaluationResult } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { JobRecord } from "../../core/contracts/records.ts";
import type { Store } from "../../core/ports.ts";
import { counted } from "../terminal/columns.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";

/** The result of an evaluation; undefined if the store has none. */
export async function findResult({ objects }: Store, { run, job }: JobRecord): Promise<EvaluationResult | undefined> {
  const key = objectKeys.evaluation(run, job);
  const bytes = await objects.get(key);
  return bytes && parseJson(EvaluationResult, bytes, key);
}

/** `3 answers lost, not counted (why)`, or `(why; 2 more reasons)`; undefined if none is lost. */
export function describeLosses({ lost, reasons = [] }: Pick<EvaluationResult, "lost" | "reasons">): string | undefined {
  if (lost.length === 0) return undefined;
  const [why = "infrastructure", ...others] = reasons;
  const more = others.length === 0 ? "" : `; ${counted(others.length, "more reason")}`;
  return `${counted(lost.length, "answer")} lost, not counted (${stripControlCharacters(why)}${more})`;
}
