/** @file The tests that mutants are run against: those of core/mgrpo, core/training and judging, which start no other process. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/core/mgrpo/**/*.test.ts", "test/core/training/**/*.test.ts", "test/functions/judg*.test.ts"],
    env: { NO_COLOR: "1" },
    testTimeout: 300_000,
  },
});
