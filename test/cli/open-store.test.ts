/** @file Reading a run whose process is gone changes nothing in its store. */
import { expect, test } from "vitest";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { withRunStore } from "../../cli/local/open-store.ts";
import { runFolder } from "../../cli/local/run-folder.ts";
import { workHere } from "./command-line.ts";
import { recordRun } from "./recorded-run.ts";
import { RUN } from "./records.ts";

const project = workHere();

test("an event that a killed process did not handle is left to the next one that does", async () => {
  await recordRun(project);
  const { cloud: directory } = runFolder(RUN);
  const handled: string[] = [];
  const start = (objectCreated: (key: string) => Promise<void>) =>
    startLocalCloud({
      directory,
      handlers: { objectCreated: ({ detail }) => objectCreated(detail.object.key), tick: async () => {} },
      report: () => {},
    });
  const killed = await start(async () => {
    throw new Error("killed");
  });
  await killed.direct.objects.commit("left", new Uint8Array([1]));
  await killed.close();
  expect(await withRunStore(runFolder(RUN), (store) => store.objects.get("left"))).toEqual(new Uint8Array([1]));
  const resumed = await start(async (key) => void handled.push(key));
  await expect.poll(() => handled).toContain("left");
  await resumed.close();
});
