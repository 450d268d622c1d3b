/** @file The SDK's controls, against a server that speaks AWS's protocols, and those in memory that other tests use, keep the contract. */
import { afterAll, describe, expect, test } from "vitest";
import { awsControls } from "../../adapters/aws/controls.ts";
import { controlPlane, memoryControls, serveControlPlane } from "../fakes/control-plane.ts";
import { controlsContract } from "./controls.ts";

const plane = controlPlane(["a", "b"]);
const server = await serveControlPlane(plane);
const before = { ...process.env };
Object.assign(process.env, server.environment, {
  ...{ AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" },
});
afterAll(async () => {
  process.env = before;
  await server.close();
});
const controlsOf = awsControls();

describe("on AWS", () => controlsContract(() => ({ plane, controls: controlsOf({ clockRule: "clock" }) })));
describe("in memory", () => {
  const inMemory = controlPlane(["a", "b"]);
  controlsContract(() => ({ plane: inMemory, controls: memoryControls(inMemory) }));
});

test("what AWS refuses says what was tried, is told by a code, and may be tried again", async () => {
  const { clockSwitch } = controlsOf({ clockRule: "other" });
  await expect(clockSwitch.turn("on")).rejects.toMatchObject({
    ...{ code: "deployment-unreachable", retryable: true },
    message: expect.stringMatching(
      /^turn the clock other on: AWS refused \(ResourceNotFoundException: no rule other\)/,
    ),
  });
});
