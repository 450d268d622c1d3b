/** @file The tools of tally: `lookup` of a person in the village's ledger, `survey` of a house, and `calculate`. */
import * as z from "zod";
import { calculate } from "../../adapters/tools/calculate.ts";
import type { Tool } from "../../core/ports.ts";
import { villageAsked } from "./questions.ts";
import { entryOf, housesOf, type LedgerEntry, NAMES, pageOf } from "./world.ts";

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
  return NAMES.includes(name.trim()) ? shown(village, name.trim()) : "nobody of that name";
}

export function surveyed(village: number, house: string): string {
  const isHouse = housesOf(village).some(({ name }) => name === house.trim());
  return isHouse ? shown(village, house.trim()) : "no house of that name";
}

const shown = (village: number, name: string): string => pageOf(entryOf(village, name) as LedgerEntry);
