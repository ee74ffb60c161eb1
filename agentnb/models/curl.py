"""The request of a step as a line for a shell, so that anybody can send it again and see what the server says.

    print(curl(run.steps[0]))

A key is never in it: the variable that held it stands there, `$OPENAI_API_KEY`, for the shell to fill in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from agentnb.core.state import Step
from agentnb.errors import UsageError
from agentnb.settings import Secret
from agentnb.text import mask, shorten

FILE = "request.json"
"""What `curl_of` reads the body from when it is to be short."""
_SPECIAL = re.compile(r'([\\"$`])')
_NOT_IN_NAMES = re.compile(r"\W+", re.ASCII)


def curl(step: Step) -> str:
    """What this step sent, as a curl command for a POSIX shell, with the body in a here-document.

    Returns:
        The command; a comment that says why where nothing was sent over HTTP that could be sent again. What the server
        gets is the body as it was sent and a line end. Secrets in the body are hidden.

    Raises:
        UsageError: It is no Step.
    """
    if not isinstance(step, Step):
        what = f"curl() takes a step, not {type(step).__name__}"
        raise UsageError(what, layer="models", remedy="curl(run.steps[0])")
    sent = step.reply.request if step.reply else None
    command = getattr(sent, "curl", "")
    if step.reply is None or sent is None:
        return "# nothing was sent: no model was asked in this step"
    if not command:
        return f"# nothing was sent over HTTP: the model {shorten(mask(step.reply.model))!r} answers on this machine"
    return f"{command} --data-binary @- <<'JSON'\n{mask(sent.body().decode())}\nJSON"


def curl_from_file(step: Step) -> str | None:
    """The same with the body in the file "request.json": a short line, whatever was sent."""
    command = getattr(step.reply.request if step.reply else None, "curl", "")
    return f"{command} --data-binary @{FILE}" if command else None


def curl_command(address: str, query: Iterable[str | Secret], headers: Mapping[str, str | Secret]) -> str:
    """The command without a body.

    Args:
        address: Without the query.
        query: Its "name=value" parts; one that holds a secret is a Secret with the prefix "name=".
        headers: Header name to value.
    """
    url: list[str | Secret] = [address]
    for number, part in enumerate(query):
        url += ["&" if number else "?", part]
    lines = [[f"{name}: ", value] for name, value in headers.items()]
    words = [_word(url), "-H 'content-type: application/json'", *(f"-H {_word(line)}" for line in lines)]
    return " ".join(["curl -sS -N", *words])


def _word(parts: Sequence[str | Secret]) -> str:
    """One word of a shell, a variable in the place of each secret."""
    if not any(isinstance(part, Secret) for part in parts):
        return shlex.quote(mask("".join(map(str, parts))))
    named = str(parts[0]).rstrip(": ")
    return '"' + "".join(_variable(part, named) if isinstance(part, Secret) else _inside(part) for part in parts) + '"'


def _variable(secret: Secret, header: str) -> str:
    """Where its key comes from; of a key that was given in code, what it is for."""
    purpose = {"": header, "Bearer ": "API_KEY"}.get(secret.prefix, secret.prefix)
    name = _NOT_IN_NAMES.sub("_", secret.name or purpose.rstrip("=")).upper()
    return f"{_inside(secret.prefix)}${name}"


def _inside(text: str) -> str:
    """As it is written between double quotes."""
    return _SPECIAL.sub(r"\\\1", mask(text))
