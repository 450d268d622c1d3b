/** @file Tests that kill mutants: those of the pure core, and of the functions around it that need no other process. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/core/mgrpo/**/*.test.ts", "test/core/training/**/*.test.ts", "test/functions/judg*.test.ts"],
    env: { NO_COLOR: "1" },
    testTimeout: 300_000,
  },
});
