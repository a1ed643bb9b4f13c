// The metrics of a process with their current values, in pages that fit into one request.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Card, Loaded, Search } from "../components/basics.tsx";
import { Table } from "../components/table.tsx";
import { byName, sentence } from "../format.ts";
import { useLive } from "../live.ts";
import { metricValue, readableMetric } from "../metricnames.ts";
import { inParts, valuesOf } from "../metrics.ts";
import type { MetricValue } from "../types.ts";

function labelOf(id: string): string {
  const { of, name } = readableMetric(id);
  return of === "" ? name : `${sentence(of)}: ${name}`;
}

export function ProcessMetrics({ path }: { path: string }): JSX.Element {
  const names = useLive<MetricValue[]>(path);
  const [sought, setSought] = useState("");
  const [page, setPage] = useState(0);
  const found = (names.data ?? []).map((metric) => metric.id).filter((id) => `${id} ${labelOf(id)}`.toLowerCase().includes(sought.toLowerCase())).sort((a, b) => byName(labelOf(a), labelOf(b)));
  const parts = inParts(path, found);
  const at = Math.min(page, Math.max(0, parts.length - 1));
  const shown = parts[at] ?? [];
  const values = useLive<MetricValue[]>(shown.length > 0 ? valuesOf(path, shown) : null);
  const known = new Map(values.data?.map((metric) => [metric.id, metric.value]));
  return (
    <Card title="Metrics" flush>
      <div class="form-row card-note">
        <Search label="Find a metric" value={sought} onInput={setSought} />
        {parts.length > 1 && (
          <>
            <button type="button" disabled={at === 0} onClick={() => setPage(at - 1)}>Previous</button>
            <button type="button" disabled={at === parts.length - 1} onClick={() => setPage(at + 1)}>Next</button>
            <span class="note" role="status">{found.length} metrics, page {at + 1} of {parts.length}</span>
          </>
        )}
      </div>
      <Loaded from={names} what="metrics of this process">
        {(all) => (
          <Table
            label="Metrics"
            rows={shown}
            id={(id) => id}
            empty={all.length === 0 ? "No metrics have been reported yet." : "No matching metrics."}
            columns={[
              { name: "Metric", by: (id) => labelOf(id).toLowerCase(), cell: (id) => <span title={id}>{labelOf(id)}</span> },
              { name: "Value", number: true, cell: (id) => metricValue(id, known.get(id)) },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}
