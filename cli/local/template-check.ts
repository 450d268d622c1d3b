/**
 * @file Whether training supports a model's chat template: it accepts the agent's settings, shows its system message, and only appends as
 * turns are added. Conversations are rendered turn by turn, with one tool in place of the agent's own, before any model runs. A refusal with
 * `prefix-drift` names the first of REMEDIES that would make the template pass, if there is one.
 */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Tokenizer } from "../../core/ports.ts";
import { openChatLayout } from "../../engine/tokenizer/chat-layout.ts";
import { SENTINEL, type ToolDisplay } from "../../engine/tokenizer/tool-display.ts";

/** Conversations to render, as the number of tool responses to each turn. */
const SHAPES: readonly (readonly number[])[] = [[1], [2], [1, 1], [2, 1, 3]];
/** Changes of settings with which a template that is refused with `prefix-drift` may pass, best first. */
const REMEDIES: readonly Partial<TemplateSettings>[] = [
  { thinking: false },
  { thinking: true },
  { toolPrompt: "system" },
  { toolPrompt: "user" },
  { thinking: false, toolPrompt: "user" },
];

export type TemplateSettings = Pick<AgentConfig, "system" | "tools" | "delegates" | "thinking" | "toolPrompt">;

/** @throws MgrpoError `config-invalid` or `prefix-drift`. */
export function checkTemplate(agent: string, settings: TemplateSettings, tokenizer: Tokenizer): ToolDisplay {
  try {
    return renderTurns(agent, settings, tokenizer);
  } catch (error) {
    if (!isMgrpoError(error, "prefix-drift")) throw error;
    const remedy = REMEDIES.find((changed) => passes(agent, { ...settings, ...changed }, tokenizer));
    if (!remedy) throw error;
    const set = Object.entries(remedy).map(([name, value]) => `agents.${agent}.${name} to ${JSON.stringify(value)}`);
    throw new MgrpoError(error.code, `${error.message}; or set ${set.join(" and ")}`, { cause: error });
  }
}

function passes(agent: string, settings: TemplateSettings, tokenizer: Tokenizer): boolean {
  try {
    renderTurns(agent, settings, tokenizer);
    return true;
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    return false;
  }
}

function renderTurns(agent: string, settings: TemplateSettings, tokenizer: Tokenizer): ToolDisplay {
  const { system, thinking, toolPrompt } = settings;
  const callsNothing = settings.tools.length + settings.delegates.length === 0;
  const tools = callsNothing ? [] : [SENTINEL];
  const layout = openChatLayout(tokenizer, { agent, system, thinking, toolPrompt, tools });
  layout.prompt("");
  for (const shape of callsNothing ? [] : SHAPES) {
    layout.responses(
      Array.from({ length: shape.at(-1) ?? 0 }, () => ""),
      shape.slice(0, -1),
    );
  }
  return layout.toolDisplay;
}

/** Notes that the system message describes the tools, if the user did not choose that: the config says `auto`. */
export function noteOnTools(
  agent: string,
  { toolPrompt }: Pick<TemplateSettings, "toolPrompt">,
  display: ToolDisplay,
  note: (message: string) => void,
): void {
  if (toolPrompt !== "auto" || display !== "system") return;
  note(
    `agents.${agent}: its chat template does not show tools, or asks for calls in a form other than <tool_call> JSON, so its system message describes them ` +
      `(if the model learned its tools from demonstrations, set agents.${agent}.toolPrompt to "none")`,
  );
}
