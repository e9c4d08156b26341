"use strict";
const live = document.getElementById("live"), rows = document.querySelector("#verdicts tbody");
const pause = document.getElementById("pause"), ROWS = 100;
let source, paused = false, last = 0;
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
  while (rows.children.length > ROWS) rows.lastElementChild.remove();
}
function tick(event) {
  const now = JSON.parse(event.data);
  if (now.state !== live.dataset.state || (last && Date.now() - last > 15000)) return location.reload();
  last = Date.now();
  now.rows.reverse().forEach(add);
  for (const name of ["admit", "hold", "reject"]) document.getElementById("count-" + name).textContent = now.counts[name] || 0;
  document.getElementById("held").textContent = now.held;
  live.textContent = now.left_out ? "Live. " + now.left_out + " more in the last second, not listed." : "Live.";
}
function open() {
  source = new EventSource(live.dataset.events);
  source.onmessage = tick;
  source.onerror = () => { live.textContent = "Not connected: what is listed may be old."; };
}
pause.hidden = false;
pause.onclick = () => { paused = !paused; pause.textContent = paused ? "Continue" : "Pause"; if (paused) source.close(); else location.reload(); };
document.addEventListener("resume", () => location.reload());
open();
