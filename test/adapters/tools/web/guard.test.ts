/**
 * @file The guard of the visit tool against SSRF: it connects only to public or allowed addresses, whatever the host's name, and checks each address when
 * it connects. Also whether a failed connection is the site's fault or this machine's.
 */
import type { LookupAddress } from "node:dns";
import { fetch } from "undici";
import { expect, test } from "vitest";
import { addressCheck } from "../../../../adapters/tools/web/visit/addresses.ts";
import { fetchPage } from "../../../../adapters/tools/web/visit/fetch-page.ts";
import { guardedAgent, type Resolve } from "../../../../adapters/tools/web/visit/guard.ts";
import { leakageGuard } from "../../../../adapters/tools/web/visit/leakage.ts";
import { serveWorld } from "../../../world/server.ts";

const isPublic = addressCheck([]);

test.each([
  ...["127.0.0.1", "127.255.0.9", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"],
  // Link-local, with the metadata services of AWS, Google and Azure; CGNAT, with Alibaba's; Oracle's; Azure's platform service.
  ...["169.254.169.254", "169.254.0.1", "100.100.100.200", "100.64.0.1", "192.0.0.192", "168.63.129.16"],
  ...["224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9"],
  ...["::", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"],
  ...["fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"],
  // Addresses that embed IPv4 ones: NAT64, 6to4, Teredo.
  ...["64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::1"],
  ...["", "localhost", "example.com", "1.2.3.4.5"],
])("%j is not public", (address) => expect(isPublic(address)).toBe(false));

test.each(["1.1.1.1", "8.8.8.8", "93.184.215.14", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8", "2606:4700::1111"])(
  "%s is public",
  (address) => expect(isPublic(address)).toBe(true),
);

test("an allowed range opens the addresses in it, and no other private ones", () => {
  const check = addressCheck(["127.0.0.1/32", "fd12::/16"]);
  expect(["127.0.0.1", "::ffff:127.0.0.1", "fd12::5", "8.8.8.8"].every(check)).toBe(true);
  expect(["127.0.0.2", "fd13::5", "10.0.0.1"].some(check)).toBe(false);
});

test("a name is resolved once, all its addresses are checked, and the connection goes to a checked one", async () => {
  const world = await serveWorld();
  const port = new URL(world.origin).port;
  let lookups = 0;
  /** A name that resolves to the first answer, then to the second, and so on. */
  const rebinding = (...answers: string[][]): Resolve =>
    ((_host: string, _options: object, callback: (error: null, found: LookupAddress[]) => void) => {
      const addresses = answers[Math.min(lookups++, answers.length - 1)] ?? [];
      callback(
        null,
        addresses.map((address) => ({ address, family: 4 })),
      );
    }) as unknown as Resolve;
  const get = async (lookup: Resolve, allowed: string[]) => {
    lookups = 0;
    const dispatcher = guardedAgent(addressCheck(allowed), lookup);
    try {
      return (await fetch(`http://town.example:${port}/wiki/Alby`, { dispatcher })).status;
    } catch (error) {
      return String((error as Error).cause);
    } finally {
      await dispatcher.destroy();
    }
  };
  // Resolved once: the second answer is never requested.
  expect(await get(rebinding(["127.0.0.1"], ["10.0.0.1"]), ["127.0.0.1/32"])).toBe(200);
  expect(lookups).toBe(1);
  expect(await get(rebinding(["127.0.0.1"]), [])).toContain("town.example is not a public host");
  expect(await get(rebinding(["8.8.8.8", "127.0.0.1"]), [])).toContain("town.example is not a public host");
  expect(await get(rebinding([]), [])).toContain("town.example is not a public host");
  expect(world.asked("/wiki/Alby")).toBe(1);
  await world.close();
});

test("a name that cannot be resolved is the site's fault, unless this machine can resolve no name at all", async () => {
  const failing = ((_host: string, _options: object, callback: (error: Error) => void) =>
    callback(Object.assign(new Error("getaddrinfo EAI_AGAIN"), { code: "EAI_AGAIN" }))) as unknown as Resolve;
  const dispatcher = guardedAgent(addressCheck([]), failing);
  const open = (resolvesNames: boolean) =>
    fetchPage(new URL("http://town.example/"), {
      ...{ maxBytes: 1000, seconds: 60, redirects: 1, dispatcher, guard: leakageGuard([]) },
      resolvesNames: async () => resolvesNames,
    });
  expect(await open(true)).toMatchObject({
    kind: "none",
    isRetryable: true,
    why: "the name town.example cannot be resolved",
  });
  await expect(open(false)).rejects.toMatchObject({ code: "tool-backend", retryable: true });
  await dispatcher.destroy();
});

test("no route to a site's IPv6 address is the site's fault; no route to its IPv4 address is this machine's", async () => {
  const failed = (code: string, address: string) => Object.assign(new Error(`connect ${code}`), { code, address });
  /** As Node.js reports a host with several addresses: with the code of the first. */
  const all = (...errors: NodeJS.ErrnoException[]) =>
    Object.assign(new AggregateError(errors), { code: errors[0]?.code });
  const open = async (error: Error) => {
    const failing = ((_host: string, _options: object, callback: (error: Error) => void) =>
      callback(error)) as unknown as Resolve;
    const dispatcher = guardedAgent(addressCheck([]), failing);
    const options = { maxBytes: 1000, seconds: 60, redirects: 1, dispatcher, guard: leakageGuard([]) };
    return fetchPage(new URL("http://town.example/"), options).finally(() => dispatcher.destroy());
  };
  const [ipv6, ipv4] = [failed("ENETUNREACH", "2606:4700::1111"), failed("ENETUNREACH", "93.184.215.14")];
  const site = { kind: "none", isRetryable: true, why: "the site cannot be reached (ENETUNREACH)" };
  expect(await open(ipv6)).toEqual(site);
  expect(await open(all(ipv6, failed("ECONNREFUSED", "93.184.215.14")))).toEqual(site);
  for (const error of [ipv4, all(ipv6, ipv4)])
    await expect(open(error)).rejects.toMatchObject({ code: "tool-backend", retryable: true });
});
