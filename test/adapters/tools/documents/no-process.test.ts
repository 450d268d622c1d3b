/** @file A machine that has no memory for a process that reads documents. */
import { expect, test, vi } from "vitest";
import { openReader } from "../../../../adapters/tools/documents/reader.ts";

vi.mock("node:child_process", async (original) => {
  const actual = await original<typeof import("node:child_process")>();
  const fork = () => {
    throw Object.assign(new Error("spawn ENOMEM"), { code: "ENOMEM" });
  };
  return { ...actual, fork };
});

test("an error that Node.js throws instead of emitting it is a fault of the machine, which may pass", async () => {
  const reader = openReader();
  const document = { url: "https://a.test/", type: "text/plain", bytes: Buffer.from("text"), maxCharacters: 10 };
  const refused = { code: "tool-backend", retryable: true };
  // The pool has two processes: a document that had none must leave its place free.
  for (let attempt = 0; attempt < 3; attempt++) {
    await expect(reader.read(document)).rejects.toMatchObject(refused);
  }
  await reader.close();
});
