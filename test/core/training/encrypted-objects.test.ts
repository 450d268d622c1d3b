/** @file A store that encrypts conversations: what is at rest, what is read back, and that everything else passes through. */
import { expect, test, vi } from "vitest";
import { decrypt, encrypt } from "../../../core/contracts/encryption.ts";
import { decryptedObjects, encryptedObjects } from "../../../core/training/encrypted-objects.ts";
import { memoryStore } from "../../fakes/memory-store.ts";

const CANARY = "a canary";
const bytes = (text: string) => new TextEncoder().encode(text);
const text = (stored: Uint8Array | undefined) => new TextDecoder().decode(stored);

function stores() {
  const { objects } = memoryStore();
  return { objects, encrypted: encryptedObjects(objects, CANARY), decrypted: decryptedObjects(objects) };
}

test("a committed object is encrypted at rest, and plain text when it is read through either store", async () => {
  const { objects, encrypted, decrypted } = stores();
  const plain = '{"answer":"Zoë, 東京"}';
  expect(await encrypted.commit("key", bytes(plain))).toBe(true);
  const stored = text(await objects.get("key"));
  expect(stored).toMatch(/^\{"canary":"a canary","encrypted":"[A-Za-z0-9+/=]+"\}$/);
  expect(stored).not.toContain("answer");
  expect(decrypt(JSON.parse(stored).encrypted, CANARY)).toBe(plain);
  expect(text(await encrypted.get("key"))).toBe(plain);
  expect(text(await decrypted.get("key"))).toBe(plain);
});

test("what is read is what was committed, a byte order mark included; what is not UTF-8 is refused, and not written", async () => {
  const { objects, encrypted } = stores();
  const marked = bytes("\uFEFFmarked");
  await encrypted.commit("marked", marked);
  expect(await encrypted.get("marked")).toEqual(marked);
  await expect(encrypted.commit("binary", Uint8Array.of(0x7b, 0xff))).rejects.toThrow("not valid for encoding utf-8");
  expect(objects.keys()).toEqual(["marked"]);
});

test("the decrypting store passes on the hash of what it commits; the encrypting one does not: its bytes differ", async () => {
  const { objects } = memoryStore();
  const commit = vi.fn(objects.commit);
  const watched = { ...objects, commit };
  await decryptedObjects(watched).commit("plain", bytes("plain"), "hash");
  await encryptedObjects(watched, CANARY).commit("secret", bytes("secret"), "hash");
  expect(commit.mock.calls.map(([key, , sha256]) => [key, sha256])).toEqual([
    ["plain", "hash"],
    ["secret", undefined],
  ]);
});

test("repeating a commit with the same text succeeds; with another text it is refused", async () => {
  const { encrypted } = stores();
  expect(await encrypted.commit("key", bytes("one"))).toBe(true);
  expect(await encrypted.commit("key", bytes("one"))).toBe(true);
  expect(await encrypted.commit("key", bytes("two"))).toBe(false);
  expect(text(await encrypted.get("key"))).toBe("one");
});

test("plain objects are read as they are, however short; a missing one is undefined", async () => {
  const { objects, encrypted, decrypted } = stores();
  const plain = ["", "{", '{"canary"', '{"run":"r"}', ' {"canary":1}'];
  for (const [i, one] of plain.entries()) {
    await objects.commit(`plain/${i}`, bytes(one));
    expect(text(await encrypted.get(`plain/${i}`))).toBe(one);
    expect(text(await decrypted.get(`plain/${i}`))).toBe(one);
  }
  expect(await decrypted.get("nowhere")).toBeUndefined();
});

test("the decrypting store commits plain text; both stores pass size and deletion through", async () => {
  const { objects, encrypted, decrypted } = stores();
  expect(await decrypted.commit("plain", bytes("plain"))).toBe(true);
  expect(text(await objects.get("plain"))).toBe("plain");
  await encrypted.commit("secret", bytes("secret"));
  const size = (await objects.get("secret"))?.length;
  for (const store of [encrypted, decrypted]) {
    expect(await store.head("plain")).toBe(5);
    expect(await store.head("secret")).toBe(size);
    expect(await store.head("nowhere")).toBeUndefined();
  }
  await encrypted.delete(["secret"]);
  await decrypted.delete(["plain", "nowhere"]);
  expect(objects.keys()).toEqual([]);
});

test("an encrypted object is decrypted with its own canary; a damaged one is refused, and the error names its key", async () => {
  const { objects, encrypted } = stores();
  await objects.commit("other", bytes(JSON.stringify({ canary: "another", encrypted: encrypt("text", "another") })));
  expect(text(await encrypted.get("other"))).toBe("text");
  for (const [key, damaged] of Object.entries({
    empty: { canary: "", encrypted: "" },
    more: { canary: "c", encrypted: "", extra: 1 },
    less: { canary: "c" },
    unencoded: { canary: "c", encrypted: "no base64!" },
    garbled: { canary: "wrong canary", encrypted: encrypt("乌有城", "right") },
  })) {
    await objects.commit(key, bytes(JSON.stringify(damaged)));
    await expect(encrypted.get(key)).rejects.toMatchObject({
      code: "record-damaged",
      message: expect.stringContaining(key),
    });
  }
});
