/** @file What `npm run chaos` cannot use is refused in one line, before anything is built; the recorded reports can be read. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readOptions, readSchedule, readTrials } from "./options.ts";
import { undisturbed } from "./schedule.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-chaos-options-"));
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};

test("options have defaults, and numbers are parsed", () => {
  expect(readOptions([])).toMatchObject({ minutes: 5, seed: 1, steps: 3, to: "runs/chaos" });
  const given = ["--minutes", "0.5", "--seed", "7", "--steps", "90", "--store", "8000,9000"];
  expect(readOptions(given)).toMatchObject({ minutes: 0.5, seed: 7, steps: 90, store: { dynamo: 8000, s3: 9000 } });
});

test.each([
  [["--steps", "0"], "chaos: steps: "],
  [["--minutes", "soon"], "chaos: minutes: "],
  [["--store", "8000"], "chaos: store: "],
  [["--hours", "1"], "chaos: Unknown option '--hours'"],
])("%j is refused in one line", (args, start) => {
  expect(() => readOptions(args)).toThrow(
    expect.objectContaining({ code: "config-invalid", message: expect.stringMatching(/^[^\n]+$/) }),
  );
  expect(() => readOptions(args)).toThrow(start);
});

test("a schedule that is missing, cut off or of another form is refused with its path", () => {
  const whole = JSON.stringify(undisturbed);
  expect(readSchedule(write("whole.json", whole))).toEqual(undisturbed);
  expect(() => readSchedule(join(folder, "none.json"))).toThrow("none.json does not exist");
  expect(() => readSchedule(write("cut.json", whole.slice(0, -5)))).toThrow("cut.json");
  expect(() => readSchedule(write("other.json", "{}"))).toThrow("other.json: seed: ");
});

test.each(["", "90-steps", "app", "dynamodb-local", "dynamodb-local-minio"])(
  "results/chaos/%s can be read",
  (report) => {
    expect(readTrials(resolve(import.meta.dirname, "../../results/chaos", report)).length).toBeGreaterThan(0);
  },
);

test("a report whose last line was cut off is refused with the number of the line, and a missing one is empty", () => {
  expect(readTrials(join(folder, "none"))).toEqual([]);
  const line = { seed: 1, size: 0, deaths: 0, faultsMet: 0, requests: 9, seconds: 1, violations: [] };
  write("trials.jsonl", `${JSON.stringify(line)}\n{"seed":2,"si`);
  expect(() => readTrials(folder)).toThrow("trials.jsonl:2");
});
