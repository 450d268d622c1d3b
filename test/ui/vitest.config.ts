/** @file Tests of the dashboard in a browser. They need one, so `npm run test:ui` runs them and `npm test` does not. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    // A page may take seconds on a busy machine.
    expect: { poll: { timeout: 10_000 } },
    include: ["test/ui/**/*.test.ts"],
    globalSetup: ["test/build.ts", "test/ui/recorded.ts"],
    pool: "forks",
    maxWorkers: 1,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
