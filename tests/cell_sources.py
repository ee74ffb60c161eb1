"""Tools as the cells of test notebooks define them."""

from __future__ import annotations

GET_WEATHER = """
@tool
def get_weather(city: str) -> float:
    "Current temperature of a city, in degrees Celsius."
    return {"Beijing": 31.0, "Shanghai": 27.5, "Oslo": 4.0}[city]
"""
SEND = """
@tool(approve=True)
def send(to: str, text: str) -> str:
    "Send a message."
    return f"sent to {to}: {text}"
"""
WAIT = """
@tool(timeout=None)
def wait(seconds: float) -> str:
    "Wait so many seconds."
    time.sleep(seconds)
    return "waited"
"""
