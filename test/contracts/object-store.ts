/** @file The contract of ObjectStore, for every adapter: the checks of `mgrpo cloud check`, and what the port promises beyond them. */
import { expect, test } from "vitest";
import { openFreshKeys } from "../../adapters/store-contract/check.ts";
import { objectChecks } from "../../adapters/store-contract/objects.ts";
import type { ObjectStore } from "../../core/ports.ts";

const keys = openFreshKeys(`runs/contract-${process.pid}-${Date.now()}`);
const bytes = (text: string) => new TextEncoder().encode(text);

export function objectStoreContract(open: () => ObjectStore) {
  for (const { name, verify } of objectChecks) test(name, () => verify(open(), keys));

  test("changing the array after a commit or a get does not change the stored object", async () => {
    const [key, body] = [keys.objectKey(), bytes("abc")];
    await open().commit(key, body);
    body[0] = 0;
    const got = await open().get(key);
    got?.fill(0);
    expect(await open().get(key)).toEqual(bytes("abc"));
  });
}
