/**
 * @file Where the hub and its cache are, from the variables of Hugging Face's Python library, read as it reads them: HF_ENDPOINT, HF_TOKEN (or
 * HUGGING_FACE_HUB_TOKEN), HF_TOKEN_PATH, HF_HUB_CACHE (or HUGGINGFACE_HUB_CACHE), HF_HOME, XDG_CACHE_HOME, HF_HUB_OFFLINE (or
 * TRANSFORMERS_OFFLINE). Paths may contain `~`, `$VARIABLE` and `${VARIABLE}`. Unlike in Python, an empty variable counts as unset,
 * and a token has to start with hf_: @huggingface/hub accepts no other.
 */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { HttpUrl } from "../../../core/contracts/http-url.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { Environment } from "../../../core/ports.ts";

export interface HubSettings {
  readonly url: string;
  /** The cache's folder, shared with Python. */
  readonly cache: string;
  readonly token: string | undefined;
  /** The variable that forbids requests, so that only the cache is used. */
  readonly offlineBy: "HF_HUB_OFFLINE" | "TRANSFORMERS_OFFLINE" | undefined;
}

const OFFICIAL = "https://huggingface.co";

/**
 * The token is HF_TOKEN or HUGGING_FACE_HUB_TOKEN, else what `hf auth login` saved. Throws `config-invalid` for a value that is not a token,
 * for a token file that cannot be read, or for an HF_ENDPOINT that is not an address or has a password.
 */
export function hubSettings(environment: Environment = process.env): HubSettings {
  const path = (...names: string[]) => {
    const [first] = names.flatMap((name) => environment[name] || []);
    return first && expanded(first, environment);
  };
  const home = path("HF_HOME") ?? join(path("XDG_CACHE_HOME") ?? join(homedir(), ".cache"), "huggingface");
  return {
    url: urlOf(environment),
    cache: path("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE") ?? join(home, "hub"),
    token: tokenOf(environment, path("HF_TOKEN_PATH") ?? join(home, "token")),
    offlineBy: offlineBy(environment),
  };
}

/** The message does not repeat the address, which may contain a password. `fetch` sends no request to such an address. */
function urlOf({ HF_ENDPOINT: endpoint }: Environment): string {
  const url = endpoint || OFFICIAL;
  if (HttpUrl.safeParse(url).success) return url.replace(/\/+$/, "");
  throw new MgrpoError(
    "config-invalid",
    "HF_ENDPOINT must be an http or https address without a user name or password: correct it; a mirror's token goes into HF_TOKEN",
  );
}

function tokenOf(environment: Environment, saved: string): string | undefined {
  for (const name of ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]) {
    const token = environment[name]?.trim();
    if (token) return checkedToken(token, name);
  }
  const token = existsSync(saved) ? readToken(saved) : "";
  return token === "" ? undefined : checkedToken(token, saved);
}

function readToken(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (cause) {
    const why = `${path} cannot be read (${(cause as Error).message})`;
    throw new MgrpoError("config-invalid", `${why}: make it a file that you can read, or set HF_TOKEN`, { cause });
  }
}

/** Printable ASCII without spaces: the error of `fetch` about a token that no header can hold would repeat it. */
const TOKEN = /^hf_[!-~]+$/;

function checkedToken(token: string, source: string): string {
  if (TOKEN.test(token)) return token;
  throw new MgrpoError(
    "config-invalid",
    `${source} does not hold a Hugging Face token, which starts with hf_ and has no spaces: create one at ${OFFICIAL}/settings/tokens, or remove ${source}`,
  );
}

/** The first variable that is set decides. */
function offlineBy(environment: Environment): HubSettings["offlineBy"] {
  const name = environment["HF_HUB_OFFLINE"] ? "HF_HUB_OFFLINE" : "TRANSFORMERS_OFFLINE";
  return /^(1|on|yes|true)$/i.test(environment[name] ?? "") ? name : undefined;
}

/** As Python's `expanduser` (except `~user`) and `expandvars`: an unknown variable stays as it is. */
const expanded = (path: string, environment: Environment): string =>
  path
    .replace(/^~(?=$|[/\\])/, homedir())
    .replace(
      /\$(?:(\w+)|\{([^}]*)\})/g,
      (text, name?: string, braced?: string) => environment[name ?? braced ?? ""] ?? text,
    );
