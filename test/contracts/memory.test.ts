/** @file The store in memory keeps the contracts of the adapters. */
import { describe } from "vitest";
import { memoryStore } from "../fakes/memory-store.ts";
import { clockContract } from "./clock.ts";
import { objectStoreContract } from "./object-store.ts";
import { tableContract, tableLimitsContract } from "./table.ts";

const store = memoryStore();
describe("objects in memory", () => objectStoreContract(() => store.objects));
describe("table in memory", () => tableContract(() => store.table));
describe("limits of the table in memory", () => tableLimitsContract(() => store.table));
describe("clock in memory", () => clockContract(() => store.clock));
