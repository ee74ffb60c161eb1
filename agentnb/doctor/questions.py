"""What the doctor asks a model: a few tiny questions, put to the model itself.

No call passes an open recording: what was recorded says nothing about how things stand.
"""

from __future__ import annotations

from dataclasses import replace

from agentnb.core.messages import Message, user
from agentnb.core.model import Model, ModelReply, ModelRequest, OnDelta, Prompt
from agentnb.doctor.check import PROBLEM, Check
from agentnb.errors import AgentnbError, ModelError
from agentnb.planners.preamble import LANGUAGE, NO_REPEATS, system_text
from agentnb.tools.tool import to_tool

SUM = 6912
QUESTION = "What is 1234 + 5678?"
TOLD = "Use the tool add to calculate. When its result is there, answer with it."
UNTOLD = system_text("", NO_REPEATS, LANGUAGE)
"""What an agent without a prompt of its own sends."""
COUNT = "Count from 1 to 10 in digits, with a space between."
CHINESE = "请用一句话回答：天空为什么是蓝色的？"
"""Why is the sky blue?"""
WITHOUT = 'Take a model that supports tools, or let it write plans as text: planner="json".'


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


ADD = to_tool(add)
PLAIN = ModelRequest((Message("system", TOLD),), Prompt([user(QUESTION)]), 1)
WITH_TOOL = replace(PLAIN, specs=(ADD.spec,))
LEFT_ALONE = replace(WITH_TOOL, preamble=(Message("system", UNTOLD),))
IN_CHINESE = ModelRequest((Message("system", UNTOLD),), Prompt([user(CHINESE)]), 1)
COUNTING = ModelRequest((), Prompt([user(COUNT)]), 1)


async def asked(model: Model, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply | AgentnbError:
    """The reply, or why there is none."""
    try:
        return await model.reply(request, on_delta)
    except AgentnbError as error:
        return error
    except Exception as error:  # a callable of the user's may raise anything
        return ModelError(f"the model raised {type(error).__name__}: {error}", kind="callable")


def failed(name: str, error: AgentnbError, remedy: str = "") -> Check:
    """A problem in the error's words."""
    return Check(name, PROBLEM, error.message, " ".join(filter(None, (error.remedy, remedy))))
