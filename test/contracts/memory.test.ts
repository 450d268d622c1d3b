/** @file The store in memory fulfills the contracts of the ports, as the adapters do. */
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
