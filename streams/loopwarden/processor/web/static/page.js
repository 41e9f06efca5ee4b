"use strict";
// Everything from outside goes through text nodes: nothing here parses markup.

const main = document.getElementById("main");
const notice = document.getElementById("notice");
const login = document.getElementById("login");
const age = document.getElementById("age");
const SHADES = 12;
const EVERY_MS = 2000;
let timer = 0;
let turn = 0;

// Control, bidirectional and invisible characters could hide or reorder a name: they are shown by number.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function visible(text) {
  return String(text).replace(HIDDEN, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}

function make(tag, classes, ...children) {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  for (const child of children) node.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  return node;
}

function link(runId) {
  const node = make("a", "name", runId);
  node.href = "#/run/" + encodeURIComponent(runId);
  return node;
}

function when(ms) {
  if (!ms) return "";
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().replace("T", " ").slice(0, 19);
}

function table(heads, rows) {
  const head = make("tr", "", ...heads.map(([text, kind]) => make("th", kind, text)));
  const body = rows.map((row) => make("tr", "", ...row.map((cell, i) => make("td", heads[i][1], cell))));
  return make("table", "", make("thead", "", head), make("tbody", "", ...body));
}

function card(value, text) {
  return make("div", "card", make("b", "", value), make("span", "", text));
}

function perThousand(rate) {
  return rate.calls ? ((1000 * rate.loops) / rate.calls).toFixed(1) : "–";
}

async function ask(path) {
  const headers = {};
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = "Bearer " + token;
  const response = await fetch(path, { headers, cache: "no-store" });
  if (response.status === 401) {
    login.hidden = false;
    throw new Error("a token is needed");
  }
  login.hidden = true;
  const answer = await response.json();
  if (!response.ok && response.status !== 404 && response.status !== 502) throw new Error(answer.error || response.status);
  return answer;
}

function tell(parts) {
  const text = parts.filter(Boolean).join(" ");
  notice.textContent = visible(text);
  notice.hidden = !text;
}

function partial(answer) {
  const silent = answer.silent || [];
  return silent.length ? "Partial: no answer from " + silent.join(", ") + "." : "";
}

function showFleet(fleet) {
  const cards = [
    card(fleet.live_runs, "live runs"),
    card(fleet.armed, "guards armed"),
    ...fleet.rates.map((rate) => card(perThousand(rate), `loops per 1,000 calls, ${rate.minutes} min`)),
    card(fleet.workers, fleet.workers === 1 ? "worker" : "workers"),
  ];
  const verdicts = fleet.verdicts.map((one) => [
    when(one.ts), make("span", one.level, one.level), one.action, one.detector,
    make("span", "name", one.tool), one.count || "", link(one.run_id), make("span", "name", one.agent_id),
    one.after_compaction ? "yes" : "",
  ]);
  const runs = fleet.runs.map((one) => [
    link(one.run_id), make("span", "name", one.agent_id), one.calls,
    make("span", one.streak > 1 ? "warning" : "", one.streak), when(one.last_time),
    [one.aborted && "aborted", one.armed && "guard armed", one.ignored && one.ignored + " ignored"].filter(Boolean).join(", "),
  ]);
  main.replaceChildren(
    make("div", "cards", ...cards),
    make("h2", "", "Recent verdicts"),
    verdicts.length
      ? table([["time (UTC)", "mono"], ["level", ""], ["action", ""], ["rule", ""], ["tool", ""], ["count", "number"], ["run", ""], ["agent", ""], ["after compaction", "soft"]], verdicts)
      : make("p", "soft", "None since this worker started."),
    make("h2", "", "Live runs with the most calls"),
    runs.length
      ? table([["run", ""], ["agent", ""], ["calls", "number"], ["same outcome", "number"], ["last event (UTC)", "mono"], ["", "soft"]], runs)
      : make("p", "soft", "None."),
  );
  tell([partial(fleet)]);
}

function evidenceOf(verdicts) {
  const calls = new Set();
  const newest = [...verdicts].reverse().find((one) => one.level !== "none" && one.evidence.length);
  for (const one of newest ? newest.evidence : []) if (one.call) calls.add(one.call);
  return calls;
}

function showRing(ring, evidence) {
  const cells = ring.map((one) => {
    const cell = make("li", "s" + (one.letter % SHADES), make("span", "name", one.tool),
      make("span", "mono soft", one.outcome ? one.outcome.slice(0, 6) : "open"),
      one.repeats > 1 ? make("span", "warning", " ×" + one.repeats) : "");
    if (one.repeats > 1) cell.classList.add("repeat");
    if (!one.outcome) cell.classList.add("open");
    if (one.call && evidence.has(one.call)) cell.classList.add("evidence");
    cell.title = visible(`${one.tool}\ncall ${one.signature}\noutcome ${one.outcome || "none yet"}${one.poll ? "\na known poll" : ""}${one.missing ? "\nunknown tool " + one.missing : ""}`);
    return cell;
  });
  return make("ol", "ring", ...cells);
}

function showVerdict(one) {
  const head = make("p", "", make("span", one.level, one.level), " · ", one.action + " " + one.scope, " · ",
    make("b", "", one.detector || "no rule"), " · ", make("span", "name", one.tool), one.count ? " · " + one.count + " times" : "",
    make("span", "soft", ` · ${one.stage}, ${one.mode}${one.after_compaction ? ", after compaction" : ""} · ${when(one.ts)}`));
  const parts = [head];
  if (one.rule) parts.push(make("p", "", "Rule: " + one.rule + (one.same_configuration ? "" : " (Thresholds as configured now; it was judged under another configuration.)")));
  if (one.message) parts.push(make("p", "name", "Told the model: " + one.message));
  if (one.evidence.length) parts.push(make("p", "soft", `Rests on ${one.evidence.length} calls: `, make("span", "mono", one.evidence.map((e) => (e.outcome || "open").slice(0, 6)).join(" "))));
  parts.push(make("p", "soft mono", `${one.cause.topic}/${one.cause.partition}@${one.cause.offset} · ${one.id}`));
  return make("div", "verdict is-" + one.level, ...parts);
}

function showRun(runId, run) {
  if (run.error) {
    main.replaceChildren(make("h2", "", "Run ", make("span", "name", runId)), make("p", "", run.error + "."));
    tell([partial(run)]);
    return;
  }
  const told = run.verdicts || [];
  const verdicts = told.filter((one) => one.level !== "none" && one.stage === "final");
  const standing = told.filter((one) => one.stage === "forecast").at(-1)?.standing ?? [];
  const words = { live: "live", ended: "ended", gone: "no longer in the tables" };
  const cards = [card(words[run.state] || run.state, "state"), card(run.calls ?? "–", "calls"), card(run.streak ?? "–", "same outcome in a row")];
  if (run.guard) cards.push(card(run.guard.remaining, "outcomes until the guard disarms"));
  const facts = [["agent", run.agent_id || "none named"], ["partition", run.partition], ["message key", run.key || ""], ["profile", run.profile || ""],
    ["started", when(run.started)], ["last event", when(run.last_time)],
    ["calls that ran after a critical verdict", run.ignored ?? ""], ["calls since the last compaction", run.since_compaction >= 0 ? run.since_compaction : "never compacted"]];
  const deeds = (run.deeds || []).map((one) => [when(one.ts), one.kind, make("span", "name", one.what), make("span", "mono", one.verdict_id)]);
  const parts = [make("h2", "", "Run ", make("span", "name", runId)), make("div", "cards", ...cards)];
  if (run.abort) parts.push(make("div", "verdict is-critical", make("p", "", make("b", "critical", "Stopped by " + run.abort.detector)), make("p", "name", run.abort.message)));
  parts.push(make("h2", "", "Its last calls, oldest first"), run.ring.length ? showRing(run.ring, evidenceOf(verdicts)) : make("p", "soft", "None kept."));
  if (run.ring.length) parts.push(make("p", "soft", "One colour a call (tool and arguments), the code below is its outcome. Outlined: call and outcome repeat. Red: what the newest verdict rests on."));
  parts.push(make("h2", "", "Verdicts"), ...(verdicts.length ? [...verdicts].reverse().map(showVerdict) : [make("p", "soft", "None.")]));
  if (run.state === "live") {
    parts.push(make("h2", "", "What the runner was told to do next"), standing.length
      ? table([["call", "mono"], ["", ""], ["rule", ""], ["why", "name"]], standing.map((one) => [one.scope + " " + one.key, make("span", one.level, one.action), one.detector, one.message]))
      : make("p", "soft", "Nothing: every call may run."));
  }
  parts.push(make("h2", "", "What was done"), deeds.length ? table([["time (UTC)", "mono"], ["event", ""], ["", ""], ["verdict", ""]], deeds) : make("p", "soft", "Nothing reported."));
  parts.push(make("h2", "", "Facts"), table([["", "soft"], ["", "name"]], facts.map(([a, b]) => [a, b])));
  main.replaceChildren(...parts);
  tell([partial(run), run.trouble && run.trouble + ".", run.retained === false && "Its first events are no longer in the topic: what is shown was folded from the rest."]);
}

async function refresh() {
  clearTimeout(timer);
  const mine = ++turn;
  const wanted = /^#\/run\/(.+)$/.exec(location.hash);
  let again = EVERY_MS;
  try {
    if (wanted) {
      const runId = decodeURIComponent(wanted[1]);
      const run = await ask("/api/run/" + encodeURIComponent(runId));
      if (mine !== turn) return;
      showRun(runId, run);
      if (run.state !== "live") again = 0;
    } else {
      const fleet = await ask("/api/fleet");
      if (mine !== turn) return;
      showFleet(fleet);
    }
    age.textContent = "as of " + when(Date.now()).slice(11) + " UTC";
    document.body.dataset.shown = wanted ? "run" : "fleet";
  } catch (error) {
    if (mine !== turn) return;
    tell(["Cannot be shown: " + error.message + "."]);
  }
  if (again) timer = setTimeout(refresh, again);
}

document.getElementById("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const runId = document.getElementById("run").value.trim();
  if (runId) location.hash = "#/run/" + encodeURIComponent(runId);
});
login.addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", document.getElementById("token").value);
  refresh();
});
window.addEventListener("hashchange", refresh);
refresh();
