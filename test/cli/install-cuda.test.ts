/** @file What to do when the CUDA provider cannot be installed depends on why the runtime's script failed. */
import { expect, test } from "vitest";
import { installFailure } from "../../cli/local/install-cuda.ts";

test.each<[string, RegExp]>([
  ["Error: getaddrinfo ENOTFOUND api.nuget.org", /ENOTFOUND api\.nuget\.org\): .*let this machine reach it/],
  ["Error: EACCES: permission denied, copyfile '/tmp/a' -> '/lib/a'", /'\/lib\/a'\): let this user write there/],
  ["Error: ENOSPC: no space left on device, write", /no space left on device, write\): .*on a disk with room/],
  ["", /\(its script was killed by SIGKILL\): .*let this machine reach it/],
])("the advice depends on the error of the runtime's script: %j", (line, message) => {
  const errors = `node:internal/process\n${line}\n    at installPackages\n`;
  const error = installFailure(errors, "was killed by SIGKILL");
  expect(error).toMatchObject({ code: "engine-unsupported", message: expect.stringMatching(message) });
});
