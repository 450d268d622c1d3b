/** @file Tests of the infrastructure. They need SST's platform under .sst, so `npm run test:infra` runs them and `npm test` does not. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/infra/**/*.test.ts"],
    globalSetup: ["test/infra/evaluations.ts"],
    pool: "forks",
    maxWorkers: 2,
    // As in the other tests: the limits only bound a hang.
    testTimeout: 240_000,
    hookTimeout: 240_000,
  },
});
