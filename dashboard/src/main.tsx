// The dashboard's entry point: identifies the user first, then shows the page of the address.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { render, type JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Empty, Page } from "./components/basics.tsx";
import { Shell } from "./components/shell.tsx";
import { JobPage } from "./pages/job.tsx";
import { JobManagerPage } from "./pages/jobmanager.tsx";
import { JobsPage } from "./pages/jobs.tsx";
import { Login } from "./pages/login.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { StatePage } from "./pages/state.tsx";
import { TaskManagerPage, TaskManagersPage } from "./pages/taskmanagers.tsx";
import { VertexPage } from "./pages/vertex.tsx";
import { WheelsPage } from "./pages/wheels.tsx";
import { link, route } from "./router.ts";
import { caller, identify, loggedIn, unreachable } from "./session.ts";

const TITLES: Record<string, string> = {
  "": "Overview",
  jobs: "Running jobs",
  ended: "Ended jobs",
  taskmanagers: "Task managers",
  jobmanager: "Job manager",
  wheels: "Wheels",
  state: "State",
};

function App(): JSX.Element {
  const [first = "", id] = route.value.parts;
  useEffect(() => {
    document.title = `${id ?? TITLES[first] ?? "Not found"} · Millstream`;
  }, [first, id]);
  if (unreachable.value !== "" && caller.value === null) return <p class="loading" role="status">{unreachable.value} Retrying …</p>;
  if (caller.value === null) return <p class="loading" role="status">Millstream …</p>;
  if (!loggedIn.value) return <Login />;
  return <Shell><CurrentPage /></Shell>;
}

function CurrentPage(): JSX.Element {
  const { parts, query } = route.value;
  const [first, id, part, third, fourth, fifth] = parts;
  switch (first) {
    case undefined:
      return <OverviewPage />;
    case "jobs":
      if (id === undefined) return <JobsPage key="running" ended={false} />;
      if (part === "vertices" && third !== undefined) return <VertexPage key={third} job={id} vertex={third} tab={fourth ?? "subtasks"} subtask={fifth} />;
      return <JobPage key={id} id={id} tab={part ?? "graph"} rest={parts.slice(3)} />;
    case "ended":
      return <JobsPage key="ended" ended />;
    case "taskmanagers":
      return id === undefined ? <TaskManagersPage /> : <TaskManagerPage key={id} id={id} tab={part ?? "slots"} slot={third} />;
    case "jobmanager":
      return <JobManagerPage tab={id ?? "logs"} />;
    case "wheels":
      return <WheelsPage />;
    case "state":
      return <StatePage given={query.get("path") ?? ""} />;
    default:
      return <Page title="Not found"><Empty>This page does not exist. <a href={link("")}>Overview</a></Empty></Page>;
  }
}

void identify();
const root = document.getElementById("app");
if (root !== null) {
  root.replaceChildren();
  render(<App />, root);
}
