// Dialogs: the browser's own, which keep the focus inside, close on Escape and give the focus back.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api.ts";
import { Notice } from "./basics.tsx";

/** Thrown when all went well, and the dialog shows what came of it. */
export class StaysOpen extends Error {}

export interface DialogProps {
  title: string;
  action: string;
  danger?: boolean;
  children: ComponentChildren;
  /** Does it. What it throws is shown, and the dialog stays open. */
  onConfirm: () => Promise<void>;
  onClose: () => void;
}

export function Dialog({ title, action, danger = false, children, onConfirm, onClose }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const [working, setWorking] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  const confirm = (event: Event): void => {
    event.preventDefault();
    setWorking(true);
    setError(null);
    onConfirm()
      .then(() => element.current?.close())
      .catch((caught: unknown) => {
        setWorking(false);
        if (!(caught instanceof StaysOpen)) setError(caught instanceof ApiError ? caught : new ApiError(String(caught), 0));
      });
  };
  return (
    <dialog ref={element} aria-labelledby="dialog-title" onClose={onClose}>
      <form method="dialog" onSubmit={confirm}>
        <h2 id="dialog-title">{title}</h2>
        <div class="dialog-body">{children}</div>
        {error !== null && (
          <Notice tone="bad">
            <pre class="error-text">{[error.message, ...error.details].join("\n")}</pre>
          </Notice>
        )}
        <div class="dialog-actions">
          <button type="button" onClick={() => element.current?.close()}>
            Close
          </button>
          <button type="submit" class={danger ? "danger" : "primary"} disabled={working}>
            {working ? "Working …" : action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
