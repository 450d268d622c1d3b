/** @file A run that trains on a question of a published benchmark is refused, in whichever form the loader keeps it; training questions that no stage asks. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { loadGaia } from "../../adapters/benchmarks/gaia.ts";
import { loadWebWalkerQa } from "../../adapters/benchmarks/webwalkerqa.ts";
import { loadXbench } from "../../adapters/benchmarks/xbench.ts";
import { checkRunQuestions } from "../../cli/questions.ts";
import { decrypt } from "../../core/contracts/encryption.ts";
import type { Benchmark } from "../../core/contracts/evaluation-suite.ts";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { teamConfig } from "../fakes/scripted-team.ts";

const fixture = (name: string) => resolve(import.meta.dirname, "../fixtures/benchmarks", name);
const [task] = readFileSync(fixture("gaia/metadata.jsonl"), "utf8").split("\n");
const xbench = loadXbench(fixture("xbench.csv"));
const [page] = JSON.parse(readFileSync(fixture("webwalkerqa.json"), "utf8"));

/** The benchmark's questions, and the first one in its authors' words. */
const BENCHMARKS: [Exclude<Benchmark, "jsonl" | "reasoning-gym">, SuiteQuestions, string][] = [
  ["gaia", await loadGaia(fixture("gaia"), "none", undefined), JSON.parse(task ?? "").Question],
  ["xbench", xbench, decrypt(xbench.questions[0]?.prompt ?? "", xbench.canary ?? "")],
  ["webwalkerqa", loadWebWalkerQa(fixture("webwalkerqa.json")), page.question],
];

test.each(BENCHMARKS)("training on the original wording of a question is refused: %s", (benchmark, own, wording) => {
  const suite = { name: "own", benchmark, data: "file" };
  const judge = { model: { provider: "openai", baseUrl: "http://127.0.0.1:1/v1", model: "any" } } as const;
  const config = teamConfig({ evaluation: { suites: [suite] }, judge });
  const check = (prompt: string) => () => {
    const trained = { id: "trained", kind: "any", level: 1, prompt, answer: "!", facts: { page: 1 } };
    checkRunQuestions(config, { train: [trained], heldOut: [], suites: { own } });
  };
  const [{ id, prompt } = expect.fail()] = own.questions;
  const refused = `suite 'own': 1 of ${own.questions.length} questions are also training questions (such as '${id}')`;
  expect(check(`${wording}\n`)).toThrow(refused);
  if (own.canary === undefined) expect(check(prompt)).toThrow(refused);
  expect(check(`${wording} And why?`)).not.toThrow();
});

test("one line says how many training questions have a level that no stage of the curriculum asks", () => {
  const written = vi.spyOn(console, "error").mockReturnValue();
  onTestFinished(() => written.mockRestore());
  const train = [1, 12, 3, 10, 12].map((level, i) => {
    return { id: `q${i}`, kind: "any", level, prompt: `${i}?`, answer: "!", facts: null };
  });
  const stages = [
    { from: 0, levels: [1, 12] },
    { from: 0.5, levels: [3, 10] },
  ];
  checkRunQuestions(teamConfig({ curriculum: stages }), { train, heldOut: [] });
  expect(written).not.toHaveBeenCalled();
  checkRunQuestions(teamConfig({}), { train, heldOut: [] });
  expect(written.mock.calls).toEqual([
    ["curriculum: 3 of 5 training questions are never asked: no stage has level 10, 12"],
  ]);
});
