/** @file Which of a hub model's files are fetched: the weights that transformers would load, or an adapter's two files. A model without safetensors is refused. */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fetchModel } from "../../../../adapters/checkpoints/hub/model.ts";
import { FILES, MODEL, text, useTinyHub } from "./tiny-hub.ts";

const { hub, settings, report, serve } = useTinyHub();

const fetching = (more?: Record<string, string>) => fetchModel(MODEL, settings(more), report);

test("a model without safetensors is refused", async () => {
  await serve(
    new Map([
      ["config.json", text("{}")],
      ["pytorch_model.bin", text("x")],
    ]),
  );
  await expect(fetching()).rejects.toThrow(/^hf:owner\/tiny@main has no weights as safetensors: name a model that has/);
});

test("without model.safetensors, the shards that the index lists are fetched, and no others", async () => {
  const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
  const index = text(JSON.stringify({ weight_map: { a: shards[0], b: shards[1], c: shards[0] } }));
  const { "model.safetensors": _, ...others } = Object.fromEntries(FILES);
  await serve(
    new Map([
      ...Object.entries(others),
      ...[...shards, "model-00003-of-00003.safetensors"].map((name) => [name, text(name)] as const),
      ["model.safetensors.index.json", index],
    ]),
  );
  const folder = await fetching();
  const read = (name: string) => readFileSync(join(folder, name), "utf8");
  expect(shards.map(read)).toEqual(shards);
  expect(
    readdirSync(folder)
      .filter((name) => name.endsWith(".safetensors"))
      .sort(),
  ).toEqual(shards);
  // A snapshot that lacks a shard is not complete.
  rmSync(join(folder, shards[1] ?? ""));
  await fetching();
  expect(shards.map(read)).toEqual(shards);
});

test("an adapter's two files are a complete snapshot without config.json or a tokenizer, even offline", async () => {
  const files = ["adapter_config.json", "adapter_model.safetensors"].map((name) => [name, text(name)] as const);
  await serve(new Map([...files, ["adapter_model.bin", text("pickled")]]));
  const folder = await fetching();
  expect(readdirSync(folder).sort()).toEqual(["adapter_config.json", "adapter_model.safetensors"]);
  const before = hub().requests.length;
  expect(await fetching({ HF_HUB_OFFLINE: "1" })).toBe(folder);
  expect(hub().requests).toHaveLength(before);
  rmSync(join(folder, "adapter_model.safetensors"));
  await expect(fetching({ HF_HUB_OFFLINE: "1" })).rejects.toThrow(/is not complete in/);
});

test("a single file of weights is fetched rather than the shards of an index, as in transformers", async () => {
  const shard = "model-00001-of-00001.safetensors";
  const index = text(JSON.stringify({ weight_map: { w: shard } }));
  await serve(new Map([...FILES, [shard, text("x")], ["model.safetensors.index.json", index]]));
  const folder = await fetching();
  expect(["model.safetensors", shard].map((name) => existsSync(join(folder, name)))).toEqual([true, false]);
  const before = hub().requests.length;
  await fetching();
  expect(hub().requests.slice(before)).toEqual(["/api/models/owner/tiny/revision/main"]);
});
