/** @file The `calculate` tool: arithmetic by mathjs, and nothing else of what mathjs can do. */
import { evaluate, format } from "mathjs/number";
import * as z from "zod";
import type { Tool } from "../../core/ports.ts";

const LONGEST = 100;
const ARITHMETIC = /^[\d\s.()+*/-]+$/;
const SIGNIFICANT_DIGITS = 12;

export const calculate: Tool<{ expression: string }> = {
  name: "calculate",
  description: "Evaluates an arithmetic expression of numbers, + - * / and parentheses.",
  parameters: z.strictObject({ expression: z.string() }),
  run: async ({ expression }) => calculated(expression),
};

/** The value as text; for what is no arithmetic, a sentence that says so: the agent's mistake, not the tool's. */
export function calculated(expression: string): string {
  if (expression.length > LONGEST || !ARITHMETIC.test(expression)) return "not an arithmetic expression";
  try {
    const value: unknown = evaluate(expression);
    return typeof value === "number" && Number.isFinite(value)
      ? format(value, { precision: SIGNIFICANT_DIGITS, upperExp: SIGNIFICANT_DIGITS })
      : "no finite value";
  } catch {
    // Of such characters mathjs refuses only what is written wrong, `3.*4` (its dotMultiply) among it.
    return "not an arithmetic expression";
  }
}
