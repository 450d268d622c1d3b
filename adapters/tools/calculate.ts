/** @file The tool `calculate`: arithmetic with mathjs, and no other feature of mathjs. */
import { evaluate, format } from "mathjs/number";
import * as z from "zod";
import type { Tool } from "../../core/ports.ts";

const MAX_LENGTH = 100;
const ARITHMETIC = /^[\d\s.()+*/-]+$/;
/** Two lines without an operator between them. Joined by a space, some would become a product, such as `2` and `(3)`. */
const TWO_EXPRESSIONS = /[\d.)]\s*\n\s*[\d.(]/;
const SIGNIFICANT_DIGITS = 12;

/**
 * Evaluates numbers, `+ - * /` and parentheses, at most 100 characters, and returns the value as text with up to 12 significant
 * digits. It never rejects: for anything else, or if the value is not finite, it returns a message for the agent.
 */
export const calculate: Tool<{ expression: string }> = {
  name: "calculate",
  description: "Evaluates an arithmetic expression of numbers, + - * / and parentheses.",
  parameters: z.strictObject({ expression: z.string() }),
  run: async ({ expression }) => calculateText(expression),
};

/** The value as text, or a message that tells the agent what is wrong: an agent's mistake is not a failure of the tool. */
export function calculateText(expression: string): string {
  if (!ARITHMETIC.test(expression)) return "not an arithmetic expression";
  if (expression.length > MAX_LENGTH) return `the expression is longer than ${MAX_LENGTH} characters`;
  if (TWO_EXPRESSIONS.test(expression)) return "not an arithmetic expression";
  try {
    // mathjs treats a line break as the end of an expression.
    const value: unknown = evaluate(expression.replaceAll(/\s+/g, " "));
    if (typeof value !== "number") return "not an arithmetic expression";
    return Number.isFinite(value)
      ? format(value, { precision: SIGNIFICANT_DIGITS, upperExp: SIGNIFICANT_DIGITS })
      : "no finite value";
  } catch {
    // With these characters, mathjs rejects only malformed expressions, and `3.*4` and `3./4`, which it reads as dotMultiply and dotDivide.
    return "not an arithmetic expression";
  }
}
