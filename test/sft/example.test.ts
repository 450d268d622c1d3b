/**
 * @file A demonstration has the tokens of the rollout that it demonstrates, and only what a rollout samples is trained on. A demonstration that a
 * rollout could not sample is refused.
 */
import { expect, test } from "vitest";
import { exampleOf, refuseEarlyEnd, refuseTooLong } from "../../sft/example.ts";

/** Every character is a token. */
const codes = (text: string) => [...text].map((character) => character.charCodeAt(0));
const END = 0;
/** The prompt is in angle brackets; the responses to a turn are in square brackets, after the number of earlier turns. */
const layout = {
  prompt: (question: string) => codes(`<${question}>`),
  responses: (texts: readonly string[], earlier: readonly number[]) => codes(`${earlier.length}[${texts.join()}]`),
};
const decode = (tokens: readonly number[]) => String.fromCharCode(...tokens);
const tokenizer = { encodeTemplate: codes, decode, endOfTurn: END };

const EXAMPLE = exampleOf(
  {
    prompt: "q",
    turns: [
      { text: "ab", responses: ["r", "s"] },
      { text: "c", responses: [] },
    ],
  },
  layout,
  tokenizer,
);

test("the turns are spans that include their end-of-turn tokens, but neither the prompt nor the responses", () => {
  expect(EXAMPLE.tokens).toEqual([...codes("<q>ab"), END, ...codes("0[r,s]c"), END]);
  // "<q>" is 0..2, "ab" and its end 3..5, "0[r,s]" 6..11, "c" and its end 12..13.
  expect(EXAMPLE.turns).toEqual([
    [3, 6],
    [12, 14],
  ]);
});

test("the layout of responses gets the number of responses to each earlier turn", () => {
  const given: (readonly number[])[] = [];
  const responses = (texts: readonly string[], earlier: readonly number[]) => {
    given.push([...earlier]);
    return layout.responses(texts, earlier);
  };
  const turns = [
    { text: "a", responses: ["r", "s"] },
    { text: "b", responses: ["t"] },
    { text: "c", responses: [] },
  ];
  const { tokens } = exampleOf({ prompt: "q", turns }, { ...layout, responses }, tokenizer);
  expect(given).toEqual([[], [2]]);
  expect(tokens).toEqual([...codes("<q>a"), END, ...codes("0[r,s]b"), END, ...codes("1[t]c"), END]);
});

test.each(["<think>\n", "<think>"])(
  "after a template that writes %j, a turn's own <think> is not repeated",
  (opened) => {
    const thinking = {
      prompt: (question: string) => codes(`<${question}>${opened}`),
      responses: (texts: readonly string[]) => codes(`[${texts.join()}]${opened}`),
    };
    const turns = [
      { text: "<think>\nHm.\n</think>\n\na", responses: ["r"] },
      { text: "b", responses: ["s"] },
      { text: "\n<think>Ah.</think>c", responses: [] },
    ];
    const example = exampleOf({ prompt: "q", turns }, thinking, tokenizer);
    const sampled = example.turns.map(([start, end]) => decode(example.tokens.slice(start, end - 1)));
    expect(sampled).toEqual(["Hm.\n</think>\n\na", "b", "Ah.</think>c"]);
    expect(decode(example.tokens).split("<think>")).toHaveLength(4);
  },
);

test("a turn keeps its <think> after a template that writes none, or has closed it", () => {
  const text = "<think>\nHm.\n</think>\n\na";
  for (const written of ["", "<think>\n\n</think>\n\n"]) {
    const { tokens, turns } = exampleOf(
      { prompt: "q", turns: [{ text, responses: [] }] },
      { ...layout, prompt: (question) => codes(`<${question}>${written}`) },
      tokenizer,
    );
    expect(turns.map(([start, end]) => decode(tokens.slice(start, end - 1)))).toEqual([text]);
  }
});

test("a demonstration that exceeds a rollout's limits is refused, with its location", () => {
  refuseTooLong(EXAMPLE, "main", { contextTokens: 14, turnTokens: 3 }, "demos.jsonl:7");
  expect(() => refuseTooLong(EXAMPLE, "main", { contextTokens: 13 }, "demos.jsonl:7")).toThrow(
    "demos.jsonl:7 takes 14 tokens, and a conversation has at most 13: raise agents.main.limits.contextTokens, or remove the demonstration",
  );
  expect(() => refuseTooLong(EXAMPLE, "main", { contextTokens: 14, turnTokens: 2 }, "demos.jsonl:7")).toThrow(
    "demos.jsonl:7: turn 1 takes 3 tokens, and a turn has at most 2",
  );
});

test("a turn with an end-of-turn token before its last token is refused, with its location", () => {
  const ends = { ends: [END, 1], decode: (tokens: readonly number[]) => `<${tokens.join()}>` };
  refuseEarlyEnd(EXAMPLE, ends, "demos.jsonl:7");
  const turns = [
    { text: "ab", responses: ["r"] },
    { text: "c\u0001d", responses: [] },
  ];
  expect(() => refuseEarlyEnd(exampleOf({ prompt: "q", turns }, layout, tokenizer), ends, "demos.jsonl:7")).toThrow(
    "demos.jsonl:7: turn 2 has <1> before its end",
  );
});
