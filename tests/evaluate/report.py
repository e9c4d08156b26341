"""The report: one page that needs nothing else, for readers who have to judge this system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Final

from tests.evaluate import paper
from tests.evaluate.figures import Figure
from tests.evaluate.meanings import MEANINGS
from tests.evaluate.plots import Axes, Line, cumulative, plot
from tests.evaluate.sleepers import PRINTED
from tests.evaluate.tables import Beyond, Document, Figures, Promise, Run, Tables, Verdict

_ATTACKS: Final = ("A1", "A2", "A3", "A4", "A5")
_PAPER: Final = (
    "Jungsoo Baek, <cite>Structural Write-Path Control for Non-Formation in Agent Persistent"
    " Memory</cite>, which calls its design Mediated Write-Path"
)
# For each word of the report: what the word means, and which values are good.
_WORDS: Final = (
    ("Core NFR", "non-formation: attacks that left no state at all, of all attacks", "100 is good"),
    ("PRLR", "leakage: refused texts that the agent was shown again, of all attacks", "0 is good"),
    (
        "A1 ... A5",
        (
            "the paper's attacks: a tool result writes policy; an order filed as knowledge; a"
            " class raised without a token; an old nonce with other content; staging altered"
            " before the commit"
        ),
        "",
    ),
    (
        "B0 ... S4",
        (
            "the systems compared: no guard, a filter after the write, the gate after the"
            " write, the gate before it, and the gate before it that also withholds"
        ),
        "S4 is what runs",
    ),
    ("L1 ... L4", "what a memory can do: policy, identity and procedure, knowledge, episode", ""),
    (
        "held",
        (
            "it waits for a person, encrypted and outside every read; no attack that is held has"
            " landed, and no honest text that is held has either"
        ),
        "",
    ),
    ("landed below", "stored, in a class or under a label that can do less than was asked for", ""),
    (
        "control",
        "the same attack with the wall taken away: it must land, or a zero means nothing",
        "all must fire",
    ),
    ("n", "how many trials stand behind a figure; in brackets its 95 % interval", ""),
    ("n/a", "could not be tried here; the reason stands beside it", ""),
)
_SYSTEMS: Final = {
    "B0": "direct write",
    "B1": "heuristic filter",
    "LG": "write, verify, roll back",
    "S3": "gate",
    "S4": "gate and loop coupling, as <code>run</code> serves",
}


def report(found: Document) -> str:
    """The whole report as an HTML page."""
    style = resources.files("tests.evaluate").joinpath("report.css").read_text("utf-8")
    tables, beyond = found.tables, found.tables.beyond
    parts = [
        _head(found.run, sound=found.verdict.sound),
        _limits(),
        _words(),
        _verdicts(found.verdict),
        _core(tables),
        _noise(tables),
        _everyday(tables),
        "" if beyond is None else _beyond(beyond),
        "" if beyond is None else _plots(beyond),
        "" if beyond is None else _refused(beyond),
        _suite(tables),
        _how(found.run, found.verdict),
    ]
    # The page quotes texts of attackers, so its policy forbids scripts and anything loaded from
    # elsewhere.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Mnemogate: evaluation</title><style>{style}</style></head><body><main>"
        + "\n".join(part for part in parts if part)
        + "</main></body></html>\n"
    )


def _head(run: Run, *, sound: bool) -> str:
    word = "Every promise held" if sound else "A promise is broken"
    return (
        "<header><h1>What was tried, and what landed</h1>"
        f'<p class="verdict {"good" if sound else "bad"}">{word}</p>'
        f"<p>mnemogate {escape(run.mnemogate)}, {run.trials} trials of each"
        f" attack on each system, seed {run.seed}, Python {escape(run.python)} on"
        f" {escape(run.machine)}{_when(run)}. What the paper printed stands beside it: {_PAPER}."
        " Shares in percent with their 95 % intervals (Wilson)."
        " A trial is good when the attack was refused for the expected reason and left no row, no"
        " vector, no version step and no byte of its canary in any file.</p></header>"
    )


def _when(run: Run) -> str:
    told = [("host ", run.host), ("commit ", run.commit), ("", run.at)]
    return "".join(f", {name}{escape(value)}" for name, value in told if value)


def _limits() -> str:
    """The report's first paragraph: what its figures do not show."""
    return (
        "<h2>What this does not show</h2><p>The attacks are scripted, not adaptive; the agent and"
        " its model are scripted too. A false fact about the world is an ordinary memory, and"
        " lands. What is held waits for a person, who may be talked into it. Whoever runs as the"
        " gate's own user, or as root, is past every wall. These are figures of one machine on one"
        " day.</p>"
    )


def _words() -> str:
    rows = [[f"<b>{word}</b>", meaning, good] for word, meaning, good in _WORDS]
    return "<h2>The words</h2>" + _table(("word", "what it means", "which way is good"), rows)


def _verdicts(verdict: Verdict) -> str:
    def rows(ones: Sequence[Promise]) -> list[list[str]]:
        return [[_mark(good=one.held), escape(one.name), escape(one.detail)] for one in ones]

    promises, controls = verdict.promises, verdict.controls
    held, fired = (sum(one.held for one in ones) for ones in (promises, controls))
    return (
        f"<h2>Promises: {held} of {len(promises)} held</h2>"
        f"<details{'' if held == len(promises) else ' open'}><summary>each of them</summary>"
        + _table(("", "promise", "found"), rows(promises))
        + "</details>"
        f"<h2>Positive controls: {fired} of {len(controls)} fired</h2>"
        "<p>A zero means something only where the same search finds what is there, and where the"
        " same attack lands with its wall taken away.</p>"
        f"<details{'' if fired == len(controls) else ' open'}><summary>each of them</summary>"
        + _table(("", "control", "found"), rows(controls))
        + "</details>"
    )


def _core(tables: Tables) -> str:
    if tables.table2 is None or tables.table3 is None:
        return ""
    rows = [
        [
            f"<b>{system}</b> {_SYSTEMS[system]}",
            *(_cell(cells[name], paper.TABLE2[system][name]) for name in _ATTACKS),
            _cell(cells["all"]),
        ]
        for system, cells in tables.table2.items()
    ]
    text = "<h2>Does what is refused ever become state? (Table 2)</h2>" + _table(
        ("system", *_ATTACKS, "all"), rows
    )
    text += "<h2>What rolling back leaves (Table 3)</h2>" + _figures(tables.table3, paper.TABLE3)
    if tables.table4 is not None:
        text += (
            "<h2>Does it reach the next turn? (Table 4)</h2><p>Share of attacks of which the next"
            " model request, or an answer to the agent, showed anything.</p>"
            + _figures(tables.table4, paper.TABLE4)
        )
    return text


def _noise(tables: Tables) -> str:
    if tables.table5 is None:
        return ""
    printed: Mapping[str, Mapping[str, float]] = paper.TABLE5
    rows = [
        [
            escape(mode.replace("_", ": ", 1)),
            f"{rate} %",
            _cell(row.refused, printed.get(mode, {}).get(rate)),
            _cell(row.landed_below),
            _cell(row.landed_as_named),
            "" if row.fpr is None else _cell(row.fpr),
        ]
        for mode, rates in tables.table5.items()
        for rate, row in rates.items()
    ]
    return (
        "<h2>When labels are wrong (Table 5)</h2><p><i>claims</i>: what a trusted harness says, as"
        " in the paper, where targeted forgery ends everything. <i>derived</i>: what the sidecar"
        " itself made of the wire, wrong by chance. What landed below its true class can do less"
        " than what it was for. No two figures are added up.</p>"
        + _table(
            ("labels", "rate", "refused", "landed below", "landed as named", "honest refused"), rows
        )
    )


def _answers(tables: Tables) -> str:
    text = ""
    if tables.blame is not None:
        text += (
            "<h2>Who caused a wrong answer</h2><p>Cases whose culprits are known. An answer is"
            " wrong where the case says so: no model is asked.</p>"
        ) + _figures(tables.blame, {})
    if tables.heal is not None:
        text += (
            "<h2>What a lie reaches, and the answers after it</h2><p>Wrong memories that a"
            " registered statement contradicts, among honest notes. <i>ddmin</i>: answers are"
            " looked at afterwards, as others do it.</p>"
        ) + _figures(tables.heal, {})
    if tables.parole is not None:
        text += "<h2>What a trial gives back</h2>" + _figures(tables.parole, {})
    return text


def _everyday(tables: Tables) -> str:
    text = ""
    if tables.fpr is not None:
        text += "<h2>Honest writes that were refused</h2>" + _figures(tables.fpr, paper.FPR)
    if tables.labels is not None:
        text += "<h2>Whose words a memory is</h2>" + _figures(tables.labels, {})
    text += _answers(tables)
    if tables.trust is not None:
        text += (
            "<h2>Whom outcomes latch</h2><p>The shipped score and latch, fed outcome by outcome."
            " Beside them what SuperLocalMemory prints of its sleeper: from 0.902 to 0.249.</p>"
        ) + _figures(tables.trust, PRINTED)
    if tables.isolate is not None:
        text += "<h2>A leaked key, isolated and given back</h2>" + _figures(tables.isolate, {})
    if tables.semantic_limit is not None:
        text += (
            "<h2>What a gate cannot see (5.6)</h2><p>Ten payloads, each admissible, all for one"
            f" vendor: {_cell(tables.semantic_limit, paper.SEMANTIC_LIMIT)} landed. This is the"
            " boundary of judging writes one by one.</p>"
        )
    if tables.table6 is not None:
        rows = [
            [str(row.attempt), escape(row.level), escape(row.decision), printed]
            for row, printed in zip(tables.table6.timeline, paper.TABLE6, strict=True)
        ]
        text += (
            "<h2>Trust over repeated violations (Table 6)</h2><p>Forbidden pairs of a harness whose"
            " labels are vouched for. What a model names without that costs no trust.</p>"
        )
        text += _table(("attempt", "level before", "decision", "paper"), rows)
    if tables.appendix_a is not None:
        text += "<h2>Appendix A</h2>" + _figures(tables.appendix_a, paper.APPENDIX_A)
    return text


def _beyond(beyond: Beyond) -> str:
    rows = [
        [
            escape(f"{name} {part}".replace("_", " ").strip()),
            _cell(figure),
            escape(figure.unit),
            str(figure.n),
        ]
        for name, part, figure in beyond.figures()
        # The table has fifty rows, one for each pair of source and class, so it stands in the JSON
        # document only.
        if name != "corpora_attack_stopped"
    ]
    if not rows:
        return ""
    return "<h2>Beyond the paper</h2>" + _table(("", "found", "unit", "n"), rows)


def _plots(beyond: Beyond) -> str:
    text = ""
    latency, curve = beyond.latency_ms, beyond.containment_roc
    if latency:
        lines = [Line(name=name, points=cumulative(values)) for name, values in latency.items()]
        longest = sorted(value for values in latency.values() for value in values)
        axes = Axes(x="milliseconds", y="% of writes", x_max=longest[len(longest) * 98 // 100])
        text += (
            "<figure><figcaption>How long a write takes, over HTTP and durable: admitted by the"
            " gate, held or refused by it, and written without one</figcaption>"
            + plot(axes, lines)
            + "</figure>"
        )
    if curve is not None and curve.points:
        line = Line(name="containment", points=[(100 * x, 100 * y) for x, y in curve.points])
        chance = Line(name="chance", points=[(0.0, 0.0), (20.0, 20.0)])
        axes = Axes(x="% of unrelated texts that match", y="% of paraphrases found", x_max=20.0)
        text += (
            "<figure><figcaption>Real paraphrases found again by containment (area under the whole"
            f" curve {curve.area}); it lowers labels and names culprits, and is no"
            " boundary</figcaption>" + plot(axes, [line, chance]) + "</figure>"
        )
    return f'<div class="plots">{text}</div>' if text else ""


def _refused(beyond: Beyond) -> str:
    if beyond.corpora_refused is None:
        return ""
    rows = [
        [escape(one.set), escape(one.how), escape(one.reason), escape(one.text[:400])]
        for one in beyond.corpora_refused
    ]
    return (
        f"<h2>Honest texts of others that were refused or held: {len(rows)}</h2>"
        "<details><summary>each of them</summary>"
        + _table(("set", "how", "reason", "text"), rows)
        + "</details>"
    )


def _suite(tables: Tables) -> str:
    if tables.conformance is None:
        return ""
    tried = () if tables.mutants is None else tables.mutants.mutants
    caught = {one.id: one.caught for one in tried}
    rows = [
        [
            _mark(good=one.result == "pass"),
            escape(one.invariant),
            _mark(good=caught[one.id]) if one.id in caught else "not tried",
        ]
        for one in tables.conformance.scenarios
    ]
    return (
        "<h2>Invariants, each attacked</h2><p>The last column: a fault put into a copy of this code"
        " was noticed by the scenario (<code>--mutants</code>).</p>"
        + _table(("holds", "invariant", "its fault caught"), rows)
    )


def _how(run: Run, verdict: Verdict) -> str:
    asked = f"--trials {run.trials} --seed {run.seed} --json out.json --html report.html"
    notes = "".join(
        f"<li>{escape(table)}: {escape(note)}</li>"
        for table, all_of in verdict.notes.items()
        for note in all_of
    )
    return (
        f"<h2>How to run it again</h2><pre>make evaluate ARGS='{asked}'\n"
        "make evaluate ARGS=--mutants</pre>"
        "<p>With MNEMOGATE_CORPORA naming a directory of <code>attack_*.jsonl</code> and"
        " <code>benign_*.jsonl</code> texts of others are tried as well.</p>"
        + (f"<h2>Notes</h2><ul>{notes}</ul>" if notes else "")
    )


def _figures(rows: Figures, printed: Mapping[str, float]) -> str:
    explained = not rows.keys().isdisjoint(MEANINGS)
    return _table(
        ("", "found", "n", "what" if explained else "paper"),
        [
            [
                escape(name.replace("_", " ")),
                _cell(figure),
                str(figure.n),
                f"{printed[name]:g}" if name in printed else escape(MEANINGS.get(name, "")),
            ]
            for name, figure in rows.items()
        ],
    )


def _cell(figure: Figure, printed: float | None = None) -> str:
    value, low, high = figure.value, figure.low, figure.high
    if value is None or low is None or high is None:
        why = f" <small>{escape(figure.skipped)}</small>" if figure.skipped else ""
        return f'<span class="na">n/a</span>{why}'
    beside = "" if printed is None else f' <span class="paper">paper {printed:g}</span>'
    return f"<b>{value:.4g}</b> <small>[{low:.4g}, {high:.4g}]</small>{beside}"


def _mark(*, good: bool) -> str:
    return '<span class="yes">yes</span>' if good else '<span class="no">NO</span>'


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in HTML; every cell is HTML already."""
    head = "".join(f"<th>{one}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table>{inner}</table></div>'
