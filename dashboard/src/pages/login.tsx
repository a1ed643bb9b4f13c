// The login page: takes a token.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Notice } from "../components/basics.tsx";
import { logIn, refusal } from "../session.ts";

export function Login(): JSX.Element {
  const [given, setGiven] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (given.trim() !== "") void logIn(given.trim());
  };
  return (
    <main class="login">
      <form class="card" onSubmit={submit}>
        <img src="/assets/favicon.svg" alt="" width="44" height="44" />
        <h1>Millstream</h1>
        <p>Log in with a token of this cluster.</p>
        {refusal.value !== "" && <Notice tone="bad">{refusal.value}</Notice>}
        <label class="field">
          Token
          <input
            type="password"
            autocomplete="off"
            required
            value={given}
            onInput={(event) => setGiven(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">Log in</button>
        <p class="note">
          <code>millstream dashboard --open</code> opens this page with a token; <code>millstream cluster token</code>
          prints one. The token is stored in this tab only.
        </p>
      </form>
    </main>
  );
}
