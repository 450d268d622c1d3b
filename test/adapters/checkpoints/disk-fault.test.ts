/** @file What a fault of a cache's disk advises. */
import { expect, test } from "vitest";
import { diskFault } from "../../../adapters/checkpoints/disk-fault.ts";

test.each([
  [
    "EACCES",
    13,
    "/c/blob cannot be read or written (EACCES): give this user access, or set HF_HUB_CACHE to another folder",
  ],
  ["EIO", 5, "/c/blob cannot be read or written (EIO): set HF_HUB_CACHE to another folder"],
  ["EMFILE", 24, "/c/blob cannot be opened (EMFILE): raise the limit on open files (ulimit -n)"],
])("%s", (code, errno, message) => {
  const error = Object.assign(new Error(code), { code, errno });
  expect(diskFault("/c/blob", error, "HF_HUB_CACHE")).toMatchObject({ code: "storage-unwritable", message });
});

test("an error that no file system raised is returned as it is", () => {
  const error = new Error("other");
  expect(diskFault("/c/blob", error, "MGRPO_CACHE")).toBe(error);
});
