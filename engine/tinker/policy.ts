/**
 * @file What a config says of a Tinker server: `tinker:<base url>[?rank=<LoRA rank>][#<base model>]`, such as
 * `tinker:http://gpu1:8000?rank=16#Qwen/Qwen3-4B`. A setting that is not known is refused, and so is a key in the URL.
 */
import * as z from "zod";
import { parse } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";

export const TINKER = "tinker:";

export interface TinkerPolicy {
  readonly baseUrl: string;
  /** As the server calls it; undefined: the one that is called like the model's folder. */
  readonly baseModel: string | undefined;
  /** Undefined: the folder's own, or 32. */
  readonly rank: number | undefined;
}

const Settings = z.strictObject({ rank: z.coerce.number().int().positive().optional() });

export function parseTinkerPolicy(policy: string): TinkerPolicy {
  const text = policy.slice(TINKER.length);
  if (!policy.startsWith(TINKER) || !/^https?:\/\//.test(text) || !URL.canParse(text)) {
    throw new MgrpoError(
      "config-invalid",
      `policy '${policy}': write tinker:http://host:port, with ?rank=16 and #model where they are needed`,
    );
  }
  const url = new URL(text);
  if (url.username !== "" || url.password !== "") {
    throw new MgrpoError(
      "config-invalid",
      `policy: no user or key belongs in the URL of ${url.host}: set TINKER_API_KEY`,
    );
  }
  const where = `policy of ${url.host}`;
  const { rank } = parse(Settings, Object.fromEntries(url.searchParams), where, "config-invalid");
  return {
    baseUrl: `${url.origin}${url.pathname}`.replace(/\/+$/, ""),
    baseModel: decodeURIComponent(url.hash.slice(1)) || undefined,
    rank,
  };
}
