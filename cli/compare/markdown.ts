/** @file summary.md: the comparison as a reader wants it, with what each number means. Pure. */
import { counted, duration } from "../terminal/columns.ts";
import type { ArmResult, Comparison, Measured } from "./summary.ts";

/** `pictures`: title and file of each, in order. */
export function drawMarkdown(
  comparison: Comparison,
  pictures: readonly (readonly [title: string, file: string])[],
): string {
  const { name, recipe, command, commits, machines, hours, seeds, arms, missing } = comparison;
  const [first] = arms;
  const against = first ? `against ${first.label}` : "against the first";
  const suites = first?.heldOut ?? [];
  return [
    `# ${name}: ${counted(arms.length, "arm")}, ${counted(seeds.length, "seed")}`,
    table(
      ["", ""],
      [
        ["command", `\`${command}\``],
        ["recipe", recipe],
        ["commit", commits.join(", ")],
        ["machine", machines.join("; ")],
        ["time", `${duration(3600 * hours)}, of all runs together`],
      ],
    ),
    ...(missing.length > 0
      ? [`**Not finished, and not in here: ${missing.join(", ")}.** The same command goes on.`]
      : []),
    ...pictures.map(([title, file]) => `![${title}](${file})`),
    "## Held-out questions answered right, in per cent",
    ...suites.map((suite, i) => section(`${nameOf(suite)}, ${against}`, arms, (arm) => arm.heldOut[i], against)),
    "## Cost",
    table(
      ["arm", "seeds", "steps", "sampled tokens", "time"],
      arms.map((arm) => [
        arm.label,
        list(arm, ({ seed }) => String(seed)),
        list(arm, ({ steps }) => String(steps)),
        list(arm, ({ sampledTokens, short }) => `${thousands(sampledTokens)}${short ? " (short)" : ""}`),
        list(arm, ({ seconds }) => duration(seconds)),
      ]),
    ),
    ...(first && first.caseStudies.length > 0 ? ["## Case studies", ...caseStudies(arms, first, against)] : []),
    ...(first && first.kinds.length > 0 ? ["## By kind of question, after training", kinds(arms, first)] : []),
    "## Every run",
    table(
      ["run", ...suites.flatMap((suite) => [`${nameOf(suite)}: before`, "after"])],
      arms.flatMap(({ runs }) =>
        runs.map(({ run, evaluations }) => [
          run,
          ...evaluations.flatMap(({ before, after }) => [wilson(before), wilson(after)]),
        ]),
      ),
    ),
    "## How to read this",
    EXPLANATION,
  ]
    .join("\n\n")
    .concat("\n");
}

const EXPLANATION = `- Every arm samples as many tokens in training as the first one does with the same seed, those of frozen agents too, and ends with the step that
  reaches that number. "short": it ran out of steps before.
- Brackets are 95 % intervals. Over arms: a bootstrap over seeds and questions, paired question by question where two things are compared, as
  \`core/training/bootstrap.ts\` describes; with one seed they say nothing of other seeds. Of a run: Wilson's, over its questions.
- A difference is told from chance where its interval does not hold 0. Of many differences at 95 %, one in twenty is not.
- \`shuffled-advantages\` is the control: its rewards are dealt out at random, so its gain must hold 0.
- Every step of every run is in \`steps.csv\`, every evaluation in \`evaluations.csv\`, every question before and after in \`questions.csv\`.`;

function section(
  title: string,
  arms: readonly ArmResult[],
  of: (arm: ArmResult) => Measured | undefined,
  against: string,
): string {
  const rows = arms.map((arm) => {
    const measured = of(arm);
    return [
      arm.label,
      share(measured?.before),
      share(measured?.after),
      difference(measured?.gain),
      difference(measured?.againstFirst),
    ];
  });
  return `### ${title}\n\n${table(["arm", "before", "after", "gain", against], rows)}`;
}

function caseStudies(arms: readonly ArmResult[], first: ArmResult, against: string): string[] {
  return first.caseStudies.map(({ study, right, suite, temperature }) => {
    const of = (arm: ArmResult) => arm.caseStudies.find((one) => one.study === study && one.suite === suite);
    return section(`${study}: ${right}; ${nameOf({ suite, temperature })}`, arms, of, against);
  });
}

function kinds(arms: readonly ArmResult[], first: ArmResult): string {
  return table(
    ["arm", ...first.kinds.map(({ kind }) => kind)],
    arms.map((arm) => [
      arm.label,
      ...first.kinds.map(({ kind }) => share(arm.kinds.find((one) => one.kind === kind)?.after)),
    ]),
  );
}

function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(titles), line(titles.map(() => "---")), ...rows.map(line)].join("\n");
}

const nameOf = ({ suite, temperature }: Pick<Measured, "suite" | "temperature">) =>
  `${suite} (temperature ${temperature})`;

const list = ({ runs }: ArmResult, of: (run: ArmResult["runs"][number]) => string) => runs.map(of).join(", ");
const thousands = (tokens: number) => `${(tokens / 1000).toFixed(1)}k`;
const points = (value: number) => (100 * value).toFixed(1);
const signed = (value: number) => `${value > 0 ? "+" : ""}${points(value)}`;

function share(estimate: Measured["after"] | undefined): string {
  return estimate ? `${points(estimate.value)} [${points(estimate.low)}, ${points(estimate.high)}]` : "-";
}

function difference(estimate: Measured["gain"] | undefined): string {
  return estimate ? `${signed(estimate.value)} [${signed(estimate.low)}, ${signed(estimate.high)}]` : "-";
}

function wilson({ n, correct, interval }: ArmResult["runs"][number]["evaluations"][number]["before"]): string {
  return n === 0 ? "-" : `${points(correct / n)} [${points(interval.low)}, ${points(interval.high)}]`;
}
