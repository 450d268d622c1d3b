/** @file The status of a resumed run lists the evaluations of earlier sessions, each once, even before their records are read again. */
import { expect, test } from "vitest";
import { RunHistory } from "../../cli/local/history.ts";
import { suiteOf } from "../../cli/local/read-records.ts";
import { createRunFolder, readStatus } from "../../cli/local/run-folder.ts";
import { evaluationOf } from "../../core/monitoring/team-evaluation.ts";
import { chdirToProject } from "./command-line.ts";
import { idleCloud } from "./idle-cloud.ts";
import { config, job } from "./records.ts";

chdirToProject();

test("a run stopped right after it is resumed keeps its evaluations; an evaluation that is read again is listed once", () => {
  const folder = createRunFolder(config);
  const evaluation = evaluationOf(suiteOf(config, "sampled"), job("sampled", 0, 1));
  new RunHistory(config, folder, idleCloud).record({ kind: "evaluation", evaluation });
  const resumed = new RunHistory(config, folder, idleCloud);
  expect(resumed.save("stopped").evaluations).toEqual([evaluation]);
  resumed.record({ kind: "evaluation", evaluation });
  expect(readStatus(folder).evaluations).toEqual([evaluation]);
});
