/**
 * @file Where an agent's words and everybody else's stand in its token stream. The chat template is rendered once per shape of a
 * conversation with placeholders for all content; the text between them is the template's own (`encodeTemplate`), what replaces them is data
 * (`encodeText`). So data can never act as template, and sampled tokens are never decoded and encoded again: after a turn
 * only the *tail* that the template adds for the responses is appended.
 *
 *     [ system, tools, user header ] question [ assistant header ] SAMPLED [ tool header ] response [ … ] response [ assistant header ] SAMPLED
 */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import { escapeSpecialTokens } from "../../core/conversation/markers.ts";
import { openToolbox, type Toolbox } from "../../core/conversation/toolbox.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { ChatMessage, Tokenizer, Tool } from "../../core/ports.ts";

export interface Layout {
  readonly toolbox: Toolbox;
  /** Tokens up to the first word the agent says. */
  prompt(question: string): number[];
  /**
   * Tokens between the end of a turn and the first word of the next one.
   * @param earlier how many responses each turn before this one got.
   */
  responses(texts: readonly string[], earlier: readonly number[]): number[];
}

/** Private-use characters: no template looks for them, and no text that is rendered holds them. */
const placeholder = (name: string) => `\uE000${name}\uE001`;
const PLACEHOLDER = /\uE000[a-z0-9-]+\uE001/;
/** What a template opens a turn with to turn thinking on or off, and leaves out of turns that are over. The tokens keep it. */
const OPENED_THOUGHT = /<think>\s*(?:<\/think>\s*)?$/;

type Settings = Pick<AgentConfig, "system" | "tools" | "delegates" | "thinking">;

export function openLayout(
  agent: string,
  config: Settings,
  tokenizer: Tokenizer,
  tools: ReadonlyMap<string, Tool>,
): Layout {
  const toolbox = openToolbox(agent, config, tools);
  const endOfTurn = tokenizer.decode([tokenizer.endOfTurn]);

  const opening: ChatMessage[] = [
    ...(config.system === "" ? [] : [{ role: "system", content: config.system } as const]),
    { role: "user", content: placeholder("user") },
  ];
  const messages = (shape: readonly number[]): ChatMessage[] => [
    ...opening,
    ...shape.flatMap((responses, turn): ChatMessage[] => [
      { role: "assistant", content: placeholder(`turn-${turn}`) },
      ...Array.from(
        { length: responses },
        (_, i) => ({ role: "tool", content: placeholder(`turn-${turn}-${i}`) }) as const,
      ),
    ]),
  ];
  const render = (shape: readonly number[]) =>
    tokenizer.render(messages(shape), toolbox.schemas, true, config.thinking);

  const pieces = (text: string) => text.split(PLACEHOLDER).map((piece) => tokenizer.encodeTemplate(piece));
  const fill = (templates: readonly (readonly number[])[], data: readonly string[]) => {
    const tokens: number[] = [];
    for (const [i, piece] of templates.entries()) {
      for (const token of piece) tokens.push(token);
      for (const token of tokenizer.encodeText(escapeSpecialTokens(data[i] ?? ""))) tokens.push(token);
    }
    return tokens;
  };

  const tails = new Map<string, number[][]>();
  const tail = (shape: readonly number[]) => {
    const key = shape.join();
    const known = tails.get(key);
    if (known) return known;
    const opened = render(shape.slice(0, -1));
    const after = render(shape);
    const before = after.startsWith(opened) ? opened : opened.replace(OPENED_THOUGHT, "");
    // Space that the template puts before an assistant's words is the agent's to say.
    const space = /^\s*/.exec(after.slice(before.length))?.[0] ?? "";
    const said = before + space + placeholder(`turn-${shape.length - 1}`) + endOfTurn;
    if (!after.startsWith(said)) throw drift(agent, said, after);
    const made = checked(agent, after.slice(said.length), shape.at(-1) ?? 0, pieces);
    tails.set(key, made);
    return made;
  };

  const head = checked(agent, render([]), 1, pieces);
  return {
    toolbox,
    prompt: (question) => fill(head, [question]),
    responses: (texts, earlier) => fill(tail([...earlier, texts.length]), texts),
  };
}

/** The same layout for every conversation of an agent: rendering its template costs more than a short turn. */
export const layoutOf = ((): typeof openLayout => {
  const known = new WeakMap<Tokenizer, WeakMap<Settings, WeakMap<ReadonlyMap<string, Tool>, Layout>>>();
  return (agent, config, tokenizer, tools) => {
    const byConfig = known.get(tokenizer) ?? new WeakMap<Settings, WeakMap<ReadonlyMap<string, Tool>, Layout>>();
    const byTools = byConfig.get(config) ?? new WeakMap<ReadonlyMap<string, Tool>, Layout>();
    const layout = byTools.get(tools) ?? openLayout(agent, config, tokenizer, tools);
    known.set(tokenizer, byConfig.set(config, byTools.set(tools, layout)));
    return layout;
  };
})();

/** A template must write each content once, in order. */
function checked(agent: string, text: string, contents: number, pieces: (text: string) => number[][]): number[][] {
  const found = text.split(PLACEHOLDER).length - 1;
  if (found === contents) return pieces(text);
  throw new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template writes ${contents} messages' content ${found} times: use a template that writes each once`,
    { evidence: text },
  );
}

function drift(agent: string, said: string, after: string): MgrpoError {
  const at = said.split("").findIndex((unit, i) => unit !== after[i]);
  return new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template changes what was said before when a turn is added (from character ${at}: ` +
      `${JSON.stringify(said.slice(at, at + 30))} became ${JSON.stringify(after.slice(at, at + 30))}): ` +
      "tokens as sampled would not be its prefix; use a template that only appends",
    { evidence: { said, after } },
  );
}
