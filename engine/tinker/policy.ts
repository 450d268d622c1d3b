/**
 * @file A Tinker policy in the config: `tinker:<base url>[#<base model>]`, such as `tinker:http://gpu1:8000#Qwen/Qwen3-4B`. Query parameters are
 * refused (the LoRA rank is `agents.<name>.lora.rank`), and so are credentials in the URL.
 */
import { MgrpoError } from "../../core/errors.ts";

export const TINKER = "tinker:";

export interface TinkerPolicy {
  readonly baseUrl: string;
  /** The server's name for the base model. Undefined: the last part of the agent's `model`, which is a folder or a hub model. */
  readonly baseModel: string | undefined;
}

export function parseTinkerPolicy(policy: string): TinkerPolicy {
  const text = policy.slice(TINKER.length);
  if (!policy.startsWith(TINKER) || !/^https?:\/\//.test(text) || !URL.canParse(text)) {
    throw invalid(
      `policy '${withoutCredentials(policy)}': write tinker:http://host:port, with #<base model> unless agents.<name>.model ends in the server's name for that model`,
    );
  }
  const url = new URL(text);
  if (url.username !== "" || url.password !== "") {
    throw invalid(`policy: the URL of ${url.host} must not contain a user name or key: set TINKER_API_KEY`);
  }
  const rank = url.searchParams.get("rank");
  if (rank !== null) {
    throw invalid(`policy of ${url.host}: remove ?rank=${rank} and set agents.<name>.lora.rank=${rank}`);
  }
  if (url.search !== "") {
    // Without their values: one may be a key.
    const names = [...url.searchParams.keys()].join(", ");
    throw invalid(`policy of ${url.host}: it takes no parameters: remove ${names}`);
  }
  return {
    baseUrl: `${url.origin}${url.pathname}`.replace(/\/+$/, ""),
    baseModel: modelOf(url) || undefined,
  };
}

function modelOf({ host, hash }: URL): string {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    throw invalid(`policy of ${host}: the model ${hash} is not valid percent-encoding: write % as %25`);
  }
}

/** Text that is not a URL may contain a user name and a key anywhere before its last `@`, and a key after a `?`. */
const withoutCredentials = (policy: string): string =>
  policy.replace(/^(tinker:)(https?:\/\/)?.*@/, "$1$2").replace(/\?.*/, "?…");

const invalid = (message: string) => new MgrpoError("config-invalid", message);
