// Dialogs: the browser's own, which keep the focus inside, close on Escape and return the focus.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api.ts";
import { Notice } from "./basics.tsx";

export interface DialogProps {
  title: string;
  action: string;
  danger?: boolean;
  /** The action is done, and its result is shown. */
  done?: boolean;
  children: ComponentChildren;
  /** Carries out the action; returns whether the dialog closes. An error is shown, and the dialog stays open. */
  onConfirm: () => Promise<"close" | "stay">;
  onClose: () => void;
}

export function Dialog({ title, action, danger = false, done = false, children, onConfirm, onClose }: DialogProps): JSX.Element {
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
      .then((next) => next === "close" && element.current?.close())
      .catch((caught: unknown) => setError(ApiError.of(caught)))
      .finally(() => setWorking(false));
  };
  const closed = (): void => {
    onClose();
    // The button that opened it may be gone, as those of a job that was stopped are: the page's heading is next.
    requestAnimationFrame(() => document.activeElement === document.body && document.querySelector("h1")?.focus());
  };
  return (
    <dialog ref={element} aria-labelledby="dialog-title" onClose={closed}>
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
          {!done && (
            <button type="submit" class={danger ? "danger" : "primary"} disabled={working}>
              {working ? "Working …" : action}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}
