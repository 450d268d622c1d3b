/** @file Tests that kill mutants: those of the pure core, and of the functions around it that need no other process. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/core/mgrpo/**/*.test.ts", "test/core/training/**/*.test.ts"],
    env: { NO_COLOR: "1" },
    testTimeout: 30_000,
  },
});
