/** @file Models from the hub: the cache's layout, what is requested again, single files named by commit and hash, and each failure as one line. */
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openFileCache } from "../../../adapters/checkpoints/cache.ts";
import { openExternalFiles } from "../../../adapters/checkpoints/external-files.ts";
import { fetchModel, resolveCommit } from "../../../adapters/checkpoints/hub/model.ts";
import { hubFileName, parseHubFile } from "../../../core/contracts/hub-model.ts";
import { sha256 } from "../../../engine/hash.ts";
import { COMMIT } from "../../fakes/hub-server.ts";
import { FILES, MODEL, text, useTinyHub, weights } from "./hub/tiny-hub.ts";

const { hub, home, notes, settings, report, root, blobOfWeights, serve } = useTinyHub();

describe("the cache", () => {
  test("is laid out like Python's: refs, blobs by hash, snapshots of relative links", async () => {
    const folder = await fetchModel(MODEL, settings(), report);
    expect(folder).toBe(join(root(), "snapshots", COMMIT));
    expect(readFileSync(join(root(), "refs", "main"), "utf8")).toBe(COMMIT);
    expect(readlinkSync(join(folder, "model.safetensors"))).toBe(`../../blobs/${sha256(weights)}`);
    // git hash-object of {}
    expect(readlinkSync(join(folder, "tokenizer.json"))).toBe("../../blobs/9e26dfeeb6e641a33dae4961196235bdb965b21b");
    for (const [name, bytes] of [...FILES].slice(0, 4))
      expect(Uint8Array.from(readFileSync(join(folder, name))), name).toEqual(bytes);
    expect(existsSync(join(folder, "consolidated.safetensors"))).toBe(false);
    expect(existsSync(join(folder, "pytorch_model.bin"))).toBe(false);
  });

  test("serves a second request without a download, and a commit without any request", async () => {
    await fetchModel(MODEL, settings(), report);
    const before = hub().requests.length;
    await fetchModel(MODEL, settings(), report);
    expect(hub().requests.slice(before)).toEqual(["/api/models/owner/tiny/revision/main"]);
    await fetchModel({ ...MODEL, revision: COMMIT }, settings(), report);
    expect(hub().requests).toHaveLength(before + 1);
  });

  test("is not rewritten where it is already correct: its files may belong to another user", async () => {
    await fetchModel(MODEL, settings(), report);
    const ref = join(root(), "refs", "main");
    utimesSync(ref, 1, 1);
    await fetchModel(MODEL, settings(), report);
    expect(statSync(ref).mtimeMs).toBe(1000);
  });

  test("with an empty ref, as an interrupted write leaves it, resolves no commit", async () => {
    await fetchModel(MODEL, settings(), report);
    writeFileSync(join(root(), "refs", "main"), "");
    await expect(resolveCommit(MODEL, settings({ HF_HUB_OFFLINE: "1" }), report)).rejects.toThrow(
      /^hf:owner\/tiny@main is not complete in .*HF_HUB_OFFLINE is set/,
    );
  });

  test("that Python filled is used: a snapshot in it is not fetched", async () => {
    const folder = join(root(), "snapshots", COMMIT);
    mkdirSync(folder, { recursive: true });
    for (const [name, bytes] of FILES) writeFileSync(join(folder, name), bytes);
    expect(await fetchModel(MODEL, settings(), report)).toBe(folder);
    expect(hub().requests).toEqual(["/api/models/owner/tiny/revision/main"]);
  });
});

const fetching = (more?: Record<string, string>, model = MODEL) => fetchModel(model, settings(more), report);

/** Below the ephemeral port range, so no test listens there. */
const UNREACHABLE = "http://127.0.0.1:10404";

describe("the error is one line that says what to do", () => {
  test.each<[string, () => Promise<unknown>, string, RegExp]>([
    [
      "no token",
      () => fetching({ HF_TOKEN: "", HF_TOKEN_PATH: "/nowhere" }),
      "hub-refused",
      /is gated: accept its terms at .*owner\/tiny and set HF_TOKEN/,
    ],
    [
      "an expired token",
      () => fetching({ HF_TOKEN: "hf_expired" }),
      "hub-refused",
      /^http:\/\/127\.0\.0\.1:\d+ refuses the token \(401\), which is invalid or expired: set HF_TOKEN to a valid one/,
    ],
    [
      "an unknown name",
      () => fetching({}, { ...MODEL, repository: "owner/huge" }),
      "not-found",
      /has no such model, or it is private/,
    ],
    [
      "an unknown revision",
      () => fetching({}, { ...MODEL, revision: "v9" }),
      "not-found",
      /hf:owner\/tiny has no such revision: write a branch/,
    ],
    [
      "an unreachable hub",
      () => fetching({ HF_ENDPOINT: UNREACHABLE }),
      "hub-unavailable",
      /127\.0\.0\.1:10404 does not answer \(ECONNREFUSED\): check the network or HF_ENDPOINT/,
    ],
    [
      "offline mode without a cache",
      () => fetching({ HF_HUB_OFFLINE: "1" }),
      "hub-unavailable",
      /hf:owner\/tiny@main is not complete in .* HF_HUB_OFFLINE is set/,
    ],
    [
      "offline mode of transformers",
      () => fetching({ TRANSFORMERS_OFFLINE: "YES" }),
      "hub-unavailable",
      /TRANSFORMERS_OFFLINE is set: unset it/,
    ],
    [
      "a hub that responds with 503",
      () => {
        hub().faults.status = [503, ""];
        return fetching();
      },
      "hub-unavailable",
      /^http:\/\/127\.0\.0\.1:\d+ responded with 503: check the network/,
    ],
    ...["<!DOCTYPE html>\n<p>Sign in</p>", "{}", ""].map((page): [string, () => Promise<unknown>, string, RegExp] => [
      `a proxy that answers with '${page.slice(0, 9)}'`,
      () => {
        hub().faults.page = page;
        return fetching();
      },
      "hub-unavailable",
      /^http:\/\/127\.0\.0\.1:\d+ does not answer like the Hugging Face Hub \(.*\): check the network or HF_ENDPOINT/,
    ]),
    [
      "a proxy that answers with a page when the commit is known",
      () => {
        hub().faults.page = "<!DOCTYPE html>\n";
        return fetching({}, { ...MODEL, revision: COMMIT });
      },
      "hub-unavailable",
      /^http:\/\/127\.0\.0\.1:\d+ does not answer like the Hugging Face Hub/,
    ],
    ...["../../../../outside", ""].map((oid): [string, () => Promise<unknown>, string, RegExp] => [
      `a mirror that lists the hash '${oid}'`,
      () => {
        hub().faults.page = JSON.stringify([{ type: "file", path: "config.json", size: 2, oid }]);
        return fetching({}, { ...MODEL, revision: COMMIT });
      },
      "hub-unavailable",
      /^http:\/\/127\.0\.0\.1:\d+ does not answer like the Hugging Face Hub \(no hash of config.json\)/,
    ]),
    ...[
      ["a commit", { sha: COMMIT }, "main"],
      ["files", [], COMMIT],
    ].map(([what, answer, revision]): [string, () => Promise<unknown>, string, RegExp] => [
      `a mirror whose answer about ${what} is too large`,
      () => {
        hub().faults.page = JSON.stringify(answer).padEnd(64 * 2 ** 20 + 1);
        return fetching({}, { ...MODEL, revision: String(revision) });
      },
      "hub-unavailable",
      /^http:\/\/127\.0\.0\.1:\d+ does not answer like the Hugging Face Hub \(a response of more than 67108864 bytes\): check/,
    ]),
    ...[
      ["without end", "", /more than 200 pages/],
      ["at another address", "http://127.0.0.1:10404", /a list that continues at http:\/\/127\.0\.0\.1:10404/],
    ].map(([how, address, why]): [string, () => Promise<unknown>, string, RegExp] => [
      `a mirror whose list of files continues ${how}`,
      () => {
        hub().faults.page = "[]";
        hub().faults.next = `${address || hub().url}/next`;
        return fetching({}, { ...MODEL, revision: COMMIT });
      },
      "hub-unavailable",
      why as RegExp,
    ]),
    [
      "a model without one of the shards that its index names",
      async () => {
        const [found, missing] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
        const index = JSON.stringify({ weight_map: { a: found, b: missing } });
        const { "model.safetensors": shard = weights, ...others } = Object.fromEntries(FILES);
        const sharded = { ...others, [found]: shard, "model.safetensors.index.json": text(index) };
        await serve(new Map(Object.entries(sharded)));
        return fetching();
      },
      "checkpoint-damaged",
      /^hf:owner\/tiny@main: its model\.safetensors\.index\.json names model-00002-of-00002\.safetensors, which it does not have/,
    ],
    [
      "a hub that is rate-limiting requests",
      () => {
        hub().faults.status = [429, ""];
        return fetching();
      },
      "hub-unavailable",
      /^http:\/\/127\.0\.0\.1:\d+ is rate-limiting requests \(429\): wait a few minutes, or set HF_TOKEN/,
    ],
  ])("for %s", async (_, run, code, message) => {
    const error = await run().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
    expect((error as Error).message).not.toContain("\n");
  });
});

describe("a file that a run names by commit and hash", () => {
  const part = {
    sha256: sha256(weights),
    bytes: weights.length,
    origin: `hf:owner/tiny@${COMMIT}/model.safetensors`,
  };
  const open = (changes: Partial<typeof part> = {}, more?: Record<string, string>) =>
    openExternalFiles(openFileCache(join(home(), "unused")), () => settings(more))({ ...part, ...changes });

  test("is downloaded once into the hub's cache, without the model's other files", async () => {
    const path = join(root(), "snapshots", COMMIT, "model.safetensors");
    expect(await open()).toEqual({ path, bytes: weights.length, origin: part.origin });
    expect(Uint8Array.from(readFileSync(path))).toEqual(weights);
    expect(readlinkSync(path)).toBe(`../../blobs/${part.sha256}`);
    const before = hub().requests.length;
    expect(hub().requests.every((request) => request.includes(`/resolve/${COMMIT}/model.safetensors`))).toBe(true);
    await open();
    await open({}, { HF_HUB_OFFLINE: "1" });
    expect(hub().requests).toHaveLength(before);
  });

  test("is not fetched if the whole model already was", async () => {
    await fetchModel(MODEL, settings(), report);
    const before = hub().requests.length;
    await open();
    expect(hub().requests).toHaveLength(before);
  });

  test("is refused if its bytes differ, in the cache or on the hub", async () => {
    await expect(open({ sha256: "0".repeat(64) })).rejects.toMatchObject({ code: "checkpoint-damaged" });
    await open();
    writeFileSync(blobOfWeights(), weights.slice().reverse());
    await expect(open()).rejects.toThrow(
      /blobs\/[0-9a-f]{64} differs from hf:owner\/tiny@\w+\/model\.safetensors \(SHA-256 .*\): delete it/,
    );
    rmSync(blobOfWeights());
    const { path } = await open();
    expect(Uint8Array.from(readFileSync(path))).toEqual(weights);
  });

  test("cannot be fetched offline or without access", async () => {
    await expect(open({}, { HF_HUB_OFFLINE: "1" })).rejects.toThrow(
      /^hf:owner\/tiny@[0-9a-f]{40}\/model.safetensors is not in .*, and HF_HUB_OFFLINE is set: unset it$/,
    );
    await expect(open({}, { HF_TOKEN: "", HF_TOKEN_PATH: "/nowhere" })).rejects.toMatchObject({ code: "hub-refused" });
  });

  test("has a name that cannot point elsewhere", () => {
    const file = { repository: "owner/tiny", commit: COMMIT, path: "model.safetensors" };
    expect(hubFileName(file)).toBe(part.origin);
    expect(parseHubFile(part.origin)).toEqual(file);
    for (const path of ["", ".", "..", "a/b", "../blobs/x"])
      expect(parseHubFile(hubFileName({ ...file, path })), path).toBe(undefined);
    expect(parseHubFile("hf:owner/tiny@main/model.safetensors")).toBe(undefined);
  });
});

test("with the hub unreachable, a branch resolves to the cached commit, and a note says so", async () => {
  await fetchModel(MODEL, settings(), report);
  const unreachable = settings({ HF_ENDPOINT: UNREACHABLE });
  expect(await resolveCommit(MODEL, unreachable, report)).toEqual({ ...MODEL, revision: COMMIT });
  expect(notes).toEqual([
    expect.stringMatching(/does not answer .*; hf:owner\/tiny@main is taken from the cache, commit 0123456789ab$/),
  ]);
  expect(await resolveCommit(MODEL, settings({ HF_HUB_OFFLINE: "1" }), report)).toEqual({ ...MODEL, revision: COMMIT });
  expect(notes).toHaveLength(1);
});
