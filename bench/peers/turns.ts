/**
 * @file How the sides take turns. Each is a process that opens its model once, does one piece of work for each line on its stdin, answers with one line
 * of JSON, and ends with its stdin. Between turns it only waits, so all sides stay open while they alternate.
 */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { Work } from "./work.ts";

/** What one turn took. trl_step.py writes it too. */
export const Turn = z.strictObject({
  seconds: z.number().positive(),
  /** Of them, until the last token was sampled; what is left is training. */
  samplingSeconds: z.number().positive(),
  sampledTokens: z.int().positive(),
  /** Mean entropy of a sampled token's distribution in nats, measured or estimated from what was sampled: all sides sample from one model. Null: unknown. */
  entropy: z.number().nullable(),
});
export type Turn = z.infer<typeof Turn>;

export async function answerTurns(measure: (turn: number) => Promise<Turn>): Promise<void> {
  let turn = 0;
  for await (const _request of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await measure(turn++)));
  }
}

export const readWork = (path: string): Work => parseJson(Work, readFileSync(path), path);
