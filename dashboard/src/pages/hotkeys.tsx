// The most frequent keys of a vertex, by a sample of its records: the cause of skew.

import type { JSX } from "preact";
import { Card, Loaded, ShareBar } from "../components/basics.tsx";
import { Table } from "../components/table.tsx";
import { plural } from "../format.ts";
import { usePolled } from "../live.ts";
import type { HotKeys } from "../types.ts";

export function HotKeysCard({ path }: { path: string }): JSX.Element | null {
  const live = usePolled<HotKeys>(`${path}/hot-keys`); // keys are user data: each request is in the audit log
  if (live.data?.subtasks.length === 0) return null; // its records have no keys, or none has arrived
  return (
    <Card title="Hot keys" flush aside={live.data && <span class="note">sample of {plural(Math.round(live.data.sampled), "record")}, recent ones weigh more</span>}>
      <Loaded from={live} what="the hot keys">{(data) => <HotKeyTable {...data} />}</Loaded>
    </Card>
  );
}

function HotKeyTable({ sampled, "hot-keys": keys, subtasks }: HotKeys): JSX.Element {
  const sampledAt = new Map(subtasks.map((subtask) => [subtask.subtask, subtask.sampled]));
  return (
    <Table
      label="Hot keys"
      rows={keys.map((hot) => ({ ...hot, within: (hot.share * sampled) / (sampledAt.get(hot.subtask) || 1) }))}
      id={(row) => `${row.subtask}-${row.key}`}
      empty="No keys have been sampled yet."
      columns={[
        { name: "Key", by: (row) => row.key, cell: (row) => <code>{row.key}</code> },
        { name: "Share of all records", by: (row) => row.share, cell: (row) => <ShareBar share={row.share} /> },
        { name: "Subtask", number: true, by: (row) => row.subtask, cell: (row) => row.subtask },
        { name: "Share of its subtask", by: (row) => row.within, cell: (row) => <ShareBar share={row.within} /> },
      ]}
    />
  );
}
