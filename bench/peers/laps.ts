/**
 * @file How a side of the comparison answers. A side is a process that opens its model once, does one lap of the work
 * for each line on its stdin, answers with one line of JSON, and exits when its stdin closes. Between laps it only
 * waits: all sides stay open while they alternate (alternate.ts).
 */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { Work } from "./work.ts";

/** The result of one lap. trl_step.py writes it too. */
export const Lap = z.strictObject({
  seconds: z.number().positive(),
  /** The part of `seconds` that sampling took; the rest counts as training. */
  samplingSeconds: z.number().positive(),
  sampledTokens: z.int().positive(),
  /** Mean entropy of a sampled token's distribution in nats: measured by TRL, estimated from log-probs by us. Null: unknown. */
  entropy: z.number().nullable(),
});
export type Lap = z.infer<typeof Lap>;

export async function answerLaps(measure: (lap: number) => Promise<Lap>): Promise<void> {
  let lap = 0;
  for await (const _request of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await measure(lap++)));
  }
}

export const readWork = (path: string): Work => parseJson(Work, readFileSync(path), path);
