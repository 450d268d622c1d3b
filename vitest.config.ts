/**
 * @file Test runner: files run in forked processes, three at a time, since many wait for child processes.
 *
 *     together   share processes and what is imported there, so they restore what they change      npm test
 *     alone      a process each: they change its environment, replace a module or need all its memory    npm test
 *     long       *.long.test.ts, a process each: slow, such as many whole runs or large files      npm run test:long
 *
 * test/infra/ and test/ui/ have configs of their own.
 */
import { defineConfig } from "vitest/config";

export const ALONE = [
  "test/adapters/checkpoints/hub/copies.test.ts",
  "test/adapters/local-cloud/{credentials,journal}.test.ts",
  "test/adapters/tools/documents/{no-process,pool}.test.ts",
  "test/adapters/tools/web/turns.test.ts",
  "test/chaos/chaos.test.ts",
  "test/cli/{ask-app,bad-store,bench,cloud,cloud-check,cloud-serve-stop,cloud-stores,doctor,models,named-run,preflight,train}.test.ts",
  "test/cli/{evaluate-team,suite-stop}.test.ts",
  "test/engine/*float64.test.ts",
  "test/engine/{checkpoint-versions,hung-driver,hung-thread}.test.ts",
  "test/functions/scheduled-tick.test.ts",
  "test/gpu-workers/heartbeats.test.ts",
];
export const LONG = ["test/**/*.long.test.ts"];

export default defineConfig({
  test: {
    pool: "forks",
    maxWorkers: 3,
    env: { NO_COLOR: "1" },
    // Two loaded cores may take ten seconds to start a process: these limits only end what hangs.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 60_000 } },
    globalSetup: "test/build.ts",
    projects: [
      { extends: true, test: { name: "alone", include: ALONE } },
      { extends: true, test: { name: "long", include: LONG, testTimeout: 600_000, hookTimeout: 600_000 } },
      {
        extends: true,
        test: {
          name: "together",
          include: ["test/**/*.test.ts"],
          exclude: ["test/infra/**", "test/ui/**", ...ALONE, ...LONG],
          isolate: false,
        },
      },
    ],
  },
});
