/**
 * @file Which tokens of a conversation the chat template writes, and where everything else goes. The template is rendered once per shape of
 * conversation, with placeholders for all content. The text between placeholders is the template's own (`encodeTemplate`); what replaces
 * them is data (`encodeText`). So data never acts as template, and sampled tokens are never decoded and encoded again: after a turn only
 * the *tail* that the template adds for the responses is appended.
 *
 *     [ system, tools, user header ] question [ assistant header ] SAMPLED [ tool header ] response [ … ] response [ assistant header ] SAMPLED
 */
import type { AgentConfig } from "../../core/contracts/config.ts";
import { escapeSpecialTokens } from "../../core/conversation/special-tokens.ts";
import { openToolbox, type Toolbox } from "../../core/conversation/toolbox.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { ChatMessage, Tokenizer, Tool } from "../../core/ports.ts";

export interface ChatLayout {
  readonly toolbox: Toolbox;
  /** Tokens before the first turn. */
  prompt(question: string): number[];
  /**
   * Tokens between the end of a turn and the start of the next.
   * @param earlier number of responses to each turn before this one.
   */
  responses(texts: readonly string[], earlier: readonly number[]): number[];
}

/** Number of responses to each turn. */
type Shape = readonly number[];

/** Private-use characters, which no template treats specially and no rendered text contains. */
const placeholder = (name: string) => `\uE000${name}\uE001`;
const PLACEHOLDER = /\uE000[a-z0-9-]+\uE001/;
/** With thinking set, a template opens the current turn with this and leaves it out of past turns. The tokens keep it. */
const OPENED_THOUGHT = /<think>\s*(?:<\/think>\s*)?$/;

type Settings = Pick<AgentConfig, "system" | "tools" | "delegates" | "thinking">;

export function openChatLayout(
  agent: string,
  config: Settings,
  tokenizer: Tokenizer,
  tools: ReadonlyMap<string, Tool>,
): ChatLayout {
  const toolbox = openToolbox(agent, config, tools);
  const endOfTurn = tokenizer.decode([tokenizer.endOfTurn]);
  const render = (shape: Shape) =>
    tokenizer.render(messagesOf(config.system, shape), toolbox.schemas, true, config.thinking);
  const encode = (text: string, contents: number) =>
    splitAtContents(agent, text, contents).map((piece) => tokenizer.encodeTemplate(piece));

  const head = encode(render([]), 1);
  const tails = new Map<string, number[][]>();
  const tail = (shape: Shape) => {
    const key = shape.join();
    const known = tails.get(key);
    if (known) return known;
    const text = tailText(agent, shape, render, endOfTurn);
    const encoded = encode(text, shape.at(-1) ?? 0);
    tails.set(key, encoded);
    return encoded;
  };

  return {
    toolbox,
    prompt: (question) => fill(tokenizer, head, [question]),
    responses: (texts, earlier) => fill(tokenizer, tail([...earlier, texts.length]), texts),
  };
}

/** The layout of an agent, shared by all its conversations: rendering its template costs more than a short turn. */
export const chatLayoutOf = ((): typeof openChatLayout => {
  const known = new WeakMap<Tokenizer, WeakMap<Settings, WeakMap<ReadonlyMap<string, Tool>, ChatLayout>>>();
  return (agent, config, tokenizer, tools) => {
    const byConfig = known.get(tokenizer) ?? new WeakMap<Settings, WeakMap<ReadonlyMap<string, Tool>, ChatLayout>>();
    const byTools = byConfig.get(config) ?? new WeakMap<ReadonlyMap<string, Tool>, ChatLayout>();
    const layout = byTools.get(tools) ?? openChatLayout(agent, config, tokenizer, tools);
    known.set(tokenizer, byConfig.set(config, byTools.set(tools, layout)));
    return layout;
  };
})();

/** A conversation of this shape, with a placeholder for each content but the system message. */
function messagesOf(system: string, shape: Shape): ChatMessage[] {
  const opening: ChatMessage[] = system === "" ? [] : [{ role: "system", content: system }];
  return [
    ...opening,
    { role: "user", content: placeholder("user") },
    ...shape.flatMap((responses, turn): ChatMessage[] => [
      { role: "assistant", content: placeholder(`turn-${turn}`) },
      ...Array.from(
        { length: responses },
        (_, i): ChatMessage => ({ role: "tool", content: placeholder(`turn-${turn}-${i}`) }),
      ),
    ]),
  ];
}

/** What the template writes after the last turn of the shape, up to the start of the next. */
function tailText(agent: string, shape: Shape, render: (shape: Shape) => string, endOfTurn: string): string {
  const opened = render(shape.slice(0, -1));
  const after = render(shape);
  const before = after.startsWith(opened) ? opened : opened.replace(OPENED_THOUGHT, "");
  // Space that the template writes before an assistant's content: the agent samples it itself.
  const space = /^\s*/.exec(after.slice(before.length))?.[0] ?? "";
  const prefix = before + space + placeholder(`turn-${shape.length - 1}`) + endOfTurn;
  if (!after.startsWith(prefix)) throw drift(agent, prefix, after);
  return after.slice(prefix.length);
}

function fill(tokenizer: Tokenizer, template: readonly (readonly number[])[], contents: readonly string[]): number[] {
  const tokens: number[] = [];
  for (const [i, piece] of template.entries()) {
    for (const token of piece) tokens.push(token);
    for (const token of tokenizer.encodeText(escapeSpecialTokens(contents[i] ?? ""))) tokens.push(token);
  }
  return tokens;
}

/** The text between placeholders. A template must write each content once, in order. */
function splitAtContents(agent: string, text: string, contents: number): string[] {
  const pieces = text.split(PLACEHOLDER);
  const found = pieces.length - 1;
  if (found === contents) return pieces;
  throw new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template writes ${contents} messages' content ${found} times: use a template that writes each once`,
    { evidence: text },
  );
}

function drift(agent: string, before: string, after: string): MgrpoError {
  const at = before.split("").findIndex((unit, i) => unit !== after[i]);
  return new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template rewrites earlier messages when a turn is added (from character ${at}: ` +
      `${JSON.stringify(before.slice(at, at + 30))} became ${JSON.stringify(after.slice(at, at + 30))}): ` +
      "the sampled tokens would not be a prefix of the conversation; use a template that only appends",
    { evidence: { before, after } },
  );
}
