/**
 * @file The layout of conversations that an app writes (docs/your-own-agents.md): any list of messages, turned into tokens so that what the
 * model sampled stays as it was. Only new messages are encoded.
 *
 *     opening       [ template, messages ] [ assistant header ]                        a conversation before its first sample
 *     continuation  … SAMPLED [ template, new messages ] [ assistant header ]          after a turn of the model
 */
import type { AppMessage } from "../../core/contracts/app-chat.ts";
import { escapeSpecialTokens } from "../../core/conversation/special-tokens.ts";
import { responsesAsText, withTools } from "../../core/conversation/tool-prompt.ts";
import type { ChatMessage, Tokenizer, ToolSchema } from "../../core/ports.ts";
import { cachedPieces, fill, piecesOf, placeholder, tailText } from "./template-pieces.ts";
import { type ChatSettings, hasToolRole, type ToolDisplay, toolDisplayOf } from "./tool-display.ts";

export interface MessageLayout {
  /** Tools as the model sees them; empty if nothing shows them. */
  readonly shownTools: readonly ToolSchema[];
  /** Tokens before the first sampled one. */
  opening(messages: readonly AppMessage[]): number[];
  /**
   * Tokens between a sampled turn and the next one.
   * @param before the messages before the sampled turn. @param added the messages after it.
   */
  continuation(before: readonly AppMessage[], added: readonly AppMessage[]): number[];
}

/** How to write an assistant's calls whose sampled tokens are unknown. */
export interface CallsOptions {
  /**
   * As the model samples them: with tokens that span the protocol's tags and the JSON, if the tokenizer has any. Each
   * call's JSON is then part of the conversation's shape, so a layout that is kept would cache shapes that hardly recur.
   * Absent: the JSON is data, tokenized separately from its tags.
   */
  readonly asSampled?: boolean;
}

/** The layout's methods throw `tokenizer-damaged` if the template refuses the order of the messages, `prefix-drift` if it rewrites, drops or repeats one. */
export function openMessageLayout(
  tokenizer: Tokenizer,
  settings: ChatSettings,
  { asSampled = false }: CallsOptions = {},
): MessageLayout {
  const { agent, tools, thinking } = settings;
  const display = toolDisplayOf(tokenizer, settings);
  const inTemplate = display === "template" ? tools : [];
  const asToolRole = display !== "system" && display !== "user" && hasToolRole(tokenizer, settings, inTemplate);
  const describe = (content: string) => withTools(content, tools);
  const isInline = (json: string) => asSampled && hasNoControlToken(tokenizer, json);
  const write = (messages: readonly AppMessage[]) => {
    const written = writtenMessages(messages, asToolRole, "m", isInline);
    return { ...written, shape: withToolsShown(written.shape, display, describe) };
  };
  const render = (messages: readonly ChatMessage[]) => tokenizer.render(messages, inTemplate, true, thinking);
  const cached = cachedPieces();
  return {
    shownTools: display === "none" ? [] : tools,
    opening(messages) {
      const { shape, contents } = write(messages);
      const pieces = () => piecesOf(tokenizer, agent, render(shape), [...contents.keys()]);
      return fill(tokenizer, cached(keyOf(shape), pieces), [...contents.values()]);
    },
    continuation(before, added) {
      const opened = write(before);
      const turn: ChatMessage = { role: "assistant", content: placeholder("turn") };
      const rest = writtenMessages(added, asToolRole, "n", isInline);
      const pieces = () => {
        const after = render([...opened.shape, turn, ...rest.shape]);
        const tail = tailText(tokenizer, agent, render(opened.shape), after, "turn");
        return piecesOf(tokenizer, agent, tail, [...rest.contents.keys()]);
      };
      const key = keyOf([...opened.shape, turn, ...rest.shape]);
      return fill(tokenizer, cached(key, pieces), [...rest.contents.values()]);
    },
  };
}

const keyOf = (shape: readonly ChatMessage[]) => JSON.stringify(shape);

interface WrittenMessages {
  /** Messages whose content is a placeholder, or template text around placeholders. */
  readonly shape: ChatMessage[];
  /** What each placeholder stands for, in order. */
  readonly contents: Map<string, string>;
}

/**
 * An app's text is data to the tokenizer: it cannot become a control token. Tool responses come from anywhere, so the protocol's tags
 * in them are escaped too. @param name begins the names of the placeholders. @param isInline whether a call's JSON is part of the template.
 */
function writtenMessages(
  messages: readonly AppMessage[],
  asToolRole: boolean,
  name: string,
  isInline: (json: string) => boolean,
): WrittenMessages {
  const written: WrittenMessages = { shape: [], contents: new Map() };
  const placeholderFor = (content: string) => {
    const id = `${name}-${written.contents.size}`;
    written.contents.set(id, content);
    return placeholder(id);
  };
  /** Without `asToolRole`, consecutive tool responses become one user message. */
  let responses: string[] = [];
  const flush = () => {
    if (responses.length > 0) written.shape.push({ role: "user", content: responsesAsText(responses) });
    responses = [];
  };
  for (const message of messages) {
    const content =
      message.role === "tool"
        ? placeholderFor(escapeSpecialTokens(message.text))
        : contentOf(message, placeholderFor, isInline);
    if (message.role === "tool" && !asToolRole) {
      responses.push(content);
    } else {
      flush();
      written.shape.push({ role: message.role, content });
    }
  }
  flush();
  return written;
}

/** The calls of an assistant's message that this model did not sample are written in the format of its own calls. */
function contentOf(
  message: Exclude<AppMessage, { role: "tool" }>,
  placeholderFor: (content: string) => string,
  isInline: (json: string) => boolean,
): string {
  const calls = message.role === "assistant" ? message.calls : [];
  const text = message.text === "" && calls.length > 0 ? [] : [placeholderFor(message.text)];
  const written = calls.map((call) => {
    const json = `{"name": ${JSON.stringify(call.name)}, "arguments": ${call.arguments}}`.replaceAll("<", "\\u003c");
    return `<tool_call>\n${isInline(json) ? json : placeholderFor(json)}\n</tool_call>`;
  });
  return [...text, ...written].join("\n");
}

/** Text with a control token encodes differently as template and as data. Placeholder characters are excluded too. */
function hasNoControlToken({ encodeText, encodeTemplate }: Tokenizer, text: string): boolean {
  const asTemplate = encodeTemplate(text);
  const asText = encodeText(text);
  const isSame = asTemplate.length === asText.length && asTemplate.every((token, i) => token === asText[i]);
  return isSame && !/[\uE000\uE001]/.test(text);
}

/**
 * Describes the tools in the system message, or, with the system text, at the head of the first user message: as in rollouts
 * (chat-layout.ts). Without a user message, they become one.
 */
function withToolsShown(
  shape: readonly ChatMessage[],
  display: ToolDisplay,
  describe: (content: string) => string,
): ChatMessage[] {
  if (display !== "system" && display !== "user") return [...shape];
  const [first] = shape;
  const own = first?.role === "system" ? first.content : "";
  const rest = first?.role === "system" ? shape.slice(1) : shape;
  if (display === "system") return [{ role: "system", content: describe(own) }, ...rest];
  const lead = describe(own);
  if (lead === "") return [...rest];
  const at = rest.findIndex(({ role }) => role === "user");
  if (at === -1) return [{ role: "user", content: lead }, ...rest];
  return rest.map((message, i) => (i === at ? { ...message, content: `${lead}\n\n${message.content}` } : message));
}
