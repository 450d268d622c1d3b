/**
 * @file A checkpoint's Jinja chat template, from chat_template.jinja or tokenizer_config.json, rendered by Hugging Face's library.
 *
 * Invariant: a template with an infinite loop blocks its thread only once after it is opened, for the tries that time-limit.ts allows: it is
 * not rendered again, however many conversations need it.
 */
import { Template } from "@huggingface/jinja";
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, Tokenizer } from "../../core/ports.ts";
import { wholeFile } from "../checkpoint/files.ts";
import { TEMPLATE_MILLISECONDS, TimeLimitExceeded, withinMilliseconds } from "./time-limit.ts";
import { damaged, messageOf } from "./vocabulary.ts";

export const CONFIG = "tokenizer_config.json";
export const TEMPLATE_FILE = "chat_template.jinja";
const FIXED_DATE = "{%- macro strftime_now(format) -%}26 Jul 2024{%- endmacro %}";

/** A special token is a string or an added token, which is read as its content. */
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

/** A Jinja comment by which a template declares that its model learned its tools from demonstrations, so that no text describes them. */
const KNOWS_TOOLS = /\{#-?\s*mgrpo: tools learned\b/;

export interface ChatTemplate {
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
  /** Set once a rendering has exceeded the time limit. */
  let refusal: MgrpoError | undefined;
  const render: Tokenizer["render"] = (messages, tools, addGenerationPrompt, thinking) => {
    if (thinking !== undefined && !takesThinking) {
      const fault = `the model's chat_template (${file}) has no enable_thinking to set: remove the setting 'thinking'`;
      throw new MgrpoError("config-invalid", fault);
    }
    if (refusal) throw refusal;
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
      const roles = messages.map(({ role }) => role).join(", ");
      const error = damaged(
        file,
        `chat_template failed on messages with the roles ${roles}: ${messageOf(cause)}`,
        undefined,
        cause,
      );
      if (cause instanceof TimeLimitExceeded) refusal = error;
      throw error;
    }
  };
  return { render, knowsTools: sources.some((source) => KNOWS_TOOLS.test(source)) };
}

function parsed(source: string, file: string, milliseconds: number): Template {
  try {
    // A template that prints today's date would give different tokens every day.
    const dated = source.includes("strftime_now") ? FIXED_DATE + source : source;
    return withinMilliseconds(milliseconds, () => new Template(dated));
  } catch (cause) {
    throw damaged(file, `chat_template cannot be parsed as Jinja: ${messageOf(cause)}`, undefined, cause);
  }
}

/** As in transformers: the template of conversations without tools, then that of conversations with tools, if there is a separate one. */
function templatesIn({ chat_template }: TokenizerConfig): string[] {
  if (!Array.isArray(chat_template)) return [chat_template ?? []].flat();
  return ["default", "tool_use"].flatMap((name) => chat_template.find((entry) => entry.name === name)?.template ?? []);
}

/** Whether the files have a template. An adapter's may leave it to their base. */
export function hasTemplate(files: CheckpointFiles): boolean {
  const config = files.get(CONFIG);
  const inConfig = config
    ? templatesIn(parseJson(TokenizerConfig, wholeFile(config), CONFIG, "tokenizer-damaged"))
    : [];
  return files.has(TEMPLATE_FILE) || inConfig.length > 0;
}
