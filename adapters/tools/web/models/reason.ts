/** @file The tool `reason`: another model thinks about a problem. It sees only the problem, not the conversation. */
import * as z from "zod";
import { escapeSpecialTokens } from "../../../../core/conversation/special-tokens.ts";
import type { Tool } from "../../../../core/ports.ts";
import { abortable } from "../external/cache.ts";
import type { ExternalCalls } from "../external/calls.ts";
import { callToolModel, maxCostUsdOf, type ToolModel } from "./model.ts";

const INSTRUCTIONS =
  "Solve the problem step by step, from what it says alone. Be brief, say what is uncertain, and end with the conclusion.";

export function reasonTool(model: ToolModel, calls: ExternalCalls): Tool<{ problem: string }> {
  return {
    name: "reason",
    description:
      "Asks a stronger model to think about a problem. It sees only what the problem says: include all facts.",
    parameters: z.strictObject({ problem: z.string().regex(/\S/, "must not be blank") }),
    async run({ problem }, context) {
      const messages = [
        { role: "system", content: INSTRUCTIONS },
        { role: "user", content: escapeSpecialTokens(problem) },
      ] as const;
      const refused = context.budget.charge(0) ?? context.budget.reserve(maxCostUsdOf(model, messages));
      return refused ?? abortable(callToolModel(model, { tool: "reason", messages }, calls, context), context.signal);
    },
  };
}
