/**
 * @file The tools, loaded by workers. A tool throws if its backend fails, and the rollout is retried. If the agent makes a mistake, the tool
 * returns a text that the agent can read.
 */
import type { Tool } from "mgrpo/recipe";
import * as z from "zod";
import { villageAsked } from "./questions.ts";
import { FIELDS, villageOf } from "./world.ts";

const lookup: Tool<{ name: string }> = {
  name: "lookup",
  description: "What is known of a person of the village.",
  parameters: z.strictObject({ name: z.string() }),
  run: async ({ name }, { question }) => lookedUp(villageAsked(question), name),
};

export const tools: ReadonlyMap<string, Tool> = new Map([[lookup.name, lookup]]);

export function lookedUp(village: number, name: string): string {
  const person = villageOf(village).get(name.trim());
  return person ? FIELDS.map((field) => `${field}: ${person[field]}`).join("\n") : "nobody of that name";
}
