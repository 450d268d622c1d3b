/**
 * @file Evaluates sst.config.ts as `sst deploy` would, with neither AWS nor Pulumi's engine: SST's own components run against mocks that
 * accept everything. Prints the deployment as JSON: every resource with its inputs, and the handlers, the outputs and the app. One process per
 * stage, since SST keeps its state in globals: `evaluate.ts <stage>`. Needs `npx sst install` first (npm run test:infra does it).
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";
import { MOCK_ACCOUNT, MOCK_REGION, mockCall, mockResource } from "./mocks.ts";
import type { Deployment, Inputs, Resource } from "./resources.ts";

interface Pulumi {
  readonly runtime: {
    setMocks(mocks: object, project: string, stack: string, preview: boolean): Promise<void>;
    runInPulumiStack(program: () => Promise<unknown>): Promise<Record<string, unknown>>;
    waitForRPCs(): Promise<void>;
  };
}

const ROOT = resolve(import.meta.dirname, "../..");
const PLATFORM = join(ROOT, ".sst/platform");
/** Pulumi marks its wrapper objects with this key: those of secrets, which have a `value`, and those of assets and archives. */
const WRAPPER_KEY = "4dabf18193072939515e22adb298388d";
const [stage = ""] = process.argv.slice(2);
if (!existsSync(PLATFORM)) throw new Error("there is no .sst/platform: npm run test:infra installs it");
const pulumi = createRequire(join(PLATFORM, "package.json"))("@pulumi/pulumi") as Pulumi;

const folder = mkdtempSync(join(tmpdir(), "mgrpo-infra-"));
const root = openRoot(folder);
const resources: Resource[] = [];
const handlers = new Map<string, string>();
const cli = createServer(async (request, response) => {
  const { method, params } = JSON.parse(await text(request)) as { method: string; params: [Record<string, string>] };
  response.end(JSON.stringify({ id: 1, result: answer(method, params[0]), error: null }));
});
await new Promise<void>((listening) => cli.listen(0, "127.0.0.1", listening));
Object.assign(process.env, {
  SST_SERVER: `http://127.0.0.1:${(cli.address() as AddressInfo).port}`,
  SST_AWS_REGION: MOCK_REGION,
});
try {
  const deployment: Deployment = { ...(await evaluate()), resources, handlers: Object.fromEntries(handlers) };
  process.stdout.write(JSON.stringify(deployment), () => process.exit(0));
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`, () => process.exit(1));
} finally {
  rmSync(folder, { recursive: true });
}

/**
 * A repository as a deployment finds it: links to the real files, and an archive like that of `npm run pack`, with only the files that the
 * deployment reads.
 */
function openRoot(path: string): string {
  execFileSync(process.execPath, ["build.mjs"], { cwd: ROOT });
  for (const name of ["stacks", "package.json", "package-lock.json", "build.mjs", "dist"])
    symlinkSync(join(ROOT, name), join(path, name));
  const { name, version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  for (const file of ["package.json", "dist/release"]) cpSync(join(ROOT, file), join(path, "package", file));
  execFileSync("tar", ["-czf", `${name}-${version}.tgz`, "package"], { cwd: path });
  mkdirSync(join(path, ".sst"));
  return path;
}

/** Answers as the server that the sst command runs for its components. The bundle of a handler is a placeholder. */
function answer(method: string, argument: Record<string, string>): object {
  if (method === "Provider.Aws.Bootstrap")
    return {
      asset: "assets",
      state: "state",
      assetEcrRegistryId: MOCK_ACCOUNT,
      assetEcrUrl: "",
      appsyncHttp: "",
      appsyncRealtime: "",
    };
  if (method !== "Runtime.Build") return {};
  const { functionID = "", handler = "" } = argument;
  const out = join(root, ".sst/artifacts", functionID);
  mkdirSync(out, { recursive: true });
  const file = `${handler.replace(/\.\w+$/, "")}.ts`;
  handlers.set(functionID, file);
  const errors = existsSync(join(ROOT, file)) ? [] : [`${file}: there is no such handler`];
  writeFileSync(join(out, "bundle.mjs"), file);
  return { handler: "bundle.handler", out, errors, sourcemaps: [] };
}

function recordResource(args: Resource) {
  const { type, name } = args;
  resources.push({ type, name, inputs: reveal(args.inputs) as Inputs });
  return mockResource(args);
}

/** The value, with its secrets unwrapped. */
function reveal(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reveal);
  if (typeof value !== "object" || value === null) return value;
  if (WRAPPER_KEY in value && "value" in value) return reveal(value.value);
  return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, reveal(entry)]));
}

async function evaluate(): Promise<Pick<Deployment, "app" | "outputs">> {
  const { app, program } = await bundleConfig();
  await pulumi.runtime.setMocks({ newResource: recordResource, call: mockCall }, app.name, stage, false);
  const outputs = await pulumi.runtime.runInPulumiStack(program);
  await pulumi.runtime.waitForRPCs();
  return { app, outputs };
}

/** sst.config.ts with SST's globals, bundled as the sst command bundles it. */
async function bundleConfig() {
  const globals = `import * as aws from "@pulumi/aws"; import * as sst from "${PLATFORM}/src/components";\n`;
  const ours: Plugin = {
    name: "globals",
    setup: ({ onLoad }) =>
      onLoad({ filter: /\.ts$/ }, ({ path }) =>
        path.startsWith(join(ROOT, "stacks")) || path === join(ROOT, "sst.config.ts")
          ? { contents: globals + readFileSync(path, "utf8"), loader: "ts", resolveDir: dirname(path) }
          : undefined,
      ),
  };
  const config = await loadConfig(ours, "config", "export { default } from './sst.config.ts';", {}, []);
  const { name, removal, protect } = config.default.app({ stage });
  const app = { name, stage, removal, protect, home: "aws", providers: { aws: { region: MOCK_REGION } } };
  const paths = { home: join(root, "home"), root, work: join(root, ".sst"), platform: PLATFORM };
  const define = {
    $app: JSON.stringify(app),
    $cli: JSON.stringify({ command: "deploy", dev: false, paths, state: { version: {} } }),
  };
  const source = `import { run } from "${PLATFORM}/src/auto/run.ts"; import config from "./sst.config.ts";
    export const program = () => run(config.run); export default config;`;
  const { program } = await loadConfig(ours, "program", source, define, [join(PLATFORM, "src/shim/run.js")]);
  return { app, program };
}

interface ConfigModule {
  readonly default: { app(input: { stage: string }): { name: string; removal: string; protect: boolean } };
  readonly program: () => Promise<unknown>;
}

async function loadConfig(
  plugin: Plugin,
  name: string,
  contents: string,
  define: Record<string, string>,
  inject: string[],
): Promise<ConfigModule> {
  // Beside SST's modules, so that imports outside the bundle are found.
  const outfile = join(PLATFORM, `${name}.${process.pid}.mjs`);
  const banner = `import { createRequire } from "node:module"; import { fileURLToPath } from "node:url";
    const require = createRequire(import.meta.url); const __filename = fileURLToPath(import.meta.url);`;
  await build({
    stdin: { contents, resolveDir: ROOT, sourcefile: "evaluate.ts", loader: "ts" },
    banner: { js: `${banner}${name === "config" ? "globalThis.$config = (config) => config;" : ""}` },
    mainFields: ["module", "main"],
    format: "esm",
    platform: "node",
    bundle: true,
    outfile,
    logLevel: "error",
    nodePaths: [join(PLATFORM, "node_modules")],
    external: [
      "@pulumi/*",
      "undici",
      "@pulumiverse/*",
      "@sst-provider/*",
      "@aws-sdk/*",
      "esbuild",
      "archiver",
      "glob",
      "vite",
    ],
    define: { $dev: "false", ...define },
    inject,
    plugins: [plugin],
  });
  try {
    return (await import(pathToFileURL(outfile).href)) as ConfigModule;
  } finally {
    rmSync(outfile);
  }
}
