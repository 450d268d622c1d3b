/** @file Models of the Hugging Face Hub for the command line: their local folders, the commits that a run records, and a progress line. */
import * as z from "zod";
import {
  type DownloadProgress,
  fetchModel,
  type HubReporter,
  resolveCommit,
} from "../../adapters/checkpoints/hub/model.ts";
import { hubSettings } from "../../adapters/checkpoints/hub/settings.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { HUB_PREFIX, type HubModel, hubFileName, hubModelName, parseHubModel } from "../../core/contracts/hub-model.ts";
import { isEndpointPolicy } from "../../core/contracts/language-model.ts";
import { MgrpoError } from "../../core/errors.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { cut, terminalWidth } from "../terminal/flow.ts";

/** Updates of a live line per second. */
const UPDATES_PER_SECOND = 5;

export const isHubModel = (model: string): boolean => model.startsWith(HUB_PREFIX);

export interface FetchedModel {
  /** On this machine. */
  readonly folder: string;
  /** The name by which every machine gets the same file. */
  originOf(file: string): string;
}

/** A hub model's files, downloaded if they are not in the cache; with its weights only if `withWeights`. */
export async function fetchHubModel(name: string, setting: string, withWeights: boolean): Promise<FetchedModel> {
  const reporter = terminalReporter();
  try {
    const model = await resolveCommit(parsed(name, setting), hubSettings(), reporter);
    const { repository, revision: commit } = model;
    const folder = await fetchModel(model, hubSettings(), reporter, withWeights);
    return { folder, originOf: (path) => hubFileName({ repository, commit, path }) };
  } finally {
    reporter.close();
  }
}

/** The part of a started run's config that names its models. Another release may have written settings that this one does not know. */
export const StartedModels = z.looseObject({ agents: z.record(z.string(), z.looseObject({ model: z.string() })) });
export type StartedModels = z.infer<typeof StartedModels>;

/**
 * The config with every hub model pinned to a commit, so that the run's record names the same files forever: the commit that its revision
 * (by default `main`) names now, or, if the name has no revision and the run has already started, the commit recorded then (`started`).
 */
export async function pinModels(config: RunConfig, started?: StartedModels): Promise<RunConfig> {
  const agents: RunConfig["agents"] = {};
  for (const [name, agent] of Object.entries(config.agents)) {
    const recorded = started?.agents[name]?.model;
    const model = isHubModel(agent.model) && recorded?.startsWith(`${agent.model}@`) ? recorded : agent.model;
    agents[name] = isEndpointPolicy(agent.policy)
      ? agent
      : { ...agent, model: await pinModel(model, `agents.${name}.model`) };
  }
  return { ...config, agents };
}

/** A hub model's name with its commit; any other model as it is. */
export async function pinModel(model: string, setting: string): Promise<string> {
  if (!isHubModel(model)) return model;
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

interface TerminalReporter extends HubReporter {
  /** Ends the live line: what is printed next, such as why a download failed, is on a line of its own. */
  close(): void;
}

/** On a terminal one live line, cut to its width, since a wrapped line cannot be redrawn; elsewhere a line when a file starts. */
export function terminalReporter(stream: NodeJS.WriteStream = process.stderr): TerminalReporter {
  let shownAt = Number.NEGATIVE_INFINITY;
  let file = "";
  let isLive = false;
  return {
    note: (message) => stream.write(`${stripControlCharacters(message)}\n`),
    progress(progress) {
      const isLast = progress.bytes >= progress.totalBytes;
      const isNew = progress.file !== file;
      file = progress.file;
      if (!stream.isTTY) {
        if (isNew) stream.write(`${progressLine(progress)}\n`);
        return;
      }
      const now = performance.now();
      if (!isLast && now - shownAt < 1000 / UPDATES_PER_SECOND) return;
      shownAt = now;
      stream.write(`\r\u001B[K${cut(progressLine(progress), terminalWidth(stream) - 1)}`);
      isLive = true;
    },
    close() {
      if (isLive) stream.write("\n");
      isLive = false;
    },
  };
}

/** A repository's owner names its files, so the line is cleaned. */
function progressLine({ model, file, bytes, totalBytes }: DownloadProgress): string {
  const megabytes = (count: number) => (count / 1e6).toFixed(count < 1e8 ? 1 : 0);
  const name = model.replace(/@([0-9a-f]{8})[0-9a-f]{32}$/, "@$1");
  return stripControlCharacters(`${name}  ${megabytes(bytes)} of ${megabytes(totalBytes)} MB  ${file}`);
}
