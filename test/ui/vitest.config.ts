/** @file Tests of the dashboard. Almost all need a browser, so `npm run test:ui` runs them and `npm test` does not. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    // On a busy machine a page may take many seconds.
    expect: { poll: { timeout: 60_000 } },
    include: ["test/ui/**/*.test.ts"],
    globalSetup: ["test/build.ts", "test/ui/recorded.ts"],
    pool: "forks",
    maxWorkers: 1,
    testTimeout: 240_000,
    hookTimeout: 240_000,
  },
});
