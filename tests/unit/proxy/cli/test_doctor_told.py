"""What a person is told of the probes: each once, and what matters to its end."""

from __future__ import annotations

import io

import pytest

from proxy.cli.doctor import show
from proxy.cli.terminal import Terminal
from proxy.doctor.examine import Examination
from proxy.doctor.finding import Finding, ProbeResult


@pytest.mark.parametrize("verdict", [ProbeResult.FAIL, ProbeResult.WARNED, ProbeResult.OK])
def test_a_finding_is_told_once_and_a_failure_to_its_end(
    monkeypatch: pytest.MonkeyPatch, verdict: ProbeResult
) -> None:
    def narrow(_stream: object) -> int:
        return 60

    monkeypatch.setattr("proxy.cli.terminal._columns", narrow)
    got = f"it could be done, {'at length, ' * 20}to the end"
    finding = Finding(id="state.list", tried="list it", expected="no", got=got, verdict=verdict)
    out = io.StringIO()
    show(
        Terminal(out, io.StringIO(), as_json=False),
        Examination(
            separated=verdict is not ProbeResult.FAIL,
            proven=True,
            isolated=False,
            findings=(finding,),
        ),
    )
    assert out.getvalue().count("state.list") == 1
    # A long value goes on in further rows. Control: what went well stands in the table, whose cells
    # a terminal cuts.
    told = "".join(out.getvalue().split())
    assert ("".join(got.split()) in told) == (verdict is not ProbeResult.OK)
