/** @file The tools of tally: `lookup` of a person in the village's ledger, and `calculate`. */
import * as z from "zod";
import { calculate } from "../../adapters/tools/calculate.ts";
import type { Tool } from "../../core/ports.ts";
import { villageAsked } from "./questions.ts";
import { entryOf, pageOf } from "./world.ts";

const lookup: Tool<{ name: string }> = {
  name: "lookup",
  description: "What a person of the village owns.",
  parameters: z.strictObject({ name: z.string() }),
  run: async ({ name }, { question }) => lookedUp(villageAsked(question), name),
};

export const tools: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  ["lookup", lookup],
  ["calculate", calculate],
]);

export function lookedUp(village: number, name: string): string {
  const entry = entryOf(village, name.trim());
  return entry ? pageOf(entry) : "nobody of that name";
}
