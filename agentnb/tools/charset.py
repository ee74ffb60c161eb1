"""Which codec a declared character set means, as browsers read it."""

from __future__ import annotations

import codecs


def codec(name: str) -> str:
    """The codec for this name: what calls itself Latin-1 is Windows-1252 (WHATWG Encoding Standard, section 4.2).

    Its quotation marks and dashes stand where Latin-1 has control characters.

    Raises:
        LookupError: There is no such character set, or it is none of text.
    """
    b"".decode(name)
    return "cp1252" if codecs.lookup(name).name == "iso8859-1" else name
