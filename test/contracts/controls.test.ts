/**
 * @file The AWS controls, against a fake server that speaks AWS's protocols, fulfill the contract and translate errors. The in-memory controls
 * of other tests fulfill the contract, too.
 */
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { awsControls } from "../../adapters/aws/controls.ts";
import { controlPlane, memoryControls, serveControlPlane } from "../fakes/control-plane.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { serveHttp } from "../fakes/http-server.ts";
import { controlsContract } from "./controls.ts";

const plane = controlPlane(["a", "b"]);
const server = await serveControlPlane(plane);
const restoreEnvironment = setEnvironment({
  ...server.environment,
  AWS_REGION: "us-east-1",
  AWS_ACCESS_KEY_ID: "id",
  AWS_SECRET_ACCESS_KEY: "secret",
});
afterAll(async () => {
  restoreEnvironment();
  await server.close();
});
const controlsOf = awsControls();

describe("on AWS", () =>
  controlsContract(() => ({ plane, controls: controlsOf({ bucket: "objects", clockRule: "clock" }) })));
describe("in memory", () => {
  const inMemory = controlPlane(["a", "b"]);
  controlsContract(() => ({ plane: inMemory, controls: memoryControls(inMemory) }));
});

test("the error for a call that AWS refuses names the operation, has a code and is retryable", async () => {
  const { scheduleSwitch } = controlsOf({ bucket: "objects", clockRule: "other" });
  await expect(scheduleSwitch.turn("on")).rejects.toMatchObject({
    code: "deployment-unreachable",
    retryable: true,
    message: expect.stringMatching(
      /^turn the schedule 'other' on: the call to AWS failed \(ResourceNotFoundException: no rule other\)/,
    ),
  });
});

test("events that EventBridge refuses, in a request that it accepts, are an error", async () => {
  const Entries = [{ EventId: "1" }, { ErrorCode: "ThrottlingException", ErrorMessage: "too many" }];
  const origin = await serveHttp((request, response) => {
    request.resume();
    response.end(JSON.stringify({ FailedEntryCount: 1, Entries }));
  });
  onTestFinished(setEnvironment({ AWS_ENDPOINT_URL_EVENTBRIDGE: origin }));
  const { events } = awsControls()({ bucket: "objects", clockRule: "clock" });
  await expect(events.redeliver(["a", "b"])).rejects.toMatchObject({
    code: "deployment-unreachable",
    message: expect.stringContaining(
      "redeliver 2 object events of bucket 'objects': the call to AWS failed (Error: EventBridge refused 1 of 2: too many)",
    ),
  });
});
