/** @file What every ObjectStore does. */
import { expect, test } from "vitest";
import type { ObjectStore } from "../../core/ports.ts";

let made = 0;
const fresh = (name = "x.json") => `runs/r${process.pid}/${++made}/${name}`;
const bytes = (text: string) => new TextEncoder().encode(text);
/** Bytes without a pattern that a block boundary could hide. */
const noise = (length: number) => Uint8Array.from({ length }, (_, i) => (i * 2654435761) >>> 13);

export function objectStoreContract(open: () => ObjectStore) {
  test.each([0, 1, 70_000, 3_000_001])("%i bytes come back as they were committed", async (length) => {
    const [key, body] = [fresh(), noise(length)];
    expect(await open().commit(key, body)).toBe(true);
    expect(Buffer.compare((await open().get(key)) ?? bytes("nothing"), body)).toBe(0);
    expect(await open().head(key)).toBe(length);
  });

  test("what is not there is undefined", async () => {
    expect(await open().get(fresh())).toBeUndefined();
    expect(await open().head(fresh())).toBeUndefined();
  });

  test("the first commit wins; the same bytes again are ours, others are not", async () => {
    const key = fresh();
    expect(await open().commit(key, bytes("one"))).toBe(true);
    expect(await open().commit(key, bytes("two"))).toBe(false);
    expect(await open().commit(key, bytes("one"))).toBe(true);
    expect(await open().get(key)).toEqual(bytes("one"));
  });

  test("one of twenty concurrent commits wins", async () => {
    const key = fresh();
    const won = await Promise.all(Array.from({ length: 20 }, (_, i) => open().commit(key, bytes(`writer ${i}`))));
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(await open().get(key)).toEqual(bytes(`writer ${won.indexOf(true)}`));
  });

  test("changing the array after a commit or a get changes nothing", async () => {
    const [key, body] = [fresh(), bytes("abc")];
    await open().commit(key, body);
    body[0] = 0;
    const got = await open().get(key);
    got?.fill(0);
    expect(await open().get(key)).toEqual(bytes("abc"));
  });

  test.each(["a b+c.json", "é/ü.json", "a%2Fb", "~!*'()$&,;=@:?#[]", '<x>&"y"', "a//b/", "..x", "\u{1f30d}"])(
    "the key %j is only a key",
    async (name) => {
      const key = fresh(name);
      expect(await open().commit(key, bytes(name))).toBe(true);
      expect(await open().get(key)).toEqual(bytes(name));
      await open().delete([key]);
      expect(await open().get(key)).toBeUndefined();
    },
  );

  test("delete takes many keys, those that are not there too, and frees them for another commit", async () => {
    const keys = Array.from({ length: 1005 }, (_, i) => fresh(`${i}`));
    const there = keys.filter((_, i) => i % 100 === 0);
    for (const key of there) await open().commit(key, bytes(key));
    await open().delete(keys);
    for (const key of there) expect(await open().head(key)).toBeUndefined();
    expect(await open().commit(keys[0] ?? "", bytes("again"))).toBe(true);
    await open().delete([]);
  });
}
