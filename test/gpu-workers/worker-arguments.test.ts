/** @file A worker process takes a run and one of its agents, or a fleet, and refuses other combinations. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { builtModule } from "../../built-module.ts";

test.each(["--fleet main --roles eval", "--fleet main --run r", "--run r"])("%s is refused", (given) => {
  const command = [fileURLToPath(builtModule("gpu-workers/worker")), ...given.split(" ")];
  const { status, stderr } = spawnSync(process.execPath, command, { encoding: "utf8" });
  expect(status).toBe(1);
  expect(stderr).toMatch(/"code":"config-invalid".*with --run and --agent, or a fleet of the deployment, with --fleet/);
});

test("a URL with a query is refused: the paths of calls would end up in the query", () => {
  const given = "--run r --agent main --url http://proxy.lan/?x=1";
  const command = [fileURLToPath(builtModule("gpu-workers/worker")), ...given.split(" ")];
  const { stderr } = spawnSync(process.execPath, command, { encoding: "utf8" });
  expect(stderr).toMatch(/"error":"arguments of the worker: url: must not contain a query or a fragment"/);
});

test("a URL with a password is refused: no worker could call it, and records and messages would repeat it", () => {
  const given = "--run r --agent main --url http://user:secret@proxy.lan";
  const command = [fileURLToPath(builtModule("gpu-workers/worker")), ...given.split(" ")];
  const { status, stderr } = spawnSync(process.execPath, command, { encoding: "utf8" });
  expect(status).toBe(1);
  expect(stderr).toMatch(/"error":"arguments of the worker: url: must not contain a user name or password"/);
  expect(stderr).not.toContain("secret");
});

test.each(["0.0.0.0", "0", "::", "::0"])(
  "--host %s is refused without a URL: no other machine can connect to it",
  (host) => {
    const given = `--run r --agent main --host ${host}`;
    const command = [fileURLToPath(builtModule("gpu-workers/worker")), ...given.split(" ")];
    const { status, stderr } = spawnSync(process.execPath, command, { encoding: "utf8" });
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /"error":"arguments of the worker: host: listens on every address of this machine: pass --url/,
    );
  },
);
