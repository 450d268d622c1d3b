/** @file The endpoint checks of `mgrpo doctor`: which variables count as set. */
import { afterEach, expect, test, vi } from "vitest";
import { checkEndpoints } from "../../cli/local/checks.ts";
import { freePort } from "../fakes/proxies.ts";

afterEach(() => void vi.unstubAllEnvs());

test("an empty variable is no endpoint; one where nothing listens is reported with its variable", async () => {
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
