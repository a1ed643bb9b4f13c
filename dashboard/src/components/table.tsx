// Tables: sorted by a click on a heading, and of long ones only the rows in sight are in the page. Where a table does not
// fit into the page's width, each row becomes a list of its cells: nothing is cut off, and nothing scrolls sideways.

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useSize } from "./basics.tsx";

export interface Column<T> {
  name: string;
  /** What the rows are sorted by; without it, they cannot be. */
  by?: (row: T) => number | string;
  cell: (row: T) => ComponentChildren;
  number?: boolean;
}

interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  id: (row: T) => string | number;
  empty: ComponentChildren;
  sortedBy?: string;
  descending?: boolean;
}

const ROW = 38;
const MANY = 80;
const AROUND = 12;
const HEIGHT = 560;
const STACKED = 40; // rows that are shown at first, when they are lists

export function Table<T>({ label, columns, rows, id, empty, sortedBy, descending = false }: TableProps<T>): JSX.Element {
  const [order, setOrder] = useState({ column: sortedBy ?? "", down: descending });
  const [top, setTop] = useState(0);
  const pending = useRef(0);
  const sorted = useMemo(() => sort(rows, columns, order), [rows, order]);
  const [room, setRoom] = useState(0);
  const [needed, setNeeded] = useState(0); // width; 0: it fits
  const frame = useSize(setRoom);
  useLayoutEffect(() => {
    const shown = frame.current;
    if (shown === null || needed > 0) return;
    if (shown.scrollWidth > shown.clientWidth + 1) setNeeded(shown.scrollWidth);
  });
  const stacked = needed > 0 && room < needed;
  useLayoutEffect(() => {
    if (!stacked && needed > 0 && room > 0) setNeeded(0); // there may be room again: measure once more
  }, [stacked, room]);
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  if (stacked) return <div ref={frame}><Stacked label={label} columns={columns} rows={sorted} id={id} order={order} setOrder={setOrder} /></div>;
  const many = sorted.length > MANY;
  const first = many ? Math.max(0, Math.floor(top / ROW) - AROUND) : 0;
  const last = many ? Math.min(sorted.length, Math.ceil((top + HEIGHT) / ROW) + AROUND) : sorted.length;
  const scrolled = (event: Event): void => {
    const at = (event.currentTarget as HTMLElement).scrollTop;
    cancelAnimationFrame(pending.current);
    pending.current = requestAnimationFrame(() => setTop(at));
  };
  return (
    <div
      ref={frame}
      class={many ? "table-frame long" : "table-frame"}
      tabIndex={0}
      role="region"
      aria-label={label}
      onScroll={many ? scrolled : undefined}
    >
      <table aria-label={label} aria-rowcount={sorted.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={column.number ? "number" : ""} aria-sort={sortOf(column, order)}>
                {column.by === undefined ? column.name : (
                  <button
                    type="button"
                    onClick={() => setOrder({ column: column.name, down: order.column === column.name && !order.down })}
                  >
                    {column.name}
                    <span aria-hidden="true" class="sort-mark">
                      {order.column === column.name && (order.down ? "\u00a0↓" : "\u00a0↑")}
                    </span>
                  </button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="spacer" aria-hidden="true"><td colSpan={columns.length} style={{ height: `${first * ROW}px` }} /></tr>}
          {sorted.slice(first, last).map((row, number) => (
            <tr key={id(row)} aria-rowindex={first + number + 2}>
              {columns.map((column) => (
                <td key={column.name} class={column.number ? "number" : ""}>{column.cell(row)}</td>
              ))}
            </tr>
          ))}
          {last < sorted.length && (
            <tr class="spacer" aria-hidden="true"><td colSpan={columns.length} style={{ height: `${(sorted.length - last) * ROW}px` }} /></tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

interface Order {
  column: string;
  down: boolean;
}

interface StackedProps<T> {
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  id: (row: T) => string | number;
  order: Order;
  setOrder: (order: Order) => void;
}

/** Each row as a list of its cells, with the names of the columns beside them. */
function Stacked<T>({ label, columns, rows, id, order, setOrder }: StackedProps<T>): JSX.Element {
  const [most, setMost] = useState(STACKED);
  const sortable = columns.filter((column) => column.by !== undefined);
  return (
    <>
      {sortable.length > 1 && rows.length > 1 && (
        <label class="field inline stack-sort">
          Sort by
          <select value={order.column} onChange={(event) => setOrder({ column: event.currentTarget.value, down: false })}>
            {!sortable.some((column) => column.name === order.column) && <option value={order.column}>–</option>}
            {sortable.map(({ name }) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
      )}
      <ul class="stack" aria-label={label}>
        {rows.slice(0, most).map((row) => (
          <li key={id(row)}>
            <dl>
              {columns.map((column) => (
                <div key={column.name} class="stack-cell">
                  <dt>{column.name}</dt>
                  <dd>{column.cell(row)}</dd>
                </div>
              ))}
            </dl>
          </li>
        ))}
      </ul>
      {rows.length > most && <p class="card-note"><button type="button" onClick={() => setMost(most + STACKED)}>Show {Math.min(STACKED, rows.length - most)} more of {rows.length}</button></p>}
    </>
  );
}

function sortOf<T>(column: Column<T>, order: Order): "ascending" | "descending" | undefined {
  if (column.by === undefined || order.column !== column.name) return undefined;
  return order.down ? "descending" : "ascending";
}

function sort<T>(rows: readonly T[], columns: Column<T>[], order: Order): readonly T[] {
  const by = columns.find((column) => column.name === order.column)?.by;
  if (by === undefined) return rows;
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [by(a), by(b)];
    return sign * (left < right ? -1 : left > right ? 1 : 0);
  });
}
