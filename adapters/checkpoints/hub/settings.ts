/** @file Where the hub and its cache are, from the variables that Hugging Face's Python library reads. */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { MgrpoError } from "../../../core/errors.ts";

export interface HubSettings {
  readonly url: string;
  /** The cache's folder, shared with Python. */
  readonly cache: string;
  readonly token: string | undefined;
  /** HF_HUB_OFFLINE: only the cache is used. */
  readonly isOffline: boolean;
}

const OFFICIAL = "https://huggingface.co";

/** The token is HF_TOKEN, or what `hf auth login` saved. Throws `config-invalid` for a value that is not a token. */
export function hubSettings(environment: Record<string, string | undefined> = process.env): HubSettings {
  const home =
    environment["HF_HOME"] ?? join(environment["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "huggingface");
  const saved = environment["HF_TOKEN_PATH"] ?? join(home, "token");
  const token = environment["HF_TOKEN"]?.trim() || (existsSync(saved) ? readFileSync(saved, "utf8").trim() : "");
  if (token !== "" && !token.startsWith("hf_")) {
    throw new MgrpoError("config-invalid", "HF_TOKEN is no token of the Hugging Face Hub: one starts with hf_");
  }
  return {
    url: (environment["HF_ENDPOINT"] || OFFICIAL).replace(/\/+$/, ""),
    cache: environment["HF_HUB_CACHE"] ?? environment["HUGGINGFACE_HUB_CACHE"] ?? join(home, "hub"),
    token: token || undefined,
    isOffline: /^(1|on|yes|true)$/i.test(environment["HF_HUB_OFFLINE"] ?? ""),
  };
}
