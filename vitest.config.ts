/**
 * @file Test runner: files run in forked processes, three at a time, since many wait for child processes. Tests that change their
 * environment or folder, as the command-line tests do, or replace a module have a process per file. Other files share processes and what is imported there, so
 * they must restore what they change.
 */
import { defineConfig } from "vitest/config";

const ALONE = [
  "test/adapters/tools/documents/pool.test.ts",
  "test/adapters/tools/web/turns.test.ts",
  "test/chaos/chaos.test.ts",
  "test/cli/**/*.test.ts",
  "test/engine/*float64.test.ts",
  "test/engine/hung-thread.test.ts",
  "test/gpu-workers/heartbeats.test.ts",
  "test/package.test.ts",
];

export default defineConfig({
  test: {
    pool: "forks",
    maxWorkers: 3,
    env: { NO_COLOR: "1" },
    testTimeout: 120_000,
    hookTimeout: 120_000,
    globalSetup: "test/build.ts",
    projects: [
      { extends: true, test: { name: "alone", include: ALONE } },
      {
        extends: true,
        test: {
          name: "together",
          include: ["test/**/*.test.ts"],
          exclude: ["test/infra/**", "test/ui/**", ...ALONE],
          isolate: false,
        },
      },
    ],
  },
});
