/** @file Checks of `mgrpo doctor` that depend on the environment: which endpoints count as set, and where temporary files go. */
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { checkEmbeddedCloud, checkEndpoints } from "../../cli/local/checks.ts";
import { freePort } from "../fakes/proxies.ts";

afterEach(() => void vi.unstubAllEnvs());

test("an empty variable is not an endpoint; an endpoint where nothing listens is reported with its variable", async () => {
  for (const name of ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_S3"]) vi.stubEnv(name, "");
  expect(await checkEndpoints()).toMatchObject([{ name: "endpoints", state: "ok" }]);
  vi.stubEnv("AWS_ENDPOINT_URL_S3", `http://127.0.0.1:${await freePort()}`);
  expect(await checkEndpoints()).toMatchObject([
    {
      name: "AWS_ENDPOINT_URL_S3",
      state: "missing",
      advice: "start the store there, or unset AWS_ENDPOINT_URL_S3",
    },
  ]);
});

test("if the temporary folder does not exist, the embedded cloud is reported as broken, and the check does not throw", async () => {
  for (const name of ["TMPDIR", "TMP", "TEMP"]) vi.stubEnv(name, join(import.meta.dirname, "no-such-folder"));
  expect(await checkEmbeddedCloud()).toMatchObject([
    {
      name: "embedded cloud",
      state: "broken",
      found: expect.stringMatching(/no-such-folder takes no temporary files \(ENOENT\): set TMPDIR/),
    },
  ]);
});
