// Wheels: upload, plan, run with arguments, delete.

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { ApiError, send } from "../api.ts";
import { Card, Empty, Loaded, Notice, Page } from "../components/basics.tsx";
import { Dialog } from "../components/dialog.tsx";
import { JobGraph } from "../components/graph.tsx";
import { Table } from "../components/table.tsx";
import { time } from "../format.ts";
import { refresh, useLive } from "../live.ts";
import { UNKNOWN } from "../rates.ts";
import { go } from "../router.ts";
import { may } from "../session.ts";
import type { PlanNode, Wheel } from "../types.ts";

type Chosen = { wheel: Wheel; does: "run" | "plan" | "delete" };

export function WheelsPage(): JSX.Element {
  const live = useLive<{ files: Wheel[] }>("/wheels");
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const allowed = may("submit");
  return (
    <Page title="Wheels">
      {allowed && <Upload />}
      <Card flush>
        <Loaded from={live} what="wheels">
          {({ files }) => (
            <Table
              label="Wheels"
              rows={files}
              id={(row) => row.id}
              empty="No wheels have been uploaded."
              sortedBy="Uploaded"
              descending
              columns={[
                { name: "Wheel", by: (row) => row.name, cell: (row) => row.name },
                { name: "Entry points", cell: (row) => row.entry.map((entry) => <code key={entry.name}>{entry.name} </code>) },
                { name: "Uploaded", by: (row) => row.uploaded, cell: (row) => time(row.uploaded) },
                ...(allowed
                  ? [{
                      name: "Actions",
                      cell: (row: Wheel) => (
                        <span class="row-actions">
                          <button type="button" onClick={() => setChosen({ wheel: row, does: "run" })} aria-label={`Run ${row.name}`}>Run</button>
                          <button type="button" onClick={() => setChosen({ wheel: row, does: "plan" })} aria-label={`Show the plan of ${row.name}`}>Plan</button>
                          <button type="button" class="danger" onClick={() => setChosen({ wheel: row, does: "delete" })} aria-label={`Delete ${row.name}`}>Delete</button>
                        </span>
                      ),
                    }]
                  : []),
              ]}
            />
          )}
        </Loaded>
      </Card>
      {chosen !== null && chosen.does !== "delete" && <RunDialog wheel={chosen.wheel} plans={chosen.does === "plan"} onClose={() => setChosen(null)} />}
      {chosen?.does === "delete" && (
        <Dialog
          title={`Delete ${chosen.wheel.name}?`}
          action="Delete"
          danger
          onClose={() => setChosen(null)}
          onConfirm={async () => {
            await send("DELETE", `/wheels/${encodeURIComponent(chosen.wheel.id)}`);
            refresh("/wheels");
            return "close";
          }}
        >
          <p>Running jobs are not affected.</p>
        </Dialog>
      )}
    </Page>
  );
}

/** A file is chosen with the button, or dropped; either uploads it. */
function Upload(): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const [outcome, setOutcome] = useState<{ tone: "good" | "bad" | "quiet"; words: string } | null>(null);
  const upload = (file: File | undefined): void => {
    if (file === undefined) return;
    if (!file.name.endsWith(".whl")) {
      setOutcome({ tone: "bad", words: `${file.name} is not a wheel: names of wheels end with .whl.` });
      return;
    }
    const form = new FormData();
    form.append("jarfile", file);
    setOutcome({ tone: "quiet", words: `Uploading ${file.name} …` });
    send("POST", "/wheels/upload", form)
      .then(() => {
        setOutcome({ tone: "good", words: `Uploaded ${file.name}.` });
        refresh("/wheels");
      })
      .catch((caught: unknown) => setOutcome({ tone: "bad", words: ApiError.of(caught).message }))
      .finally(() => {
        if (input.current !== null) input.current.value = "";
      });
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    upload(event.dataTransfer?.files[0]);
  };
  return (
    <Card title="Upload a wheel">
      <div
        class={over ? "drop over" : "drop"}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      >
        <label class="pick">
          <input ref={input} type="file" accept=".whl" aria-label="Wheel" onChange={(event) => upload(event.currentTarget.files?.[0])} />
          <span class="pick-button" aria-hidden="true">Choose a wheel</span>
        </label>
        <span class="note">or drop a .whl file here</span>
      </div>
      {outcome !== null && <Notice tone={outcome.tone}>{outcome.words}</Notice>}
    </Card>
  );
}

function RunDialog({ wheel, plans, onClose }: { wheel: Wheel; plans: boolean; onClose: () => void }): JSX.Element {
  const [entry, setEntry] = useState(wheel.entry[0]?.name ?? "");
  const [programArgs, setArguments] = useState("");
  const [parallelism, setParallelism] = useState("");
  const [savepoint, setSavepoint] = useState("");
  const [skips, setSkips] = useState(false);
  const [plan, setPlan] = useState<Plan | null>(null);
  const confirm = async (): Promise<"close" | "stay"> => {
    const body = {
      ...(entry === "" ? {} : { entryClass: entry }),
      ...(programArgs === "" ? {} : { programArgs }),
      ...(parallelism === "" ? {} : { parallelism: Number(parallelism) }),
      ...(savepoint === "" ? {} : { savepointPath: savepoint, allowNonRestoredState: skips }),
    };
    const response = await send("POST", `/wheels/${encodeURIComponent(wheel.id)}/${plans ? "plan" : "run"}`, body);
    if (plans) {
      setPlan((response as { plan: Plan }).plan);
      return "stay";
    }
    go("jobs", (response as { jobid: string }).jobid);
    return "close";
  };
  return (
    <Dialog title={`${plans ? "Plan of" : "Run"} ${wheel.name}`} action={plans ? "Show the plan" : "Run"} onConfirm={confirm} onClose={onClose}>
      <label class="field">
        Entry point <span class="note">package.module:function, or its name in the wheel</span>
        <input type="text" list="entries" value={entry} onInput={(event) => setEntry(event.currentTarget.value.trim())} />
        <datalist id="entries">{wheel.entry.map((one) => <option key={one.name} value={one.name} />)}</datalist>
      </label>
      <label class="field">
        Arguments <span class="note">as in a shell</span>
        <input type="text" value={programArgs} onInput={(event) => setArguments(event.currentTarget.value)} />
      </label>
      <label class="field">
        Parallelism <span class="note">leave empty for the default</span>
        <input type="number" min="1" value={parallelism} onInput={(event) => setParallelism(event.currentTarget.value)} />
      </label>
      {!plans && (
        <>
          <label class="field">
            Savepoint to start from
            <input type="text" placeholder="file:///savepoints/savepoint-…" value={savepoint} onInput={(event) => setSavepoint(event.currentTarget.value.trim())} />
          </label>
          {savepoint !== "" && <label class="check"><input type="checkbox" checked={skips} onChange={(event) => setSkips(event.currentTarget.checked)} /> Skip state that no operator of the program claims</label>}
        </>
      )}
      {plan !== null && (plan.nodes.length === 0 ? <Empty>The plan is empty.</Empty> : <PlanGraph nodes={plan.nodes} />)}
    </Dialog>
  );
}

interface Plan {
  nodes: PlanNode[];
}

function PlanGraph({ nodes }: Plan): JSX.Element {
  const text = (html: string): string => new DOMParser().parseFromString(html.replaceAll("<br/>", " "), "text/html").body.textContent ?? "";
  const vertices = new Map(
    nodes.map(({ id, description, parallelism }) => [id, { name: text(description), parallelism, status: null, href: null, rates: UNKNOWN, watermark: null, now: 0, skew: null, totals: null }]),
  );
  return <JobGraph nodes={nodes} vertices={vertices} />;
}
