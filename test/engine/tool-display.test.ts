/** @file Where a model's tools are described: by its template, in the system message, in the first user message or nowhere; what is refused. */
import { describe, expect, test } from "vitest";
import type { ToolPrompt } from "../../core/contracts/agent-config.ts";
import { withTools } from "../../core/conversation/tool-prompt.ts";
import type { ToolSchema } from "../../core/ports.ts";
import { openChatLayout } from "../../engine/tokenizer/chat-layout.ts";
import { openMessageLayout } from "../../engine/tokenizer/message-layout.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { bpeFiles, QWEN_TEMPLATE, TERSE_TEMPLATE, withFile } from "../fixtures/tokenizers.ts";

const search: ToolSchema = {
  type: "function",
  function: { name: "search", description: "Finds pages.", parameters: { type: "object", properties: {} } },
};
const LEARNED = `{#- mgrpo: tools learned -#}\n${TERSE_TEMPLATE}`;
/** Shows the tools, but asks for calls in Llama 3's format. */
const OTHER_FORMAT = `{%- if tools %}{{- '<|im_start|>system ' + (tools | tojson) + ' Respond with {"name": ..., "parameters": ...}<|im_end|>' }}{%- endif %}${TERSE_TEMPLATE}`;

function layoutOf(template: string, settings: { system?: string; toolPrompt?: ToolPrompt; tools?: ToolSchema[] } = {}) {
  const tokenizer = openTokenizer(bpeFiles(template));
  const layout = openChatLayout(tokenizer, { agent: "a", system: "Be brief.", tools: [search], ...settings });
  const turn = [...tokenizer.encodeTemplate("search"), tokenizer.endOfTurn];
  const tokens = [...layout.prompt("Where?"), ...turn, ...layout.responses(["here", "there"], [])];
  return { ...layout, text: tokenizer.decode(tokens) };
}

describe("auto", () => {
  test("a template that shows tools, and calls in the parser's format, describes them", () => {
    const { toolDisplay, text } = layoutOf(QWEN_TEMPLATE);
    expect(toolDisplay).toBe("template");
    expect(text.split('"search"')).toHaveLength(2);
    expect(text).not.toContain(withTools("", [search]));
  });

  test.each([
    ["shows no tools", TERSE_TEMPLATE],
    ["asks for calls in another format", OTHER_FORMAT],
    ["raises when given tools", `{%- if tools %}{{- raise_exception('no tools') }}{%- endif %}${TERSE_TEMPLATE}`],
  ])("if a template %s, the system message describes the tools, and responses are a user message", (_, template) => {
    const { toolDisplay, text } = layoutOf(template);
    expect(toolDisplay).toBe("system");
    expect(text).toBe(
      `<|im_start|>system ${withTools("Be brief.", [search])}<|im_end|><|im_start|>user Where?<|im_end|>` +
        "<|im_start|>assistant search<|im_end|><|im_start|>user <tool_response>\nhere\n</tool_response>\n" +
        "<tool_response>\nthere\n</tool_response><|im_end|><|im_start|>assistant ",
    );
  });

  test("a call in the agent's own system message does not count as the template's format", () => {
    const system = 'An example: <tool_call>{"name": "search", "arguments": {}}</tool_call>';
    expect(layoutOf(OTHER_FORMAT, { system }).toolDisplay).toBe("system");
    expect(layoutOf(QWEN_TEMPLATE, { system }).toolDisplay).toBe("template");
  });

  test("for an agent without a system message, the description is the system message", () => {
    const { text } = layoutOf(TERSE_TEMPLATE, { system: "" });
    expect(text).toContain(`<|im_start|>system ${withTools("", [search])}<|im_end|>`);
  });

  test("a template whose model has learned its tools, and an agent without tools, get no description", () => {
    const bare =
      "<|im_start|>system Be brief.<|im_end|><|im_start|>user Where?<|im_end|><|im_start|>assistant search<|im_end|>" +
      "<tool_response>here</tool_response><tool_response>there</tool_response><|im_start|>assistant ";
    expect(layoutOf(LEARNED)).toMatchObject({ toolDisplay: "none", text: bare });
    expect(layoutOf(TERSE_TEMPLATE, { tools: [] })).toMatchObject({ toolDisplay: "none", text: bare });
  });
});

test("an explicit toolPrompt overrides what auto would choose; template is refused if the template shows no tools", () => {
  expect(layoutOf(TERSE_TEMPLATE, { toolPrompt: "none" }).text).toBe(layoutOf(LEARNED).text);
  expect(layoutOf(LEARNED, { toolPrompt: "system" }).text).toBe(layoutOf(TERSE_TEMPLATE).text);
  expect(layoutOf(QWEN_TEMPLATE, { toolPrompt: "none" }).text).not.toContain("Finds pages");
  expect(layoutOf(OTHER_FORMAT, { toolPrompt: "template" }).text).toContain('Respond with {"name"');
  expect(() => layoutOf(TERSE_TEMPLATE, { toolPrompt: "template" })).toThrow(
    /agents\.a\.toolPrompt: the model's chat_template shows no tools: write "system", or "none"/,
  );
});

describe("a template that does not support system messages", () => {
  const ignoring = TERSE_TEMPLATE.replace("{%- if message", "{%- if message.role == 'system' %}{%- elif message");
  const refusing = TERSE_TEMPLATE.replace(
    "{%- if message",
    "{%- if message.role == 'system' %}{{- raise_exception('System role not supported') }}{%- elif message",
  );
  test.each([
    ["leaves out", ignoring],
    ["refuses", refusing],
  ])("that %s the system message is refused if one is needed, and works with toolPrompt user", (verb, template) => {
    expect(() => layoutOf(template, { system: "" })).toThrow(
      new RegExp(
        `^agent 'a': its chat_template ${verb} the system message that describes its tools: set agents\\.a\\.toolPrompt to "user", which puts it at the head of the first user message$`,
      ),
    );
    expect(() => layoutOf(template, { tools: [] })).toThrow(
      new RegExp(`^agent 'a': its chat_template ${verb} the system message: set agents\\.a\\.toolPrompt to "user"`),
    );
    expect(layoutOf(template, { tools: [], system: "" }).toolDisplay).toBe("none");
    expect(layoutOf(template, { toolPrompt: "user" }).text).toBe(
      `<|im_start|>user ${withTools("Be brief.", [search])}\n\nWhere?<|im_end|><|im_start|>assistant search<|im_end|>` +
        "<|im_start|>user <tool_response>\nhere\n</tool_response>\n<tool_response>\nthere\n</tool_response><|im_end|>" +
        "<|im_start|>assistant ",
    );
  });

  test("that shows tools is not reported as one that shows none", () => {
    const showing = "{%- if tools %}{{- '<|im_start|>system ' + (tools | tojson) + '<|im_end|>' }}{%- endif %}";
    const template = showing + refusing;
    expect(() => layoutOf(template, { toolPrompt: "template" })).toThrow(
      /refuses the system message: set agents\.a\.toolPrompt to "user"/,
    );
    expect(layoutOf(template, { toolPrompt: "template", system: "" }).toolDisplay).toBe("template");
  });
});

test("toolPrompt template is refused if the agent's system message makes the template omit the tools", () => {
  const template = OTHER_FORMAT.replace("{%- if tools %}", "{%- if tools and messages[0].role != 'system' %}");
  expect(() => layoutOf(template, { toolPrompt: "template" })).toThrow(/the model's chat_template shows no tools/);
  expect(layoutOf(template, { toolPrompt: "template", system: "" }).toolDisplay).toBe("template");
});

test("a template without a role for tools gets their responses as a user message", () => {
  const roles = LEARNED.replace(
    "{%- if message",
    "{%- if message.role == 'tool' %}{{- raise_exception('roles') }}{%- elif message",
  );
  expect(layoutOf(roles).text).toMatch(/<\|im_start\|>user <tool_response>\nhere\n<\/tool_response>\n<tool_response>/);
});

test("of two templates, the one that shows the tools decides whether there is a role for tools", () => {
  const showing =
    "{%- if tools %}{{- '<|im_start|>system ' + (tools | tojson) + '<tool_call>{}<|im_end|>' }}{%- endif %}";
  const plain = TERSE_TEMPLATE.replace(
    "{%- if message",
    "{%- if message.role == 'tool' %}{{- raise_exception('roles') }}{%- elif message",
  );
  const chat_template = [
    { name: "default", template: plain },
    { name: "tool_use", template: showing + TERSE_TEMPLATE },
  ];
  const files = withFile(bpeFiles(), "tokenizer_config.json", JSON.stringify({ chat_template }));
  const tokenizer = openTokenizer(files);
  const layout = openChatLayout(tokenizer, { agent: "a", system: "", tools: [search] });
  expect(layout.toolDisplay).toBe("template");
  expect(tokenizer.decode(layout.responses(["here"], []))).toBe(
    "<tool_response>here</tool_response><|im_start|>assistant ",
  );
});

test("with toolPrompt user, a served conversation without a user message opens with one made of system text and tools", () => {
  const tokenizer = openTokenizer(bpeFiles(TERSE_TEMPLATE));
  const layout = openMessageLayout(tokenizer, { agent: "a", system: "", tools: [search], toolPrompt: "user" });
  expect(tokenizer.decode(layout.opening([{ role: "system", text: "Be brief." }]))).toBe(
    `<|im_start|>user ${withTools("Be brief.", [search])}<|im_end|><|im_start|>assistant `,
  );
});

test.each(["auto", "system", "user", "none"] as const)(
  "%s: a served conversation opens with the same tokens as a rollout",
  (toolPrompt) => {
    const tokenizer = openTokenizer(bpeFiles(TERSE_TEMPLATE));
    const settings = { agent: "a", system: "", tools: [search], toolPrompt };
    for (const system of ["Be brief.", ""]) {
      const question = { role: "user", text: "Where?" } as const;
      const messages = system === "" ? [question] : [{ role: "system", text: system } as const, question];
      const served = openMessageLayout(tokenizer, settings).opening(messages);
      const trained = openChatLayout(tokenizer, { ...settings, system }).prompt("Where?");
      expect(tokenizer.decode(served)).toBe(tokenizer.decode(trained));
      expect(served).toEqual(trained);
    }
  },
);
