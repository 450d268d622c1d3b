/**
 * @file A chat template that exceeds its time limit even on a tiny conversation is refused from then on, in every conversation. A
 * conversation that is too long to render is refused alone. Other templates still render.
 */
import { expect, test } from "vitest";
import { openTemplate, TokenizerConfig } from "../../engine/tokenizer/chat-template.ts";
import { withinMilliseconds } from "../../engine/tokenizer/time-limit.ts";

const LOOP =
  "{%- for a in range(10000) -%}{%- for b in range(10000) -%}{%- set c = a * b -%}{%- endfor -%}{%- endfor -%}";
const configOf = (chat_template: string) => TokenizerConfig.parse({ chat_template });
const MESSAGES = [{ role: "user", content: "hello" }] as const;

test("a template that loops for too long is reported as damaged, and blocks its worker for a limited time", () => {
  const { render } = openTemplate(new Map(), configOf(LOOP), 200);
  const before = process.cpuUsage();
  expect(() => render(MESSAGES, [], true)).toThrow(
    expect.objectContaining({
      code: "tokenizer-damaged",
      message: expect.stringMatching(/chat_template failed on messages with the roles user: it took more than 0.2 s:/),
    }),
  );
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(5);
});

test("a template that has exceeded its time limit is refused at once from then on, whatever it renders", () => {
  const { render } = openTemplate(new Map(), configOf(`{% if messages|length > 1 %}${LOOP}{% endif %}hello`), 2000);
  expect(render(MESSAGES, [], true)).toBe("hello");
  expect(() => render([...MESSAGES, ...MESSAGES], [], true)).toThrow(/took more than 2 s:/);
  const before = process.cpuUsage();
  for (let i = 0; i < 1000; i++) expect(() => render(MESSAGES, [], true)).toThrow(/took more than 2 s:/);
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(20);
});

test("a conversation that is too long to render is refused, and the error names its first ten roles; others are rendered as before", () => {
  const { render } = openTemplate(new Map(), configOf(`{% if messages|length > 100 %}${LOOP}{% endif %}hello`), 200);
  const long = Array.from({ length: 40_000 }, () => MESSAGES[0]);
  const roles = Array.from({ length: 10 }, () => "user").join(", ");
  expect(() => render(long, [], true)).toThrow(
    `chat_template failed on messages with the roles ${roles} and 39990 more: it took more than 0.2 s`,
  );
  expect(render(MESSAGES, [], true)).toBe("hello");
});

test("a function that was too slow once is tried again", () => {
  let calls = 0;
  const slowOnce = () => {
    calls += 1;
    // Ends by itself if there is no limit.
    for (const end = Date.now() + 60_000; calls === 1 && Date.now() < end; );
    return calls;
  };
  expect(withinMilliseconds(2000, slowOnce)).toBe(2);
});

test("another template renders as usual, and its errors keep their own reason", () => {
  const { render } = openTemplate(new Map(), configOf("{{ messages[0].content }}!"), 20_000);
  expect(render(MESSAGES, [], true)).toBe("hello!");
  const { render: raising } = openTemplate(new Map(), configOf("{{ raise_exception('no') }}"), 20_000);
  expect(() => raising(MESSAGES, [], true)).toThrow(/chat_template failed on messages with the roles user: .*no/);
});

test("a limited function returns its value; nested limits work", () => {
  expect(withinMilliseconds(20_000, () => withinMilliseconds(20_000, () => 7) + 1)).toBe(8);
});
