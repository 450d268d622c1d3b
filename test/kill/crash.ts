/**
 * @file Preloaded (`--import`) into a process under test: kills it with SIGKILL before or after its n-th write to the store, counted
 * from 0, as MGRPO_TEST_CRASH sets it (`12:before`). It counts writes where they leave the process: PUTs to S3, and puts, updates and
 * deletes of DynamoDB items.
 */
import http from "node:http";
import { syncBuiltinESMExports } from "node:module";

const [at, when] = (process.env["MGRPO_TEST_CRASH"] ?? "").split(":");
const fatal = at ? Number(at) : undefined;
let writes = 0;

const die = () => process.kill(process.pid, "SIGKILL");
const original = http.request;

http.request = ((...args: Parameters<typeof http.request>) => {
  const options = [...args].find((arg): arg is http.RequestOptions => typeof arg === "object" && !(arg instanceof URL));
  const isFatal = isWrite(options ?? {}) && writes++ === fatal;
  if (isFatal && when === "before") die();
  const request = original(...args);
  if (isFatal) request.prependListener("response", die);
  return request;
}) as typeof http.request;
syncBuiltinESMExports();

function isWrite({ method, headers }: http.RequestOptions): boolean {
  if (method === "PUT") return true;
  const target = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === "x-amz-target")?.[1];
  return /\.(PutItem|UpdateItem|DeleteItem)$/.test(String(target));
}
