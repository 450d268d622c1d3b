/** @file The script of an exported page: renders pages of the dashboard from the views in the file. The URL's fragment is the path of a page. */
import { type ComponentChildren, render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { LocationProvider, Route, Router } from "preact-iso";
import type { Export } from "../export-view.ts";
import { exportedSource } from "./exported-source.ts";
import { CasesPage } from "./pages/cases.tsx";
import { GroupPage } from "./pages/group.tsx";
import { RolloutPage } from "./pages/rollout.tsx";
import { StepPage } from "./pages/step.tsx";
import { Notice } from "./parts/notice.tsx";
import { SourceContext } from "./source.ts";

const exported: Export = JSON.parse(document.getElementById("views")?.textContent ?? "");
const source = exportedSource(exported);

const addressNow = () => location.hash.slice(1) || exported.start;

/** Gives the router the address after the `#`: the path of a file cannot change. */
function HashLocation({ children }: { readonly children: ComponentChildren }) {
  const [url, setUrl] = useState(addressNow);
  useEffect(() => {
    const read = () => setUrl(addressNow());
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  const value = useMemo(() => {
    const { pathname, searchParams } = new URL(url, "https://exported.invalid");
    return {
      url,
      path: pathname,
      query: Object.fromEntries(searchParams),
      route: (to: string, replaces?: boolean) =>
        replaces ? location.replace(`#${to}`) : void location.assign(`#${to}`),
      back: () => history.back(),
      forward: () => history.forward(),
    };
  }, [url]);
  return <LocationProvider.ctx.Provider value={value}>{children}</LocationProvider.ctx.Provider>;
}

render(
  <SourceContext.Provider value={source}>
    <HashLocation>
      <Router>
        <Route path="/runs/:run/cases" component={CasesPage} />
        <Route path="/runs/:run/steps/:step" component={StepPage} />
        <Route path="/runs/:run/steps/:step/:group" component={GroupPage} />
        <Route path="/runs/:run/steps/:step/:group/:rollout" component={RolloutPage} />
        <Route default component={() => <Notice text="This page does not hold that view." />} />
      </Router>
    </HashLocation>
  </SourceContext.Provider>,
  document.body,
);
