/** @file Opens the trackers that a config names, configured by the environment variables that their own clients read. */
import { join } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Environment } from "../../core/ports.ts";
import type { Tracker } from "../../core/tracker.ts";
import { isHeader } from "../http-header.ts";
import { openMlflow } from "./mlflow.ts";
import { type OtlpOptions, openOtlp } from "./otlp.ts";
import { openTensorBoard } from "./tensorboard.ts";

/**
 * A tracker that the config names twice is opened once: otherwise it would get every metric twice.
 *
 * @param folder the run's folder.
 * @param startedAt tells apart runs with the same name.
 * @param rollouts reads the rollouts of a closed step, for trackers that take traces.
 * @param report receives a line about what a tracker leaves out.
 */
export function openTrackers(
  config: RunConfig,
  folder: string,
  startedAt: number,
  rollouts: OtlpOptions["rollouts"],
  environment: Environment,
  report: OtlpOptions["report"],
): Tracker[] {
  const named = { run: config.run, identity: `${config.run}@${startedAt}` };
  return [...new Set(config.track)].map((name) => {
    if (name === "tensorboard") return openTensorBoard(join(folder, "tensorboard"));
    if (name === "otlp") return openOtlp({ ...otlpReceiver(environment), ...named, rollouts, report });
    const experiment = environment["MLFLOW_EXPERIMENT_NAME"] || "mgrpo";
    const parameters = Object.fromEntries(settingsOf(config, ""));
    return openMlflow({ ...mlflowServer(environment), ...named, startedAt, experiment, parameters });
  });
}

/** Throws `config-invalid` if a tracker's settings are missing or invalid, or content is to be tracked without `otlp`. */
export function checkTrackers(
  { track, trackContent }: Pick<RunConfig, "track" | "trackContent">,
  environment: Environment,
): void {
  if (track.includes("mlflow")) mlflowServer(environment);
  if (track.includes("otlp")) otlpReceiver(environment);
  else if (trackContent) {
    const message = "trackContent: only otlp takes content: add otlp to the setting 'track', or leave trackContent out";
    throw new MgrpoError("config-invalid", message);
  }
}

/** The standard variables of OTLP exporters: those for traces take precedence, and an empty one counts as unset. */
function otlpReceiver(environment: Environment): { readonly url: string; readonly headers: Record<string, string> } {
  const traces = environment["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
  const base = environment["OTEL_EXPORTER_OTLP_ENDPOINT"]?.replace(/\/$/, "");
  const address = traces || (base && `${base}/v1/traces`) || "";
  const server = serverOf(address);
  if (server === undefined) {
    const variable = traces ? "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" : "OTEL_EXPORTER_OTLP_ENDPOINT";
    throw unusable("otlp", variable, address, "the receiver's address, e.g. http://localhost:4318");
  }
  const { url, authorization } = server;
  return { url, headers: { ...(authorization !== "" && { authorization }), ...otlpHeaders(environment) } };
}

/** `name=value,…`, with percent-encoded values. */
function otlpHeaders(environment: Environment): Record<string, string> {
  const variables = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
  const variable = variables.find((name) => environment[name]) ?? "";
  const pairs = (environment[variable] ?? "").split(",").map((pair) => pair.trim());
  const headers = pairs.filter(Boolean).map((pair, i) => {
    const [, name = "", encoded] = /^([^=]+?)\s*=\s*(.*)$/.exec(pair) ?? [];
    const value = encoded === undefined ? undefined : decoded(encoded);
    // Lower case: names that differ in case are the same header.
    if (value !== undefined && isHeader(name, value)) return [name.toLowerCase(), value];
    // The message does not quote the header, which may contain a secret.
    const header = `track: otlp: header ${i + 1} of ${variable}`;
    const fault =
      value === undefined
        ? "is not name=value, with the value percent-encoded: correct it, and write % as %25"
        : "has a character that HTTP does not allow in its name or its value: correct it";
    throw new MgrpoError("config-invalid", `${header} ${fault}`);
  });
  return Object.fromEntries(headers);
}

function mlflowServer(environment: Environment): { readonly url: string; readonly authorization: string } {
  const address = environment["MLFLOW_TRACKING_URI"] ?? "";
  const server = serverOf(address);
  if (server === undefined) {
    throw unusable("mlflow", "MLFLOW_TRACKING_URI", address, "the server's address, e.g. http://localhost:5000");
  }
  const {
    MLFLOW_TRACKING_TOKEN: token,
    MLFLOW_TRACKING_USERNAME: user,
    MLFLOW_TRACKING_PASSWORD: password,
  } = environment;
  // As in MLflow's own client: a user name with a password takes precedence over a token.
  if (token && !(user && password)) {
    const authorization = `Bearer ${token}`;
    if (isHeader("authorization", authorization)) return { ...server, authorization };
    const message =
      "track: mlflow: MLFLOW_TRACKING_TOKEN has a character that HTTP does not allow in a header: correct it";
    throw new MgrpoError("config-invalid", message);
  }
  return user ? { ...server, authorization: basicAuthorization(user, password) } : server;
}

function unusable(tracker: string, variable: string, address: string, remedy: string): MgrpoError {
  const fault = isHttp(address)
    ? "has a user or password that is not percent-encoded (write % as %25)"
    : "is not an http or https address";
  const given = address === "" ? "is empty or not set" : fault;
  return new MgrpoError("config-invalid", `track: ${tracker} needs ${variable}, which ${given}: set it to ${remedy}`);
}

interface TrackingServer {
  /** Without a user and password, so that messages can name it. */
  readonly url: string;
  /** Empty: none. */
  readonly authorization: string;
}

const isHttp = (address: string): boolean => /^https?:\/\//.test(address) && URL.canParse(address);

/** Takes a user and password out of an address. Undefined if `isHttp` is false, or if they are not percent-encoded. */
function serverOf(address: string): TrackingServer | undefined {
  if (!isHttp(address)) return undefined;
  const url = new URL(address);
  if (url.username === "" && url.password === "") return { url: address, authorization: "" };
  const [user, password] = [decoded(url.username), decoded(url.password)];
  if (user === undefined || password === undefined) return undefined;
  url.username = "";
  url.password = "";
  return { url: url.href, authorization: basicAuthorization(user, password) };
}

/** Undefined: a `%` is not part of an encoded character. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
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
