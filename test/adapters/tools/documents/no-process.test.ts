/** @file A machine that lacks the memory for a process that reads documents. */
import { expect, test, vi } from "vitest";
import { openReader } from "../../../../adapters/tools/documents/reader.ts";

vi.mock("node:child_process", async (original) => {
  const actual = await original<typeof import("node:child_process")>();
  const fork = () => {
    throw Object.assign(new Error("spawn ENOMEM"), { code: "ENOMEM" });
  };
  return { ...actual, fork };
});

test("a failed start that Node.js throws instead of emitting is a retryable error of the tool", async () => {
  const reader = openReader();
  const document = { url: "https://a.test/", type: "text/plain", bytes: Buffer.from("text"), maxCharacters: 10 };
  const refused = { code: "tool-backend", retryable: true };
  // The pool has two processes: a read that gets none must free its slot.
  for (let attempt = 0; attempt < 3; attempt++) {
    await expect(reader.read(document)).rejects.toMatchObject(refused);
  }
  await reader.close();
});
