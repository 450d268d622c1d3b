/** @file The store that the environment names: an empty variable counts as a missing one. */
import { afterEach, expect, test, vi } from "vitest";
import { namesStore, storeNames } from "../../cli/store-names.ts";

afterEach(() => void vi.unstubAllEnvs());

test.each([undefined, ""])("with table %j, a bucket alone is refused, and the message says what to set", (table) => {
  vi.stubEnv("MGRPO_TABLE", table);
  vi.stubEnv("MGRPO_BUCKET", "bucket");
  expect(namesStore).toThrow("environment: MGRPO_TABLE: set it to the name of the table");
  vi.stubEnv("MGRPO_BUCKET", "");
  expect(namesStore()).toBe(false);
  expect(() => storeNames("launch")).toThrow("mgrpo launch: MGRPO_TABLE: set it to the name of the table");
});
