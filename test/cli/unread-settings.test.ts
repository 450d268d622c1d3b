/** @file Settings that a command does not read are refused, also inside JSON. */
import { expect, test } from "vitest";
import { refuseSettingsOfRuns } from "../../cli/unread-settings.ts";

test.each([
  ["limits.turnSeconds=9", "limits.turnSeconds"],
  ['limits={"trainingSeconds":9,"attempts":2}', "limits.attempts"],
  ["limits.lostFraction=1", "limits.lostFraction"],
  ['liveness={"pollSeconds":1}', "liveness"],
])("a time limit or an interval of a run is refused by a command that does not read it: %s", (setting, path) => {
  expect(() => refuseSettingsOfRuns("sft", [setting])).toThrow(
    `--set ${setting}: sft does not read ${path}: leave it out`,
  );
});

test("the time limit of an engine's long calls, such as opening a model, is read by every command that opens one", () => {
  expect(() => refuseSettingsOfRuns("sft", ["limits.trainingSeconds=9"])).not.toThrow();
});
