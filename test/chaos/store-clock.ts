/**
 * @file The clock of a store that a trial does not start. It cannot be set, so a proxy shifts the dates: after a sleep, answers state a time
 * that is ahead of the store's, and the dates of requests, which their signatures cover, are turned back by as much. So a store that verifies
 * signatures refuses a request that was signed before the machine slept, as a store whose clock has jumped ahead would.
 */
import { Hash } from "@smithy/core/serde";
import { SignatureV4 } from "@smithy/signature-v4";
import type { StoreRequest } from "./writes.ts";

export type Headers = StoreRequest["headers"];
/** The headers that a request would have if it had been signed `ms` milliseconds earlier. */
export type TurnBack = (request: StoreRequest, ms: number) => Promise<Headers>;

const SCOPE = /Credential=[^/]+\/\d{8}\/(?<region>[^/]+)\/(?<service>[^/]+)\/.*SignedHeaders=(?<signed>[^,]+)/;

/** @param keys the keys that the trial's processes sign with. */
export function openTurnBack(keys: Readonly<Record<string, string>>): TurnBack {
  const { AWS_ACCESS_KEY_ID: accessKeyId = "", AWS_SECRET_ACCESS_KEY: secretAccessKey = "" } = keys;
  return async ({ method, path: url, headers, body }, ms) => {
    const { region, service, signed } = SCOPE.exec(textOf(headers["authorization"]))?.groups ?? {};
    if (ms === 0 || !region || !service || !signed) return headers;
    const signer = new SignatureV4({
      credentials: { accessKeyId, secretAccessKey },
      region,
      service,
      sha256: Hash.bind(null, "sha256"),
      applyChecksum: false,
      // For S3 the path is signed as it is sent.
      uriEscapePath: service !== "s3",
    });
    const [path = "", search = ""] = url.split(/\?(.*)/s);
    const covered = new Set(signed.split(";"));
    const request = {
      method,
      protocol: "http:",
      hostname: "",
      path,
      query: Object.fromEntries(new URLSearchParams(search)),
      headers: Object.fromEntries([...covered].map((name) => [name, textOf(headers[name])])),
      body,
    };
    const signingDate = new Date(dateOf(textOf(headers["x-amz-date"])) - ms);
    return { ...headers, ...(await signer.sign(request, { signingDate, signableHeaders: covered })).headers };
  };
}

/** @param text such as `20261126T120000Z`. */
const dateOf = (text: string) =>
  Date.parse(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));

const textOf = (header: string | string[] | undefined) => (Array.isArray(header) ? header.join(",") : (header ?? ""));
