/**
 * @file The header of every page: breadcrumbs and, on the pages of a run, its tabs and what it is doing now. In an export, the run's recipe, arm
 * and seed replace the tabs.
 */
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { RunPulse } from "../../views.ts";
import { usePulse } from "../load.ts";
import { useSource } from "../source.ts";
import { dollars, duration } from "./format.ts";
import { Link } from "./link.tsx";

interface Crumb {
  readonly text: string;
  readonly href?: string;
}

interface HeaderProps {
  readonly crumbs: readonly Crumb[];
  readonly children?: ComponentChildren;
}

export function Header({ crumbs, children }: HeaderProps) {
  const title = crumbs.map(({ text }) => text).join(" · ");
  useEffect(() => {
    document.title = title === "" ? "mgrpo" : `${title} – mgrpo`;
  }, [title]);
  return (
    <header>
      <nav aria-label="breadcrumbs">
        <Link to="/" class="home">
          mgrpo
        </Link>
        {crumbs.map(({ text, href }) => (
          <span key={text}>
            <span class="faint"> / </span>
            {href === undefined ? <b>{text}</b> : <Link to={href}>{text}</Link>}
          </span>
        ))}
      </nav>
      {children}
    </header>
  );
}

const TABS = [
  ["", "Training"],
  ["/evaluations", "Evaluations"],
  ["/config", "Config"],
] as const;

interface RunHeaderProps {
  readonly run: string;
  readonly crumbs?: readonly Crumb[];
  /** The path in TABS of this page; absent if the page is not a tab. */
  readonly tab?: string;
}

export function RunHeader({ run, crumbs = [], tab }: RunHeaderProps) {
  const { view: pulse, failure } = usePulse(run);
  const { about } = useSource();
  const first = crumbs.length > 0 ? { text: run, href: `/runs/${run}` } : { text: run };
  return (
    <Header crumbs={[first, ...crumbs]}>
      {about === undefined && (
        <nav class="tabs" aria-label="views of the run">
          {TABS.map(([path, text]) => (
            <a key={path} href={`/runs/${run}${path}`} aria-current={tab === path ? "page" : undefined}>
              {text}
            </a>
          ))}
        </nav>
      )}
      {about !== undefined && <p class="pulse">{about}</p>}
      {pulse && <Pulse pulse={pulse} />}
      {failure && (
        <p class="bad" role="alert">
          {failure.message}
        </p>
      )}
    </Header>
  );
}

function Pulse({ pulse }: { readonly pulse: RunPulse }) {
  const { state, reason, step, wait, stall, usd, workers } = pulse;
  const silent = workers.filter(({ isSilent }) => isSilent);
  return (
    <p class="pulse" role="status">
      <span class={`state ${state}`}>{state}</span> at step {step}
      {wait !== null && `, ${wait}`}
      {reason !== "" && `: ${reason}`}
      {usd !== null && usd > 0 && `, ${dollars(usd)} spent`}
      {stall !== null && <span class="bad">; {stall}</span>}
      {silent.map(({ worker, silentSeconds }) => (
        <span key={worker} class="bad">
          {" "}
          {worker} has been silent for {duration(silentSeconds)}
        </span>
      ))}
    </p>
  );
}
