// The state browser: what is in a checkpoint or savepoint, rows of a state, and what differs between two snapshots.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, get } from "../api.ts";
import { Badge, Card, Empty, Loaded, Notice, Page, Stat, Stats, Unavailable } from "../components/basics.tsx";
import { Table } from "../components/table.tsx";
import { bytes, count, duration, plural, time } from "../format.ts";
import { useLive } from "../live.ts";
import { pythonType } from "../pythontypes.ts";
import { stateLink } from "../router.ts";
import { may } from "../session.ts";
import type { Checkpoint, Checkpoints, JobSummary } from "../types.ts";
import { isEnded } from "./jobs.tsx";

interface State {
  name: string;
  kind: string;
  key_type: string | null;
  namespace_type: string | null;
  map_key_type: string | null;
  value_type: string | null;
  ttl_ms: number | null;
  rows: number;
  bytes: number;
}

interface Operator {
  uid: string | null;
  id: string;
  name: string;
  parallelism: number;
  finished: boolean;
  states: State[];
}

interface Listing {
  location: string;
  kind: string;
  job_id: string;
  job_name: string;
  checkpoint_id: number;
  created_ms: number;
  files: number;
  bytes: number;
  operators: Operator[];
}

/** The response of a path, requested once, and again when the path changes. */
function useResponse<T>(path: string | null): { data: T | undefined; error: ApiError | null; loading: boolean } {
  const [response, setResponse] = useState<{ path: string; data?: T; error?: ApiError } | null>(null);
  useEffect(() => {
    if (path === null) return undefined;
    let current = true;
    get<T>(path)
      .then((data) => current && setResponse({ path, data }))
      .catch((caught: unknown) => current && setResponse({ path, error: ApiError.of(caught) }));
    return () => {
      current = false;
    };
  }, [path]);
  const known = response !== null && response.path === path;
  return { data: known ? response.data : undefined, error: known ? (response.error ?? null) : null, loading: path !== null && !known };
}

export function StatePage({ given }: { given: string }): JSX.Element {
  const [typed, setTyped] = useState(given);
  useEffect(() => setTyped(given), [given]);
  const look = (event: Event): void => {
    event.preventDefault();
    location.hash = stateLink(typed.trim());
  };
  return (
    <Page title="State">
      <Card>
        <form class="form-row" onSubmit={look}>
          <label class="field wide">
            Checkpoint or savepoint
            <input type="text" required placeholder="file:///savepoints/savepoint-…" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
          <button type="submit" class="primary">Open</button>
        </form>
      </Card>
      {given === "" ? <Known /> : <Snapshot key={given} path={given} />}
    </Page>
  );
}

const MOST_JOBS = 8;

function Known(): JSX.Element {
  const live = useLive<{ jobs: JobSummary[] }>("/jobs/overview");
  return (
    <Loaded from={live} what="the jobs">
      {({ jobs }) => {
        const running = jobs.filter((job) => !isEnded(job.state)).slice(0, MOST_JOBS);
        if (running.length === 0) return <Empty>No jobs are running. Enter the path of a checkpoint or savepoint.</Empty>;
        return (
          <Card title="Latest snapshots of running jobs">
            <ul class="plain">{running.map((job) => <KnownOfJob key={job.jid} job={job} />)}</ul>
          </Card>
        );
      }}
    </Loaded>
  );
}

function KnownOfJob({ job }: { job: JobSummary }): JSX.Element {
  const live = useLive<Checkpoints>(`/jobs/${job.jid}/checkpoints`);
  const found = [live.data?.latest.completed, live.data?.latest.savepoint].filter((one): one is Checkpoint => Boolean(one?.external_path));
  return (
    <li>
      <b>{job.name}</b>{" "}
      {found.length === 0 ? <span class="note">none in files</span> : found.map((one) => (
        <a key={one.external_path} href={stateLink(one.external_path ?? "")}>
          {one.is_savepoint ? "savepoint" : "checkpoint"} {one.id}, {time(one.trigger_timestamp)}{" "}
        </a>
      ))}
    </li>
  );
}

function Snapshot({ path }: { path: string }): JSX.Element {
  const listing = useResponse<Listing>(`/snapshots?path=${encodeURIComponent(path)}`);
  const [chosen, setChosen] = useState<{ operator: Operator; state: State } | null>(null);
  if (listing.error !== null) return <Unavailable status={listing.error.status} error={listing.error.message} />;
  if (listing.data === undefined) return <p class="loading" role="status">Reading {path} …</p>;
  const found = listing.data;
  return (
    <>
      <Stats>
        <Stat label="Kind" value={found.kind.toLowerCase()} note={`number ${found.checkpoint_id}`} />
        <Stat label="Job" value={<span class="words">{found.job_name}</span>} />
        <Stat label="Taken" value={time(found.created_ms)} />
        <Stat label="Size" value={bytes(found.bytes)} note={plural(found.files, "file")} />
      </Stats>
      {found.operators.map((operator) => (
        <Card key={operator.id} title={operator.name} flush aside={<span class="note">{operator.uid === null ? <span title={operator.id}>no uid</span> : operator.uid} · ×{operator.parallelism} {operator.finished && <Badge state="FINISHED" />}</span>}>
          <Table
            label={`States of ${operator.name}`}
            rows={operator.states}
            id={(row) => row.name}
            empty="This operator has no state."
            columns={[
              { name: "State", by: (row) => row.name, cell: (row) => row.name },
              { name: "Kind", by: (row) => row.kind, cell: (row) => row.kind.toLowerCase() },
              { name: "Types", cell: (row) => <code>{pythonType(typesOf(row))}</code> },
              { name: "Time to live", number: true, cell: (row) => (row.ttl_ms === null ? "–" : duration(row.ttl_ms)) },
              { name: "Rows", number: true, by: (row) => row.rows, cell: (row) => count(row.rows) },
              { name: "Size", number: true, by: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
              ...(may("operate") ? [{ name: "View", cell: (row: State) => <button type="button" class="small" onClick={() => setChosen({ operator, state: row })} aria-label={`Rows of ${row.name} of ${operator.name}`}>Rows</button> }] : []),
            ]}
          />
        </Card>
      ))}
      {chosen !== null && <Rows key={`${chosen.operator.id}-${chosen.state.name}`} path={path} operator={chosen.operator} state={chosen.state} />}
      {may("operate") && <Difference first={path} />}
    </>
  );
}

function typesOf(state: State): string {
  const from = [state.key_type, state.namespace_type, state.map_key_type].filter(Boolean).join(", ");
  return from === "" ? (state.value_type ?? "–") : `${from} → ${state.value_type ?? "?"}`;
}

const A_PAGE = 50;

interface RowsPage {
  rows: Record<string, unknown>[];
  offset: number;
  total: number;
  truncated: boolean;
}

function Rows({ path, operator, state }: { path: string; operator: Operator; state: State }): JSX.Element {
  const [typed, setTyped] = useState("");
  const [key, setKey] = useState("");
  const [offset, setOffset] = useState(0);
  const query = new URLSearchParams({ path, operator: operator.uid ?? operator.id, state: state.name, limit: String(A_PAGE) });
  if (key !== "") query.set("key", key);
  else query.set("offset", String(offset));
  const response = useResponse<RowsPage>(`/snapshots/rows?${query}`);
  const rows = response.data?.rows ?? [];
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return (
    <Card title={`${state.name} of ${operator.name}`} flush>
      <form
        class="form-row card-note"
        onSubmit={(event) => {
          event.preventDefault();
          setOffset(0);
          setKey(typed);
        }}
      >
        <label class="field">Key <span class="note">composite keys as JSON</span><input type="search" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
        <button type="submit">Find</button>
        <button type="button" disabled={key !== "" || offset === 0} onClick={() => setOffset(Math.max(0, offset - A_PAGE))}>Previous</button>
        <button type="button" disabled={key !== "" || response.data?.truncated !== true} onClick={() => setOffset(offset + A_PAGE)}>Next</button>
        <span class="note" role="status">{response.loading ? "Reading …" : response.data === undefined ? "" : `${rows.length} of ${count(response.data.total)} rows${key === "" ? `, from ${offset + 1}` : " have this key"}`}</span>
      </form>
      {response.error !== null ? <Notice tone="bad">{response.error.message}</Notice> : (
        <Table
          label="Rows"
          rows={rows.map((row, number) => ({ row, number }))}
          id={({ number }) => number}
          empty={response.loading ? "Reading …" : "No row has this key."}
          columns={names.map((name) => ({ name, cell: ({ row }: { row: Record<string, unknown> }) => <code class="value">{shown(row[name])}</code> }))}
        />
      )}
    </Card>
  );
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
}

interface Differences {
  equal: boolean;
  properties: string[];
  operators: {
    id: string;
    uid: string | null;
    name: string;
    in: string;
    equal: boolean;
    states: { name: string; in: string; equal: boolean; types: string | null; added: number; removed: number; changed: number; entries: unknown[] }[];
  }[];
}

function Difference({ first }: { first: string }): JSX.Element {
  const [typed, setTyped] = useState("");
  const [second, setSecond] = useState("");
  const path = second === "" ? null : `/snapshots/diff?${new URLSearchParams({ first, second })}`;
  const response = useResponse<Differences>(path);
  return (
    <Card title="Compare with another snapshot">
      <form
        class="form-row"
        onSubmit={(event) => {
          event.preventDefault();
          setSecond(typed.trim());
        }}
      >
        <label class="field wide">Later snapshot<input type="text" required value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
        <button type="submit">{response.loading ? "Comparing …" : "Compare"}</button>
      </form>
      {response.error !== null && <Notice tone="bad">{response.error.message}</Notice>}
      {response.data?.equal === true && <Notice tone="good">The snapshots are equal.</Notice>}
      {response.data !== undefined && !response.data.equal && (
        <>
          {response.data.properties.map((property) => <p key={property}>{property}</p>)}
          {response.data.operators.filter((operator) => !operator.equal).map((operator) => (
            <section key={operator.id} aria-label={operator.name}>
              <h3>{operator.name} {operator.in !== "both" && <span class="badge warn">only in the {operator.in}</span>}</h3>
              {operator.states.filter((state) => !state.equal).map((state) => (
                <details key={state.name}>
                  <summary>
                    {state.name}: {state.in === "both" ? `${count(state.added)} added, ${count(state.removed)} removed, ${count(state.changed)} changed` : `only in the ${state.in}`}
                    {state.types !== null && <> · {pythonType(state.types)}</>}
                  </summary>
                  <pre class="traceback" tabIndex={0} role="region" aria-label={`Differences of ${state.name}`}>{state.entries.map((entry) => JSON.stringify(entry)).join("\n")}</pre>
                </details>
              ))}
            </section>
          ))}
        </>
      )}
    </Card>
  );
}
