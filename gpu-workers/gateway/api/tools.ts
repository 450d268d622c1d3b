/** @file Tools that a request offers, and settings of its tool calls that are refused. */
import type { OfferedTool } from "../../../core/contracts/app-chat.ts";
import { nameFault, offeredTool, type ToolOffer } from "../../../core/conversation/offered-tool.ts";
import { invalid, unsupported } from "./errors.ts";

/** @param where the parameter, for errors. */
export function requireOfferedTool(offer: ToolOffer, where: string): OfferedTool {
  const tool = offeredTool(offer);
  if (!tool) throw invalid(where, nameFault(offer.name));
  return tool;
}

/** Refuses a `tool_choice` other than "auto" and "none", and `parallel_tool_calls: false`. */
export function refuseForcedCalls(choice: unknown, parallel: boolean | null | undefined): void {
  if (choice != null && choice !== "auto" && choice !== "none") {
    throw unsupported(
      "tool_choice",
      'tool_choice must be "auto" or "none": a forced call is not sampled from the policy',
    );
  }
  if (parallel === false) {
    throw unsupported(
      "parallel_tool_calls",
      "the policy decides how many calls a turn makes: leave parallel_tool_calls out",
    );
  }
}
