/** @file The status of a resumed run: it has the evaluations of earlier sessions, even before their records are read again, and each once. */
import { expect, test } from "vitest";
import type { EmbeddedCloud } from "../../cli/local/embedded-cloud.ts";
import { RunHistory } from "../../cli/local/history.ts";
import { suiteOf } from "../../cli/local/read-records.ts";
import { createRunFolder, readStatus } from "../../cli/local/run-folder.ts";
import { evaluationOf } from "../../core/monitoring/team-evaluation.ts";
import { workHere } from "./command-line.ts";
import { config, job } from "./records.ts";

workHere();

test("a run that is stopped as soon as it is resumed keeps its evaluations; an evaluation that is read again counts once", () => {
  const cloud = {
    environment: {},
    takeScoringSeconds: () => 0,
    writes: () => ({ requests: 0, bytes: 0, units: 0 }),
  } as unknown as EmbeddedCloud;
  const folder = createRunFolder(config);
  const evaluation = evaluationOf(suiteOf(config, "sampled"), job("sampled", 0, 1));
  new RunHistory(config, folder, cloud).record({ kind: "evaluation", evaluation });
  const resumed = new RunHistory(config, folder, cloud);
  expect(resumed.save("stopped").evaluations).toEqual([evaluation]);
  resumed.record({ kind: "evaluation", evaluation });
  expect(readStatus(folder).evaluations).toEqual([evaluation]);
});
