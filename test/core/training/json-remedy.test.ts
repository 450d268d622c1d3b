/** @file The remedy for a setting whose text is not JSON: which setting it names, when there is none, and what else the error has. */
import { expect, test } from "vitest";
import { resolveConfig } from "../../../core/training/resolve-config.ts";

const recipe = { name: "tiny", config: { steps: 4, agents: { main: { model: "m" } } } };
const refusalOf = (...set: string[]) => {
  try {
    resolveConfig(recipe, { run: "r", seed: 1, arm: "mgrpo", set });
  } catch (error) {
    return error as Error;
  }
  return expect.fail("accepted");
};

test("the remedy names the setting at fault, not another one, whose text may begin with a bracket", () => {
  const prompt = "agents.main.system=[Plan.";
  expect(refusalOf(prompt, "agents.main.lora={rank:8}").message).toContain(
    "--set agents.main.lora={rank:8}: the value is not JSON",
  );
  expect(refusalOf(prompt, "steps=many").message).toMatch(/steps: Invalid input: expected number, received string$/);
});

test.each([
  ['evaluation.suites={"name":"test"}', "expected array, received object"],
  ["agents.main.lora=[8]", "expected object, received array"],
  ["steps=all[0]", "expected number, received string"],
])(
  "JSON of the wrong type, and text where no list or object belongs, need another remedy: --set %s",
  (setting, fault) => {
    const { message } = refusalOf(setting);
    expect(message).toContain(fault);
    expect(message).not.toContain("not JSON");
  },
);

test("with the remedy, the error keeps its evidence, the unknown names and, as its cause, the error without it", () => {
  const error = refusalOf("agents.main.lora={rank:8}", "stepz=3");
  const cause = error.cause as Error;
  expect(error.message.startsWith(`${cause.message}; --set agents.main.lora={rank:8}: `)).toBe(true);
  expect(error).toMatchObject({
    evidence: [
      "agents.main.lora: Invalid input: expected object, received string",
      expect.stringContaining('Unrecognized key: "stepz"'),
    ],
    unknownNames: [{ unknown: "stepz", known: expect.arrayContaining(["steps"]) }],
  });
});
