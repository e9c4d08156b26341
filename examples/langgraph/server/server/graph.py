"""A graph that says what it was told; put your own here."""

from typing import TypedDict

from langgraph.graph import StateGraph


class State(TypedDict):
    """What the graph is given, and gives back."""

    text: str


def say(state: State) -> State:
    """The text, as it came."""
    return {"text": state["text"]}


graph = StateGraph(State).add_node("say", say).set_entry_point("say").set_finish_point("say")
graph = graph.compile()
