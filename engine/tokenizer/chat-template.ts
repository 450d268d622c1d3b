/**
 * @file A checkpoint's Jinja chat template, from chat_template.jinja or tokenizer_config.json, rendered by Hugging Face's library.
 *
 * Invariant: once a conversation and a tiny one with the same first roles have both exceeded the time limit, nothing more is rendered. So a
 * template with an infinite loop blocks its thread for these two renderings only, each as long as time-limit.ts allows. A conversation that is
 * merely too long to render is refused alone.
 */
import { Template } from "@huggingface/jinja";
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { errorText, MgrpoError } from "../../core/errors.ts";
import type { ChatMessage, CheckpointFiles, Tokenizer, ToolSchema } from "../../core/ports.ts";
import { wholeFile } from "../checkpoint/files.ts";
import { visitLoopControls } from "./loop-controls.ts";
import { TEMPLATE_MILLISECONDS, TimeLimitExceeded, withinMilliseconds } from "./time-limit.ts";
import { damaged } from "./vocabulary.ts";

export const CONFIG = "tokenizer_config.json";
export const TEMPLATE_FILE = "chat_template.jinja";
const FIXED_DATE = "{%- macro strftime_now(format) -%}26 Jul 2024{%- endmacro %}";

/** A special token: a string, or an added token, of which only the content is kept. */
const SpecialToken = z
  .union([z.string(), z.looseObject({ content: z.string() }).transform(({ content }) => content)])
  .nullish();
export const TokenizerConfig = z.looseObject({
  bos_token: SpecialToken,
  eos_token: SpecialToken,
  pad_token: SpecialToken,
  unk_token: SpecialToken,
  chat_template: z.union([z.string(), z.array(z.looseObject({ name: z.string(), template: z.string() }))]).nullish(),
});
export type TokenizerConfig = z.infer<typeof TokenizerConfig>;

/** A Jinja comment by which a template declares that its model learned its tools from demonstrations, so that prompts need not describe them. */
const KNOWS_TOOLS = /\{#-?\s*mgrpo: tools learned\b/;

/** Limit on the messages of a tiny conversation, and on the roles that an error names. */
const FEW = 10;
const TINY_TOOL: ToolSchema = { type: "function", function: { name: "a", description: "a", parameters: {} } };

export interface ChatTemplate {
  /** The file that has it. */
  readonly file: string;
  readonly render: Tokenizer["render"];
  readonly knowsTools: boolean;
}

/** @param milliseconds limit on parsing the template and on each rendering. */
export function openTemplate(
  files: CheckpointFiles,
  config: TokenizerConfig,
  milliseconds = TEMPLATE_MILLISECONDS,
): ChatTemplate {
  const separate = files.get(TEMPLATE_FILE);
  const file = separate ? TEMPLATE_FILE : CONFIG;
  const sources = separate ? [new TextDecoder().decode(wholeFile(separate))] : templatesIn(config);
  const [plain, withTools = plain] = sources.map((source) => parsed(source, file, milliseconds));
  if (!plain || !withTools) throw damaged(CONFIG, `no chat_template here and no ${TEMPLATE_FILE}: add one of them`);
  const names = Object.fromEntries(
    [
      ["bos_token", config.bos_token],
      ["eos_token", config.eos_token],
      ["pad_token", config.pad_token],
      ["unk_token", config.unk_token],
    ].filter(([, value]) => typeof value === "string"),
  );
  const takesThinking = sources.some((source) => source.includes("enable_thinking"));
  const render: Tokenizer["render"] = (messages, tools, addGenerationPrompt, thinking) => {
    if (thinking !== undefined && !takesThinking) {
      const fault = `the model's chat_template (${file}) has no enable_thinking to set: remove the setting 'thinking'`;
      throw new MgrpoError("config-invalid", fault);
    }
    try {
      const variables = {
        ...names,
        messages,
        tools: tools.length > 0 ? tools : null,
        add_generation_prompt: addGenerationPrompt,
        ...(thinking !== undefined && { enable_thinking: thinking }),
      };
      const template = tools.length > 0 ? withTools : plain;
      return withinMilliseconds(milliseconds, () => template.render(variables));
    } catch (cause) {
      const fault = `chat_template failed on messages with the roles ${rolesOf(messages)}: ${errorText(cause)}`;
      throw damaged(file, fault, undefined, cause);
    }
  };
  return { file, render: refusingLoops(render), knowsTools: sources.some((source) => KNOWS_TOOLS.test(source)) };
}

/** Renders nothing more once a tiny conversation with the same first roles has exceeded the time limit, too. */
function refusingLoops(render: Tokenizer["render"]): Tokenizer["render"] {
  let refusal: unknown;
  return (messages, tools, ...options) => {
    if (refusal) throw refusal;
    try {
      return render(messages, tools, ...options);
    } catch (error) {
      if (!isTooSlow(error)) throw error;
      const tiny = messages.slice(0, FEW).map(({ role }) => ({ role, content: "a" }));
      try {
        render(tiny, tools.length > 0 ? [TINY_TOOL] : [], ...options);
      } catch (fault) {
        if (isTooSlow(fault)) refusal = fault;
      }
      throw error;
    }
  };
}

const isTooSlow = (error: unknown) => error instanceof Error && error.cause instanceof TimeLimitExceeded;

function rolesOf(messages: readonly ChatMessage[]): string {
  const roles = messages.slice(0, FEW).map(({ role }) => role);
  const others = messages.length - roles.length;
  return roles.join(", ") + (others > 0 ? ` and ${others} more` : "");
}

function parsed(source: string, file: string, milliseconds: number): Template {
  const template = parsedAsJinja(source, file, milliseconds);
  visitLoopControls(template.parsed.body, (tag) => {
    const fault = `chat_template has {% ${tag} %} after text of the same iteration, which @huggingface/jinja drops`;
    throw damaged(file, `${fault}: replace the tag with an {% if %} around what follows it`);
  });
  return template;
}

function parsedAsJinja(source: string, file: string, milliseconds: number): Template {
  try {
    // Every line break is \n, as in Python's Jinja: @huggingface/jinja keeps \r\n and does not trim it after a tag.
    const lines = source.replaceAll(/\r\n?/g, "\n");
    // A template that prints today's date would give different tokens every day.
    const dated = lines.includes("strftime_now") ? FIXED_DATE + lines : lines;
    return withinMilliseconds(milliseconds, () => new Template(dated));
  } catch (cause) {
    throw damaged(file, `chat_template cannot be parsed as Jinja: ${errorText(cause)}`, undefined, cause);
  }
}

/** As in transformers: the template of conversations without tools, then that of conversations with tools, if there is a separate one. */
function templatesIn({ chat_template }: TokenizerConfig): string[] {
  if (!Array.isArray(chat_template)) return [chat_template ?? []].flat();
  return ["default", "tool_use"].flatMap((name) => chat_template.find((entry) => entry.name === name)?.template ?? []);
}

/** Whether the files contain a template. An adapter may leave it to its base model. */
export function hasTemplate(files: CheckpointFiles): boolean {
  const config = files.get(CONFIG);
  const inConfig = config
    ? templatesIn(parseJson(TokenizerConfig, wholeFile(config), CONFIG, "tokenizer-damaged"))
    : [];
  return files.has(TEMPLATE_FILE) || inConfig.length > 0;
}
