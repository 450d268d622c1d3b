/** @file The AWS controls, against a fake server that speaks AWS's protocols, fulfill the contract; so do the in-memory controls of other tests. */
import { afterAll, describe, expect, test } from "vitest";
import { awsControls } from "../../adapters/aws/controls.ts";
import { controlPlane, memoryControls, serveControlPlane } from "../fakes/control-plane.ts";
import { setEnvironment } from "../fakes/environment.ts";
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
