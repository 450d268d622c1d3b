/** @file Opens the trackers that a config names, with the variables that each tracker's own tools read. */
import { join } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Tracker } from "../../core/tracker.ts";
import { openMlflow } from "./mlflow.ts";
import { openTensorBoard } from "./tensorboard.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * @param folder the run's own.
 * @param startedAt tells runs of one name apart.
 */
export function openTrackers(
  config: RunConfig,
  folder: string,
  startedAt: number,
  environment: Environment,
): Tracker[] {
  return config.track.map((name) =>
    name === "tensorboard"
      ? openTensorBoard(join(folder, "tensorboard"))
      : openMlflow({
          ...mlflowServer(environment),
          experiment: environment["MLFLOW_EXPERIMENT_NAME"] ?? "mgrpo",
          run: config.run,
          identity: `${config.run}@${startedAt}`,
          parameters: Object.fromEntries(settingsOf(config, "")),
        }),
  );
}

/** Throws `config-invalid` if a tracker cannot be opened: before the run, not at its first step. */
export function checkTrackers({ track }: Pick<RunConfig, "track">, environment: Environment): void {
  if (track.includes("mlflow")) mlflowServer(environment);
}

function mlflowServer(environment: Environment): { readonly url: string; readonly authorization: string } {
  const url = environment["MLFLOW_TRACKING_URI"] ?? "";
  if (!/^https?:\/\//.test(url)) {
    const given = url === "" ? "is not set" : "is not http or https";
    throw new MgrpoError(
      "config-invalid",
      `track: mlflow needs MLFLOW_TRACKING_URI, which ${given}: set it to the server's address, e.g. http://localhost:5000`,
    );
  }
  const {
    MLFLOW_TRACKING_TOKEN: token,
    MLFLOW_TRACKING_USERNAME: user,
    MLFLOW_TRACKING_PASSWORD: password,
  } = environment;
  if (token) return { url, authorization: `Bearer ${token}` };
  if (!user) return { url, authorization: "" };
  return { url, authorization: `Basic ${Buffer.from(`${user}:${password ?? ""}`).toString("base64")}` };
}

/** `agents.main.model` -> its value, for every setting. */
function settingsOf(value: unknown, path: string): [string, string][] {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return [[path, typeof value === "string" ? value : JSON.stringify(value)]];
  }
  return Object.entries(value).flatMap(([key, inner]) => settingsOf(inner, path === "" ? key : `${path}.${key}`));
}
