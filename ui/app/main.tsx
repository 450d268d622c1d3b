/** @file The dashboard in the browser: which page each address has. */
import { render } from "preact";
import { LocationProvider, Route, Router } from "preact-iso";
import { AnswersPage } from "./pages/answers.tsx";
import { CasesPage } from "./pages/cases.tsx";
import { ComparePage } from "./pages/compare.tsx";
import { ConfigPage } from "./pages/config.tsx";
import { EvaluationsPage } from "./pages/evaluations.tsx";
import { GroupPage } from "./pages/group.tsx";
import { RolloutPage } from "./pages/rollout.tsx";
import { RunPage } from "./pages/run.tsx";
import { RunsPage } from "./pages/runs.tsx";
import { StepPage } from "./pages/step.tsx";
import { Notice } from "./parts/notice.tsx";

function App() {
  return (
    <LocationProvider>
      <Router>
        <Route path="/" component={RunsPage} />
        <Route path="/compare" component={ComparePage} />
        <Route path="/runs/:run" component={RunPage} />
        <Route path="/runs/:run/config" component={ConfigPage} />
        <Route path="/runs/:run/cases" component={CasesPage} />
        <Route path="/runs/:run/evaluations" component={EvaluationsPage} />
        <Route path="/runs/:run/evaluations/:job" component={AnswersPage} />
        <Route path="/runs/:run/steps/:step" component={StepPage} />
        <Route path="/runs/:run/steps/:step/:group" component={GroupPage} />
        <Route path="/runs/:run/steps/:step/:group/:rollout" component={RolloutPage} />
        <Route default component={() => <Notice text="There is no such page." />} />
      </Router>
    </LocationProvider>
  );
}

render(<App />, document.body);
