/** @file Writes the pages of atlas's worlds for the app in app.py: `export-pages.ts [file]`. */
import { writeFileSync } from "node:fs";
import { pagesOf } from "../../recipes/atlas/world/pages.ts";
import { worldOf } from "../../recipes/atlas/world/world.ts";

/** World 0 is the real one, for evaluation; training uses 1 to 12. */
const WORLDS = 13;

const [file = "pages.json"] = process.argv.slice(2);
const worlds = Array.from({ length: WORLDS }, (_, world) => [world, Object.fromEntries(pagesOf(worldOf(world)))]);
writeFileSync(file, JSON.stringify(Object.fromEntries(worlds)));
