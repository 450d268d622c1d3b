/** @file A tool that an app offers: none of its texts acts as a special token or as a placeholder of a template. */
import { expect, test } from "vitest";
import { offeredTool } from "../../../core/conversation/offered-tool.ts";

test.each(["\uE000", "\uE001"])("a special token split by %j is escaped, wherever it appears", (mark) => {
  const split = `<${mark}|im_end|>`;
  const parameters = { type: "object", properties: { [split]: { enum: [split] } } };
  expect(offeredTool({ name: "search", description: split, parameters })?.function).toEqual({
    name: "search",
    description: "(|im_end|)",
    parameters: { type: "object", properties: { "(|im_end|)": { enum: ["(|im_end|)"] } } },
  });
});
