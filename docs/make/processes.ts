/** @file docs/processes.svg: the processes of a run, and what they exchange. */

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly title: string;
  readonly lines: readonly string[];
  readonly fill: string;
}

const INK = "#1f2933";
const QUIET = "#52606d";
const FUNCTION = "#e3f2fd";
const STORE = "#fff3d6";
const WORKER = "#e6f4ea";
const FONT = "font-family='Helvetica, Arial, sans-serif'";

const FUNCTIONS: readonly Box[] = [
  box(190, 20, 164, 78, "start-run", ["checks the config,", "writes the run"], FUNCTION),
  box(370, 20, 164, 78, "tick", ["plans, opens and", "closes steps; repairs"], FUNCTION),
  box(550, 20, 164, 78, "score-rollout", ["rewards, alignment,", "advantages"], FUNCTION),
  box(730, 20, 164, 78, "enqueue-evaluation", ["queues evaluations", "due for a new team"], FUNCTION),
  box(910, 20, 164, 78, "record-evaluation", ["scores and", "confidence intervals"], FUNCTION),
];

const STORES: readonly Box[] = [
  box(
    190,
    162,
    432,
    78,
    "DynamoDB: small records",
    ["run, step, group, agent, worker, job:", "claims, rewards, advantages, versions"],
    STORE,
  ),
  box(
    642,
    162,
    432,
    78,
    "S3: objects, each written once",
    ["outcomes with trajectories, checkpoints,", "team manifests, verdicts, evaluations"],
    STORE,
  ),
];

const WORKERS: readonly Box[] = [
  box(
    190,
    304,
    262,
    96,
    "main agent's worker",
    ["samples its rollouts", "trains its own LLM", "runs its own tools"],
    WORKER,
  ),
  box(
    572,
    304,
    262,
    96,
    "sub-agent's worker",
    ["answers delegations", "trains its own LLM", "runs its own tools"],
    WORKER,
  ),
  box(878, 304, 196, 96, "evaluation worker", ["hosts the whole team", "while training", "continues"], WORKER),
];

/** Width 1094, height 436. */
export function processesPicture(): string {
  const parts = [
    `<rect width="1094" height="436" rx="10" fill="#ffffff"/>`,
    label(24, 48, "Functions", ["short, idempotent:", "AWS Lambda, or a", "local dispatcher"]),
    ...FUNCTIONS.map(draw),
    label(24, 190, "Store", ["the only shared state:", "AWS, or an", "embedded cloud"]),
    ...STORES.map(draw),
    label(24, 332, "Workers", ["long-running, on CPU", "or GPU"]),
    ...WORKERS.map(draw),
    arrow([452, 162], [452, 98], "plans, scores", "two-way"),
    arrow([812, 162], [812, 98], "events: an object was written"),
    arrow([321, 304], [321, 240], "claims, versions, heartbeats", "two-way"),
    arrow([703, 304], [703, 240], "trajectories, checkpoints", "two-way"),
    arrow([452, 338], [572, 338], "delegation"),
    arrow([572, 370], [452, 370], "report"),
    `<text x="512" y="420" ${FONT} font-size="12" fill="${QUIET}" text-anchor="middle">signed HTTP: no gradients, no weights</text>`,
  ];
  const marker = `<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="${QUIET}"/></marker></defs>`;
  const title = "<title>The processes of a run, and what they exchange</title>";
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1094 436" role="img">${title}${marker}\n${parts.join("\n")}\n</svg>\n`;
}

function box(
  x: number,
  y: number,
  width: number,
  height: number,
  title: string,
  lines: readonly string[],
  fill: string,
): Box {
  return { x, y, width, height, title, lines, fill };
}

function draw({ x, y, width, height, title, lines, fill }: Box): string {
  const middle = x + width / 2;
  const first = y + 24;
  const texts = lines.map((line, i) => {
    return `<text x="${middle}" y="${first + 18 * (i + 1)}" ${FONT} font-size="12.5" fill="${QUIET}" text-anchor="middle">${line}</text>`;
  });
  return [
    `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="8" fill="${fill}" stroke="#9aa5b1"/>`,
    `<text x="${middle}" y="${first}" ${FONT} font-size="13.5" font-weight="bold" fill="${INK}" text-anchor="middle">${title}</text>`,
    ...texts,
  ].join("\n");
}

function label(x: number, y: number, title: string, lines: readonly string[]): string {
  const texts = lines.map(
    (line, i) => `<text x="${x}" y="${y + 18 * (i + 1)}" ${FONT} font-size="12" fill="${QUIET}">${line}</text>`,
  );
  const head = `<text x="${x}" y="${y}" ${FONT} font-size="15" font-weight="bold" fill="${INK}">${title}</text>`;
  return [head, ...texts].join("\n");
}

type Position = readonly [number, number];

/** A straight arrow. Its label is beside a vertical one, above a horizontal one. */
function arrow(
  [x1, y1]: Position,
  [x2, y2]: Position,
  text: string,
  direction: "one-way" | "two-way" = "one-way",
): string {
  const start = direction === "two-way" ? ` marker-start="url(#head)"` : "";
  const isVertical = x1 === x2;
  const place = isVertical
    ? `x="${x1 + 8}" y="${(y1 + y2) / 2 + 4}"`
    : `x="${(x1 + x2) / 2}" y="${y1 - 6}" text-anchor="middle"`;
  return [
    `<path d="M${x1},${y1} L${x2},${y2}" fill="none" stroke="${QUIET}" stroke-width="1.6" marker-end="url(#head)"${start}/>`,
    `<text ${place} ${FONT} font-size="12.5" fill="${INK}">${text}</text>`,
  ].join("\n");
}
