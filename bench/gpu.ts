/**
 * @file engine.gpu.*: engine.train and engine.sample on every GPU provider that works on this machine, and on the CPU for comparison; the same for
 * a model of Qwen3-0.6B's shape with LoRA, on CUDA also in bf16.
 */
import { isMgrpoError } from "../core/errors.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { TINY_OPTIONS } from "../engine/compiled/provider-check.ts";
import { engineSample, engineTrain } from "./engine.ts";
import { DEVICES, type Device } from "./gpu-figures.ts";
import { measureLora } from "./gpu-lora.ts";
import { writeLoraModel } from "./qwen3/work.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const REPEATS = 3;

/** The devices that work on this machine, GPUs first. */
const available: Device[] = [];
/** Why the other devices do not work. */
const reasons: string[] = [];
for (const device of DEVICES) {
  try {
    await compiledEngine.computesOn?.({ ...TINY_OPTIONS, provider: device.provider, precision: device.precision });
    if (device.provider === "cpu") available.push(device);
    else available.splice(-1, 0, device);
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    reasons.push(error.message);
  }
}
if (reasons.length > 0) console.error(reasons.join("\n"));
if (available.length === 1) process.exit(1);
for (const { provider, precision } of available) {
  if (precision !== "fp32") continue;
  for (const measure of [engineTrain, engineSample]) {
    const { name, config, ...figure } = await measure(REPEATS, provider);
    const gpuName = name.replace("engine.", "engine.gpu.");
    console.log(JSON.stringify({ name: gpuName, ...figure, config: { provider, ...config } }));
  }
}
const folder = temporaryFolder("bench-gpu");
const files = writeLoraModel(folder);
for (const device of available)
  for (const figure of await measureLora(files, device)) console.log(JSON.stringify(figure));
