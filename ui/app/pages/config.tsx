/** @file The run's resolved config: each agent's model, tools, sub-agents and system message, then the whole config as JSON. */
import { useRoute } from "preact-iso";
import type { RunView } from "../../views.ts";
import { useView } from "../load.ts";
import { RunHeader } from "../parts/header.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { Pre } from "../parts/pre.tsx";

export function ConfigPage() {
  const { run = "" } = useRoute().params;
  // The page shows no steps, so it asks for those from a step that no run reaches.
  const loaded = useView<RunView>(`/api/runs/${run}?from=1000000000`);
  const { view } = loaded;
  return (
    <>
      <RunHeader run={run} tab="/config" />
      {noticeOf(loaded) ?? (
        <main>
          <h1>Config</h1>
          {view?.agents.map(({ name, model, system, tools, delegates }) => (
            <section key={name}>
              <h2>{name}</h2>
              <p>
                {model}{" "}
                <span class="faint">{[...tools, ...delegates.map((agent) => `delegate → ${agent}`)].join(", ")}</span>
              </p>
              {system !== "" && <Pre label={`system message of ${name}`}>{system}</Pre>}
            </section>
          ))}
          <h2>config.json</h2>
          <pre class="tall">{JSON.stringify(view?.config, null, 2)}</pre>
        </main>
      )}
    </>
  );
}
