/** @file Base models from the hub: what is downloaded for a Tinker server, and how a damaged copy in the cache is replaced. */
import { realpathSync, rmSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { readBases } from "../../cli/local/base-models.ts";
import { tinyCheckpoint } from "../engine/tiny.ts";
import { COMMIT, type FakeHub, startHub, TOKEN } from "../fakes/hub-server.ts";
import { bpeFiles } from "../fixtures/tokenizers.ts";
import { configOf, modelFolders, ROOMY } from "./model-folders.ts";

const { root } = modelFolders();
const GENERATION = ["generation_config.json", Buffer.from("{}")] as const;
const SNAPSHOT = join(root, "hub", "models--owner--tiny", "snapshots", COMMIT);
let hub: FakeHub;

beforeEach(async () => {
  hub = await startHub("owner/tiny", new Map([...tinyCheckpoint(ROOMY), ...bpeFiles(), GENERATION]));
  vi.stubEnv("HF_ENDPOINT", hub.url);
  vi.stubEnv("HF_HOME", root);
  vi.stubEnv("HF_TOKEN", TOKEN);
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  await hub.close();
  rmSync(join(root, "hub"), { recursive: true });
});

test("the weights of a model on a Tinker server are not downloaded, and its other files once", async () => {
  const config = configOf("hf:owner/tiny", { policy: "tinker:http://gpu1:8000", lora: null });
  const read = async () => [...((await readBases(config, "train")).get("main")?.keys() ?? [])].sort();
  const tokenizer = ["tokenizer.json", "tokenizer_config.json"];
  expect(await read()).toEqual(["config.json", "generation_config.json", "tinker.json", ...tokenizer]);
  expect(hub.requests.filter((request) => request.includes("model.safetensors"))).toEqual([]);
  const before = hub.requests.length;
  await read();
  // Only the revision is looked up again.
  expect(hub.requests.slice(before)).toEqual(["/api/models/owner/tiny/revision/main"]);
  expect([...((await readBases(configOf("hf:owner/tiny"), "evaluate")).get("main")?.keys() ?? [])]).toContain(
    "model.safetensors",
  );
});

test("a file that is damaged in the cache is named by the path to delete, and is then downloaded again", async () => {
  const config = configOf("hf:owner/tiny");
  await readBases(config, "train");
  const path = realpathSync(join(SNAPSHOT, "model.safetensors"));
  truncateSync(path, 5000);
  await expect(readBases(config, "train")).rejects.toMatchObject({
    code: "checkpoint-damaged",
    message: expect.stringMatching(
      new RegExp(
        `^model of agent 'main', hf:owner/tiny: model.safetensors: cut off .*: download the file again.* \\(to download it again, delete ${path} first\\)$`,
      ),
    ),
  });
  rmSync(path);
  expect((await readBases(config, "train")).has("main")).toBe(true);
});
