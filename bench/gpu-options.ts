/** @file The options of `npm run gpu`, checked before the first part runs. The part `step` checks the values of `--set`. */
import { parseArgs } from "node:util";
import { MgrpoError } from "../core/errors.ts";
import { DEVICES, type Device } from "./gpu-figures.ts";

const PARTS = ["doctor", "tests", "bench", "step"] as const;
type GpuPart = (typeof PARTS)[number];

export interface GpuOptions {
  readonly parts: ReadonlySet<GpuPart>;
  readonly devices: readonly Device[];
  /** Folder with one model per agent; only `step` needs it. */
  readonly models: string;
  readonly set: readonly string[];
}

/** Throws `config-invalid`. */
export function readGpuOptions(args: readonly string[]): GpuOptions {
  const { models = "", devices, set, only } = valuesOf(args);
  const parts = new Set(only.split(",").map(partOf));
  if (models === "" && parts.has("step")) {
    throw refused("--models <folder>: name the folder that `mgrpo sft recipes/gazetteer --to` wrote");
  }
  return { parts, devices: [...new Set(devices.split(","))].map(deviceOf), models, set };
}

function valuesOf(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        models: { type: "string" },
        devices: { type: "string", default: DEVICES.map(({ name }) => name).join(",") },
        set: { type: "string", multiple: true, default: [] },
        only: { type: "string", default: PARTS.join(",") },
      },
    }).values;
  } catch (error) {
    throw refused(`${(error as Error).message} (options: --models, --devices, --set, --only)`);
  }
}

function partOf(wanted: string): GpuPart {
  const part = PARTS.find((name) => name === wanted);
  if (part === undefined) throw refused(`--only ${wanted}: use one of ${PARTS.join(", ")}`);
  return part;
}

function deviceOf(wanted: string): Device {
  const device = DEVICES.find(({ name }) => name === wanted);
  if (!device) throw refused(`--devices ${wanted}: use one of ${DEVICES.map(({ name }) => name).join(", ")}`);
  return device;
}

const refused = (message: string) => new MgrpoError("config-invalid", message);
