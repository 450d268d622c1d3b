/**
 * @file The tests that mutants are run against: those of core/mgrpo, core/training and judging, which start no other process. The files that reach
 * a mutant share one thread, since starting one takes longer than most of them; the next mutant has a new thread.
 */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/core/mgrpo/**/*.test.ts", "test/core/training/**/*.test.ts", "test/functions/judg*.test.ts"],
    isolate: false,
    env: { NO_COLOR: "1" },
    testTimeout: 300_000,
  },
});
