/**
 * @file An instance's first boot, run by bash in an empty folder, with one small script in place of AWS, the network and
 * systemd: the instance either starts its worker, or logs the reason and terminates itself without a replacement. Then what the units that it
 * writes do.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, inject, onTestFinished, test } from "vitest";
import { cacheFolder } from "../../adapters/checkpoints/cache.ts";
import { hubSettings } from "../../adapters/checkpoints/hub/settings.ts";
import { SERVED_MODEL } from "./evaluations.ts";
import { ofKind, resourceNamed } from "./resources.ts";

const LOCK = resolve(import.meta.dirname, "../../package-lock.json");
const NODE_ARCHIVE = "node";
/** A stand-in for the archive of more than 10 MB that `npm run pack` makes. */
const ARCHIVE = "archive";
const UV = "uv";
const FAKED = "aws chown curl journalctl node npm nvidia-smi python3 shutdown sleep systemctl tar useradd".split(" ");

const END =
  "aws autoscaling terminate-instance-in-auto-scaling-group --should-decrement-desired-capacity --instance-id i-0abc";

/** Fakes every command in FAKED and records its calls. FAULT names the failure. */
const FAKE_COMMAND = `#!/bin/bash
name=$(basename "$0")
echo "$name $*" >> "$ROOT/calls"
case "$name $*" in
  *api/token) echo token ;;
  *local-ipv4) echo 10.0.0.5 ;;
  *instance-id) echo i-0abc ;;
  journalctl*) echo "the worker's own log" ;;
  *spot/instance-action) [ -e "$ROOT/asked" ] || { touch "$ROOT/asked"; exit 22; } ;;
  *SHASUMS256.txt) printf '%s  %s\\n' "$NODE_SHA256" "$NODE_FILE" > SHASUMS256.txt ;;
  *linux-x64.tar.xz) printf ${NODE_ARCHIVE} > "$NODE_FILE" ;;
  "curl "*.whl) printf ${UV} > "$(basename "\${@: -1}")" ;;
  "python3 "*" wheel") mkdir -p wheel/uv-0.data/scripts && touch wheel/uv-0.data/scripts/uv ;;
  *healthz) [ "$FAULT" != silent ] && [ -e "$ROOT/asked-server" ] || { touch "$ROOT/asked-server"; exit 7; } ;;
  "npm ci"*) [ "$FAULT" != disk ] || { ln -s /dev/full "$ROOT/var/log/mgrpo-end.log"; exit 1; } ;;
  "systemctl start mgrpo-server") [ "$FAULT" != install ] ;;
  nvidia-smi*) [ "$FAULT" != driver ] ;;
  "node "*doctor) [ "$FAULT" != doctor ] || { echo '{"state":"broken","name":"engine compiled"}'; exit 1; } ;;
  *"--quiet - "*) cat > "$ROOT/shipped" ;;
  *.tgz*mgrpo.tgz) if [ "$FAULT" = archive ]; then echo other; else printf ${ARCHIVE}; fi > mgrpo.tgz ;;
  *package-lock.json*) cp "$LOCK_FILE" package-lock.json ;;
  *WorkerToken*) echo token-of-all-workers ;;
  *SearchKey*) echo key-of-a-search ;;
  *ModelKey*|*TinkerKey*) echo unset ;;
  *HubToken*) echo token-of-a-hub ;;
  *JudgeKey*) [ "$FAULT" != secret ] || exit 1; printf '%s\\n' 'key-of-a-judge\\n"$1"' ;;
esac
`;

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

function boot(fault = "", fleet = "FleetMain", deployment: "prod" | "served" = "prod") {
  const root = mkdtempSync(join(tmpdir(), "boot-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  for (const folder of ["bin", "etc/systemd/system", "opt", "run", "tmp", "var/log"])
    mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, "var/log/cloud-init-output.log"), "booting\n");
  writeFileSync(join(root, "fake"), FAKE_COMMAND);
  chmodSync(join(root, "fake"), 0o755);
  for (const name of FAKED) symlinkSync(join(root, "fake"), join(root, "bin", name));

  const template = resourceNamed(ofKind(inject(deployment), "LaunchTemplate"), `${fleet}Template`).inputs;
  const script = Buffer.from(template.userData, "base64")
    .toString()
    .replace(/^ARCHIVE_SHA256=.*$/m, `ARCHIVE_SHA256=${sha256(ARCHIVE)}`)
    .replace(/^SERVER_WAITS=.*$/m, "SERVER_WAITS=2")
    .replace(/^UV_SHA256=.*$/m, `UV_SHA256=${sha256(UV)}`)
    .replace(/(?<![\w.$}/])\/(?=(etc|opt|run|tmp|var)\b)/g, `${root}/`);
  const version = /^NODE_VERSION='(.*)'$/m.exec(script)?.[1];
  const bash = (input: string) =>
    execFileSync("bash", ["-s"], {
      input: `exec 2>&1\n${input}`,
      stdio: ["pipe", "pipe", "pipe"],
      env: {
        ...{ PATH: `${join(root, "bin")}:/usr/bin:/bin`, ROOT: root, FAULT: fault, LOCK_FILE: LOCK },
        NODE_FILE: `node-v${version}-linux-x64.tar.xz`,
        NODE_SHA256: sha256(NODE_ARCHIVE),
      },
    });
  const read = (name: string) => (existsSync(join(root, name)) ? readFileSync(join(root, name), "utf8") : undefined);
  const mode = (name: string) => statSync(join(root, name)).mode & 0o777;
  const calls = () => read("calls")?.trimEnd().split("\n") ?? [];
  const last = () => read("shipped")?.trimEnd().split("\n").at(-1);
  const unit = (name: string) => read(`etc/systemd/system/${name}.service`) ?? "";
  /** Runs the ExecStart of a unit, as systemd does: `%i` is the instance name of the unit, the part after `@`. Returns the calls that it makes. */
  const start = (name: string, instance = "") => {
    const before = calls().length;
    bash((/^ExecStart=(.*)$/m.exec(unit(name))?.[1] ?? "").replaceAll("%i", instance));
    return calls().slice(before);
  };
  const output = bash(script).toString();
  return { read, mode, unit, start, last, output, calls: calls(), ended: last() };
}

/** As systemd reads an EnvironmentFile whose values are in double quotes (systemd.exec(5)). */
function environmentOf(file = ""): Record<string, string> {
  const lines = [...file.matchAll(/^(\w+)="((?:[^"\\]|\\.)*)"$/gm)];
  return Object.fromEntries(lines.map(([, name, value]) => [name, value?.replace(/\\(["\\`$])/g, "$1")]));
}

test("a worker gets all the settings it needs, and is started", () => {
  const { read, unit: unitOf, calls, ended } = boot();
  expect(ended).toBeUndefined();
  expect(calls).toContain("systemctl enable --now mgrpo-worker mgrpo-interruption mgrpo-log.timer");
  expect(calls.filter((call) => /^(aws autoscaling|shutdown)/.test(call))).toEqual([]);
  const settings = environmentOf(read("etc/mgrpo/worker.env"));
  expect(settings).toMatchObject({
    ...{ FLEET: "main", ADDRESS: "10.0.0.5", PORT: "7800" },
    ...{ AWS_REGION: "us-east-1", MGRPO_WORKER_TOKEN: "token-of-all-workers" },
    MGRPO_TABLE: ofKind(inject("prod"), "Table")[0]?.inputs.name,
    MGRPO_BUCKET: ofKind(inject("prod"), "Bucket")[0]?.inputs.bucket,
  });
  expect(settings).toMatchObject({ MGRPO_SEARCH_KEY: "key-of-a-search", HF_TOKEN: "token-of-a-hub" });
  // None is passed: the first two are not set, and this fleet calls no judge.
  for (const name of ["MGRPO_MODEL_KEY", "TINKER_API_KEY", "MGRPO_JUDGE_KEY"])
    expect(settings).not.toHaveProperty(name);
  const unit = unitOf("mgrpo-worker");
  expect(unit).toContain(`--fleet \${FLEET} --host`);
  expect(unit).toMatch(/^Environment=MGRPO_PROJECT=.*\/program\/dist\/project$/m);
  // A folder of its user's own, for models from S3 and from the hub; systemd creates it.
  const own = `%C/${/^CacheDirectory=(.*)$/m.exec(unit)?.[1]}`;
  const [, MGRPO_CACHE = "", HF_HOME = ""] = /^Environment=MGRPO_CACHE=(\S*) HF_HOME=(\S*)$/m.exec(unit) ?? [];
  expect(cacheFolder({ MGRPO_CACHE })).toBe(own);
  expect(hubSettings({ HF_HOME }).cache).toBe(`${own}/huggingface/hub`);
});

test("an evaluation worker gets the judge's key too, in a file that only root can read; no key is printed or passed as a command's argument", () => {
  const { read, mode, calls, output } = boot("", "FleetEval");
  expect(environmentOf(read("etc/mgrpo/worker.env"))).toMatchObject({
    MGRPO_JUDGE_KEY: String.raw`key-of-a-judge\n"$1"`,
  });
  expect(mode("etc/mgrpo/worker.env")).toBe(0o600);
  for (const text of [calls.join("\n"), output]) expect(text).not.toContain("key-of-a");
});

test.each([
  ["driver", /no NVIDIA driver/],
  ["archive", /boot failed at line \d+/],
  ["doctor", /doctor: .*engine compiled/],
  ["disk", /boot failed at line \d+/],
])(
  "if a step of the boot fails (%s), an instance terminates itself, logs why, and requests no replacement",
  (fault, reason) => {
    const { read, calls, ended } = boot(fault);
    const line = JSON.parse(ended ?? "");
    expect(line).toMatchObject({ level: "error", what: "instance ended", fleet: "main" });
    expect(line.reason).toMatch(reason);
    expect(calls.filter((call) => call.startsWith("aws autoscaling"))).toEqual([END]);
    expect(calls.some((call) => call.includes("--now mgrpo-worker"))).toBe(false);
    expect(read("etc/mgrpo/worker.env")).toBeUndefined();
  },
);

test("a server is installed and responds before its worker is started, and gets neither keys nor credentials", () => {
  const { read, unit, calls, ended } = boot("", "FleetMain", "served");
  expect(ended).toBeUndefined();
  const first = (part: string) => calls.findIndex((call) => call.includes(part));
  const order = [".whl", "/opt/skyrl skyrl", "start mgrpo-server", "/api/v1/healthz", "enable --now mgrpo-worker"];
  expect(order.map(first).every((at, i, all) => at > (all[i - 1] ?? -1))).toBe(true);
  // The first health check fails.
  expect(calls.filter((call) => call.includes("healthz"))).toHaveLength(2);
  const server = unit("mgrpo-server");
  expect(server).toContain(`--base-model ${SERVED_MODEL} --backend jax --host 127.0.0.1 --port 8000 `);
  // It neither runs as the worker's user, whose environment has keys, nor reaches the instance's credentials.
  expect(server).toMatch(/^User=skyrl$/m);
  expect(server).toMatch(/^IPAddressDeny=169\.254\.169\.254$/m);
  expect(server).not.toContain("worker.env");
  expect(server).toMatch(/^OnFailure=mgrpo-end@server-failed\.service$/m);
  expect(read("opt/skyrl/pyproject.toml")).toMatch(/^dependencies = \["skyrl==/m);
  expect(calls.filter((call) => call.includes("autoscaling"))).toEqual([]);
});

test("every curl request has a time limit: one that stalls would keep a paid instance without a worker", () => {
  const { calls, start } = boot("", "FleetMain", "served");
  const requests = [...calls, ...start("mgrpo-interruption")].filter((call) => call.startsWith("curl "));
  for (const part of ["api/token", "local-ipv4", "SHASUMS256", "linux-x64", ".whl", "healthz", "instance-action"])
    expect(requests.some((call) => call.includes(part))).toBe(true);
  for (const call of requests) expect(call).toMatch(/ --max-time \d+ /);
});

test("after a reboot, systemd starts the server and the worker again: the first boot is not repeated", () => {
  const { calls, unit } = boot("", "FleetMain", "served");
  const enabled = calls.filter((call) => call.startsWith("systemctl enable ")).flatMap((call) => call.split(" "));
  for (const name of ["mgrpo-server", "mgrpo-worker", "mgrpo-interruption"]) {
    expect(enabled).toContain(name);
    expect(unit(name)).toMatch(/^\[Install\]\nWantedBy=multi-user\.target$/m);
  }
});

test("if a reboot interrupts the first boot, the instance terminates itself in the next one", () => {
  const interrupted = boot("archive");
  expect(interrupted.calls).toContain("systemctl enable mgrpo-unfinished");
  expect(interrupted.unit("mgrpo-unfinished")).toMatch(/^\[Install\]\nWantedBy=multi-user\.target$/m);
  expect(interrupted.start("mgrpo-unfinished")).toContain(END);
  expect(JSON.parse(interrupted.last() ?? "").reason).toBe("it was rebooted during its first boot");
  expect(boot().calls.at(-1)).toBe("systemctl disable mgrpo-unfinished");
});

test("a fleet without a server starts none", () => {
  expect(boot().calls.filter((call) => /skyrl|mgrpo-server|\.whl/.test(call))).toEqual([]);
});

test("if a secret cannot be read, an instance terminates itself instead of starting a worker without it", () => {
  const { calls, ended } = boot("secret", "FleetEval");
  expect(JSON.parse(ended ?? "").reason).toMatch(/boot failed at line \d+/);
  expect(calls.filter((call) => call.startsWith("aws autoscaling"))).toEqual([END]);
  expect(calls.some((call) => call.includes("--now mgrpo-worker"))).toBe(false);
});

test.each([
  ["installed", "install", /the server cannot be installed/],
  ["responding", "silent", /the server does not answer on port 8000/],
])("if its server is not %s, the instance terminates itself and starts no worker", (_, fault, reason) => {
  const { calls, ended } = boot(fault, "FleetMain", "served");
  expect(JSON.parse(ended ?? "").reason).toMatch(reason);
  expect(calls.filter((call) => call.startsWith("aws autoscaling"))).toEqual([END]);
  expect(calls.some((call) => call.includes("mgrpo-worker mgrpo-interruption"))).toBe(false);
});

test.each([
  ["mgrpo-worker", "done", "no run needs the worker"],
  ["mgrpo-worker", "worker-failed", "the worker failed five times in ten minutes"],
  ["mgrpo-server", "server-failed", "the server failed five times in ten minutes"],
])(
  "when %s starts mgrpo-end@%s, the instance terminates itself without a replacement, and the last line of its log is the reason",
  (name, how, reason) => {
    const { unit, start, last } = boot("", "FleetMain", "served");
    const [, unless = ""] = /^ConditionPathExists=!(.*)$/m.exec(unit("mgrpo-end@")) ?? [];
    expect(existsSync(unless)).toBe(false);
    expect(unit(name)).toMatch(new RegExp(`^On(Success|Failure)=mgrpo-end@${how}.service$`, "m"));
    expect(start("mgrpo-end@", how)).toContain(END);
    expect(JSON.parse(last() ?? "")).toMatchObject({ reason });
  },
);

test.each(["mgrpo-worker", "mgrpo-server"])(
  "systemd restarts %s after a failure, and ends the instance only after the fifth failure in ten minutes",
  (name) => {
    const unit = boot("", "FleetMain", "served").unit(name);
    for (const line of ["StartLimitIntervalSec=600", "StartLimitBurst=5", "Restart=on-failure", "RestartMode=direct"])
      expect(unit.split("\n")).toContain(line);
    expect(unit).toMatch(/^OnFailure=mgrpo-end@/m);
  },
);

test("an interrupted spot instance drains its worker, and leaves its group the capacity for a replacement", () => {
  const { unit, start } = boot();
  const called = start("mgrpo-interruption");
  expect(called.filter((call) => call.endsWith("spot/instance-action"))).toHaveLength(2);
  expect(called.at(-1)).toBe("systemctl stop mgrpo-worker");
  // The unit that terminates the instance and lowers the capacity does not start.
  expect(existsSync(/^ConditionPathExists=!(.*)$/m.exec(unit("mgrpo-end@"))?.[1] ?? "")).toBe(true);
});
