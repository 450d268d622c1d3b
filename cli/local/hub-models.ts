/** @file Models of the Hugging Face Hub for the command line: the folder of one, the commits that a run records, and a progress line. */
import {
  type DownloadProgress,
  fetchModel,
  type HubReporter,
  resolveCommit,
} from "../../adapters/checkpoints/hub/model.ts";
import { hubSettings } from "../../adapters/checkpoints/hub/settings.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { HUB_PREFIX, type HubModel, hubModelName, parseHubModel } from "../../core/contracts/hub-model.ts";
import { isEndpointPolicy } from "../../core/contracts/language-model.ts";
import { MgrpoError } from "../../core/errors.ts";

/** Updates of a live line per second. */
const LINES_PER_SECOND = 5;

export const isHubModel = (model: string): boolean => model.startsWith(HUB_PREFIX);

/** The folder with its files, downloaded if they are not in the cache. */
export function hubModelFolder(model: string, setting: string): Promise<string> {
  return fetchModel(parsed(model, setting), hubSettings(), terminalReporter());
}

/** The config with every hub model at the commit that it has now, so that the run's record names the same files forever. */
export async function pinModels(config: RunConfig): Promise<RunConfig> {
  const agents: RunConfig["agents"] = {};
  for (const [name, agent] of Object.entries(config.agents)) {
    const isOurs = isHubModel(agent.model) && !isEndpointPolicy(agent.policy);
    agents[name] = isOurs ? { ...agent, model: await pinned(agent.model, `agents.${name}.model`) } : agent;
  }
  return { ...config, agents };
}

async function pinned(model: string, setting: string): Promise<string> {
  return hubModelName(await resolveCommit(parsed(model, setting), hubSettings(), terminalReporter()));
}

function parsed(model: string, setting: string): HubModel {
  const hub = parseHubModel(model);
  if (hub) return hub;
  throw new MgrpoError(
    "config-invalid",
    `${setting}: '${model}' names no model of the hub: write hf:<owner>/<name> or hf:<owner>/<name>@<revision>`,
  );
}

/** On a terminal one live line; elsewhere a line when a file starts. */
function terminalReporter(stream: NodeJS.WriteStream = process.stderr): HubReporter {
  let shownAt = Number.NEGATIVE_INFINITY;
  let file = "";
  return {
    note: (message) => stream.write(`${message}\n`),
    progress(progress) {
      const isLast = progress.bytes >= progress.totalBytes;
      const isNew = progress.file !== file;
      file = progress.file;
      if (!stream.isTTY) {
        if (isNew) stream.write(`${progressLine(progress)}\n`);
        return;
      }
      const now = performance.now();
      if (!isLast && now - shownAt < 1000 / LINES_PER_SECOND) return;
      shownAt = now;
      stream.write(`\r\u001B[K${progressLine(progress)}${isLast ? "\n" : ""}`);
    },
  };
}

function progressLine({ model, file, bytes, totalBytes }: DownloadProgress): string {
  const megabytes = (count: number) => (count / 1e6).toFixed(count < 1e8 ? 1 : 0);
  return `${model.replace(/@([0-9a-f]{8})[0-9a-f]{32}$/, "@$1")}  ${megabytes(bytes)} of ${megabytes(totalBytes)} MB  ${file}`;
}
