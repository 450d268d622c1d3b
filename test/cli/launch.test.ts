/**
 * @file `mgrpo launch` of a run that is in the store: with its first settings, with others, and after its end; of runs without names; and into
 * the bucket of another deployment, with too few instances, or whose schedule cannot be turned on.
 */
import { basename, dirname } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { buildProgram } from "../../cli/program.ts";
import type { Deployment } from "../../core/contracts/deployment.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { endRun } from "../../core/training/writes.ts";
import { release } from "../../gpu-workers/release.ts";
import { controlPlane, serveControlPlane } from "../fakes/control-plane.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { chdirToProject, parsedLines, RELAY, relaySettings } from "./command-line.ts";
import { printed, printedBy, printedJson } from "./printed.ts";

chdirToProject();
const store = await openLocalStore();
afterAll(() => store.close());

/** Makes the store's table that of a deployment for the rest of the test. */
async function deployWith(changes: Partial<Deployment>): Promise<void> {
  const { MGRPO_BUCKET: bucket = "" } = process.env;
  const deployment: Deployment = { release: release(process.env), bucket, clockRule: "clock", fleets: [], ...changes };
  await store.table.delete(tableKeys.deployment);
  await store.table.insert(tableKeys.deployment, { deployment: JSON.stringify(deployment) });
  onTestFinished(() => store.table.delete(tableKeys.deployment));
}

test("a run launched again without the settings of its first launch is refused, and the error says how to resume it; with them, its budget can be raised", async () => {
  const launch = ["launch", RELAY, "--run", "limited", ...relaySettings()];
  const limit = ["--set", "budget.hours=1"];
  expect(await printedJson(...launch, ...limit)).toMatchObject([{ kind: "launched" }]);
  await expect(printed(...launch, "--budget-hours", "2")).rejects.toThrow(
    /budget.hours: 1 \(stored\), null \(requested\); to resume it, repeat the settings of its first launch/,
  );
  await expect(printed(...launch, "--set", "budget.hours=2")).rejects.toThrow(/raise its budget with --budget-/);
  expect(await printedJson(...launch, ...limit, "--budget-hours", "2")).toMatchObject([{ kind: "launched" }]);
});

test.each<[name: string, suites: object[], printed: object]>([
  ["evaluated", [], { kind: "unchanged", run: "evaluated", status: "finished" }],
  [
    "to evaluate",
    [{ name: "greedy", temperature: 0 }],
    { kind: "launched", workers: [expect.stringMatching(/--roles eval$/)] },
  ],
])("launching a finished run names only the workers that have work left: %s", async (name, suites, expected) => {
  const run = name.replaceAll(" ", "-");
  const launch = ["launch", RELAY, "--run", run, ...relaySettings(...suites)];
  await printedJson(...launch);
  await store.table.update(endRun(run, "finished"));
  expect(await printedJson(...launch)).toMatchObject([expected]);
});

test("a launch with the table of a deployment and another's bucket is refused before it writes anything", async () => {
  await deployWith({ bucket: "objects-of-the-table" });
  const launched = printed("launch", RELAY, "--run", "mixed", ...relaySettings());
  await expect(launched).rejects.toThrow(
    /MGRPO_BUCKET is '.+', but the deployment .+ has bucket 'objects-of-the-table'/,
  );
  expect(await store.objects.get(objectKeys.questions("mixed"))).toBeUndefined();
});

test("a run that needs more workers than its fleet can have is refused before it starts", async () => {
  const release = "0";
  await deployWith({ fleets: [{ name: "large", agent: "main", roles: ["rollout"], group: "g", max: 1, release }] });
  const launched = printed("launch", RELAY, "--run", "large", ...relaySettings(), "--set", "agents.main.workers=2");
  await expect(launched).rejects.toThrow(/agents.main.workers is 2, but fleet large has at most 1 instances/);
  expect(await store.table.get(tableKeys.run("large"))).toBeUndefined();
});

test("runs with different settings that are launched at the same time without names get different ones", async () => {
  const launch = (steps: number) => {
    const args = ["launch", RELAY, "--steps", String(steps), "--seed", "7", ...relaySettings()];
    return buildProgram().parseAsync(args, { from: "user" });
  };
  const lines = parsedLines(await printedBy(async () => void (await Promise.all([3, 4, 5].map(launch)))));
  const names = ["relay-mgrpo-seed7", "relay-mgrpo-seed7-2", "relay-mgrpo-seed7-3"];
  expect(lines.map(({ run }) => run).sort()).toEqual(names);
  const configs = await Promise.all(names.map((run) => store.objects.get(objectKeys.config(run))));
  const steps = configs.map((config) => JSON.parse(new TextDecoder().decode(config)).steps);
  expect(steps.sort()).toEqual([3, 4, 5]);
});

test("if the schedule cannot be turned on, the error of a launch without a name names the run, which the repeated launch resumes", async () => {
  const plane = controlPlane([]);
  const server = await serveControlPlane(plane);
  const restore = setEnvironment({ ...server.environment, MGRPO_PROJECT: dirname(RELAY) });
  onTestFinished(async () => {
    restore();
    await server.close();
  });
  const launch = ["launch", basename(RELAY), "--seed", "8", ...relaySettings()];
  await deployWith({ clockRule: "missing" });
  await expect(printed(...launch)).rejects.toThrow(
    /turn the schedule 'missing' on: .*; run 'relay-mgrpo-seed8' is in the store: .* --run relay-mgrpo-seed8$/,
  );
  await deployWith({});
  expect(await printedJson(...launch, "--run", "relay-mgrpo-seed8")).toMatchObject([{ run: "relay-mgrpo-seed8" }]);
  expect(plane.clock).toBe("on");
});
