/** @file Opens the trackers that a config names, with the variables that each tracker's own tools read. */
import { join } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Tracker } from "../../core/tracker.ts";
import { openMlflow } from "./mlflow.ts";
import { type OtlpOptions, openOtlp } from "./otlp.ts";
import { openTensorBoard } from "./tensorboard.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * @param folder the run's own.
 * @param startedAt tells runs of one name apart.
 * @param rollouts of a closed step, for trackers of traces.
 */
export function openTrackers(
  config: RunConfig,
  folder: string,
  startedAt: number,
  rollouts: OtlpOptions["rollouts"],
  environment: Environment,
): Tracker[] {
  const named = { run: config.run, identity: `${config.run}@${startedAt}` };
  return config.track.map((name) => {
    if (name === "tensorboard") return openTensorBoard(join(folder, "tensorboard"));
    if (name === "otlp") return openOtlp({ ...otlpReceiver(environment), ...named, rollouts });
    const experiment = environment["MLFLOW_EXPERIMENT_NAME"] ?? "mgrpo";
    const parameters = Object.fromEntries(settingsOf(config, ""));
    return openMlflow({ ...mlflowServer(environment), ...named, experiment, parameters });
  });
}

/** Throws `config-invalid` if a tracker cannot be opened: before the run, not at its first step. */
export function checkTrackers(
  { track, trackContent }: Pick<RunConfig, "track" | "trackContent">,
  environment: Environment,
): void {
  if (track.includes("mlflow")) mlflowServer(environment);
  if (track.includes("otlp")) otlpReceiver(environment);
  else if (trackContent) {
    throw new MgrpoError("config-invalid", "trackContent: only otlp takes content: add it to track, or leave this out");
  }
}

/** The standard variables of OTLP exporters. Headers: `name=value,…`, with values encoded as in URLs. */
function otlpReceiver(environment: Environment): { readonly url: string; readonly headers: Record<string, string> } {
  const base = environment["OTEL_EXPORTER_OTLP_ENDPOINT"]?.replace(/\/$/, "");
  const address = environment["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] ?? (base && `${base}/v1/traces`) ?? "";
  const server = serverOf(address);
  if (server === undefined) {
    throw new MgrpoError(
      "config-invalid",
      "track: otlp needs OTEL_EXPORTER_OTLP_ENDPOINT: set it to the receiver's address, e.g. http://localhost:4318",
    );
  }
  const given = environment["OTEL_EXPORTER_OTLP_TRACES_HEADERS"] ?? environment["OTEL_EXPORTER_OTLP_HEADERS"] ?? "";
  const pairs = given.split(",").flatMap((pair) => {
    const [, name, value] = /^\s*([^=]+?)\s*=(.*)$/.exec(pair) ?? [];
    return name && value !== undefined ? [[name, decodeURIComponent(value.trim())]] : [];
  });
  const { url, authorization } = server;
  return { url, headers: { ...(authorization !== "" && { authorization }), ...Object.fromEntries(pairs) } };
}

function mlflowServer(environment: Environment): { readonly url: string; readonly authorization: string } {
  const address = environment["MLFLOW_TRACKING_URI"] ?? "";
  const server = serverOf(address);
  if (server === undefined) {
    const given = address === "" ? "is not set" : "is not http or https";
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
  if (token) return { ...server, authorization: `Bearer ${token}` };
  return user ? { ...server, authorization: basicAuthorization(user, password) } : server;
}

interface TrackingServer {
  /** Without a user and password, so that messages can name it. */
  readonly url: string;
  /** Empty: none. */
  readonly authorization: string;
}

/** Takes a user and password out of an address. Undefined: it is not an http or https address. */
function serverOf(address: string): TrackingServer | undefined {
  if (!/^https?:\/\//.test(address) || !URL.canParse(address)) return undefined;
  const url = new URL(address);
  const { username, password } = url;
  if (username === "") return { url: address, authorization: "" };
  url.username = "";
  url.password = "";
  return {
    url: url.href,
    authorization: basicAuthorization(decodeURIComponent(username), decodeURIComponent(password)),
  };
}

const basicAuthorization = (user: string, password = "") =>
  `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;

/** `agents.main.model` -> its value, for every setting. */
function settingsOf(value: unknown, path: string): [string, string][] {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return [[path, typeof value === "string" ? value : JSON.stringify(value)]];
  }
  return Object.entries(value).flatMap(([key, inner]) => settingsOf(inner, path === "" ? key : `${path}.${key}`));
}
