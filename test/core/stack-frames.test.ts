/** @file The frames of a stack as V8 writes it: paths without queries, and names of Node's modules; no frames of `data:` URLs or evaluated code. */
import { expect, test } from "vitest";
import { framesOf, withPaths } from "../../core/stack-frames.ts";

test("the path, line and column of each frame in a file or a module of Node, innermost first; other frames are left out", () => {
  const error = new Error("no such key (a:1:2)");
  error.stack = `Error: no such key (a:1:2)
    at JSON.parse (<anonymous>)
    at Object.run (file:///my%20team/tools.ts?namespace=own:3:9)
    at async Object.run [as answer] (file:///team (2)/tools.ts:4:2)
    at /team/world.ts:5:1
    at /team (2)/world.ts:6:1
    at eval (eval at run (file:///team/tools.ts:3:9), <anonymous>:1:5)
    at run (data:text/javascript,throw:1:1)
    at async Promise.all (index 0)
    at data:text/javascript,throw:1:1
    at async node:internal/timers:1:2`;
  const toPath = (url: string) => decodeURI(url.replace("file://", "").replace(/\?.*/, ""));
  expect(framesOf(error, toPath)).toEqual([
    "/my team/tools.ts:3:9",
    "/team (2)/tools.ts:4:2",
    "/team/world.ts:5:1",
    "/team (2)/world.ts:6:1",
    "node:internal/timers:1:2",
  ]);
  expect(framesOf("no error", toPath)).toEqual([]);
});

test("a stack names the files that tsx loads from `data:` URLs, without the lines of their compiled text", () => {
  const url =
    "data:text/javascript,const%20f%3D()%3D%3E%7Bthrow%20Error('x%3F')%7D?filePath=%2Fmy%20team%2Frollout.ts%3Fnamespace%3Down";
  const frames = ["at f (/my team/rollout.ts)", "at async /my team/rollout.ts", "at run (file:///app.js:1:2)"];
  const stack = `Error: x\n    at f (${url}:2:89)\n    at async ${url}:3:1\n    at run (file:///app.js:1:2)`;
  expect(withPaths(stack)).toBe(["Error: x", ...frames.map((frame) => `    ${frame}`)].join("\n"));
});
