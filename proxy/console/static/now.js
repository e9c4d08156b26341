"use strict";
const live = document.getElementById("live"), rows = document.querySelector("#verdicts tbody");
const pause = document.getElementById("pause"), source = new EventSource(live.dataset.events);
let ticks = [];
function cell(text, label) {
  const made = document.createElement("td");
  [made.textContent, made.dataset.label] = [text, label];
  return made;
}
function add(row) {
  if (live.dataset.wanted && live.dataset.wanted !== row.decision) return;
  const line = document.createElement("tr");
  line.append(cell(row.at, "Time"), cell(row.word, "Verdict"), cell(row.why, "Why"),
    cell(row.where, "From"), cell(row.principal, "Agent"), cell(row.kind, "Class"));
  if (row.candidate && live.dataset.review) {
    const link = document.createElement("a");
    [link.href, link.textContent] = [live.dataset.review + "/" + row.candidate, row.word];
    line.children[1].replaceChildren(link);
  }
  rows.prepend(line);
  while (rows.children.length > 100) rows.lastElementChild.remove();
}
function write(id, text) { document.getElementById(id).textContent = text; }
source.onmessage = (event) => {
  const now = JSON.parse(event.data), at = Date.now(), late = ticks.length && at - ticks.at(-1).at > 15000;
  if (now.state !== live.dataset.state || late) return location.reload();
  now.rows.reverse().forEach(add);
  ticks = [...ticks, {at, counts: now.counts}].filter((one) => at - one.at <= 60000);
  for (const name of ["admit", "hold", "reject"]) {
    const count = now.counts[name] || 0, came = count - (ticks[0].counts[name] || 0);
    write("count-" + name, count);
    write("rate-" + name, (came * 1000 / Math.max(1000, at - ticks[0].at)).toFixed(1));
  }
  write("held", now.held);
  live.textContent = now.left_out ? "Live. " + now.left_out + " more in the last second, not listed." : "Live.";
};
source.onerror = () => { live.textContent = "Not connected: what is listed may be old."; };
pause.hidden = false;
pause.onclick = () => { if (source.readyState === 2) return location.reload(); source.close(); pause.textContent = "Continue"; };
document.addEventListener("resume", () => location.reload());
