/** @file The tools of tally: `lookup` of a person in the village's ledger, `survey` of a house, and `calculate`. */
import * as z from "zod";
import { calculate } from "../../adapters/tools/calculate.ts";
import type { Tool } from "../../core/ports.ts";
import { villageAsked } from "./questions.ts";
import { houseEntry, pageOf, personEntry } from "./world.ts";

const lookup: Tool<{ name: string }> = {
  name: "lookup",
  description: "What a person of the village owns.",
  parameters: z.strictObject({ name: z.string() }),
  run: async ({ name }, { question }) => lookedUp(villageAsked(question), name),
};

const survey: Tool<{ house: string }> = {
  name: "survey",
  description: "What the people of a house own together.",
  parameters: z.strictObject({ house: z.string() }),
  run: async ({ house }, { question }) => surveyed(villageAsked(question), house),
};

export const tools: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  ["lookup", lookup],
  ["survey", survey],
  ["calculate", calculate],
]);

export function lookedUp(village: number, name: string): string {
  const entry = personEntry(village, name.trim());
  return entry ? pageOf(entry) : "nobody of that name";
}

export function surveyed(village: number, house: string): string {
  const entry = houseEntry(village, house.trim());
  return entry ? pageOf(entry) : "no house of that name";
}
