/** @file The tool `reason`: another model thinks about a problem. It knows nothing of the conversation but what it is told. */
import * as z from "zod";
import { escapeSpecialTokens } from "../../../../core/conversation/special-tokens.ts";
import type { Tool } from "../../../../core/ports.ts";
import { unlessAborted } from "../outside/cache.ts";
import type { Outside } from "../outside/outside.ts";
import { askModel, type ToolModel } from "./model.ts";

const INSTRUCTIONS =
  "Solve the problem step by step, from what it says alone. Be brief, say what is uncertain, and end with the conclusion.";

export function reasonTool(model: ToolModel, outside: Outside): Tool<{ problem: string }> {
  return {
    name: "reason",
    description:
      "Asks a stronger model to think about a problem. It sees only what the problem says: include all facts.",
    parameters: z.strictObject({ problem: z.string().regex(/\S/, "says nothing") }),
    async run({ problem }, context) {
      const refused = context.budget.take(0);
      if (refused) return refused;
      const messages = [
        { role: "system", content: INSTRUCTIONS },
        { role: "user", content: escapeSpecialTokens(problem) },
      ] as const;
      return unlessAborted(askModel("reason", model, messages, outside, context), context.signal);
    },
  };
}
