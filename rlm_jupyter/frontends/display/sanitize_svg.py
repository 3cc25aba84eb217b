"""SVG without anything that acts or fetches: read as XML, and only what draws is written again."""

from __future__ import annotations

import re
from functools import lru_cache
from xml.etree import ElementTree as ET

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_ELEMENTS = (
    "svg g defs symbol use path rect circle ellipse line polyline polygon text tspan textPath title desc style marker "
    "linearGradient radialGradient stop clipPath mask pattern image filter feGaussianBlur feOffset feBlend feFlood "
    "feColorMatrix feComposite feMerge feMergeNode"
)
_DRAWS = frozenset(_ELEMENTS.split())
_FETCHES = re.compile(r"@|\\|url\s*\(\s*(?!['\"]?#)|expression|javascript:", re.IGNORECASE)


@lru_cache(maxsize=32)
def clean_svg(text: str) -> str:
    """Return the drawing; empty when it is none that can be read."""
    if "<!ENTITY" in text:
        return ""
    try:
        root = ET.fromstring(text.strip())
    except ET.ParseError:
        return ""
    if root.tag not in {f"{{{_SVG}}}svg", "svg"}:
        return ""
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    _prune(root)
    if root.tag == "svg":  # without its namespace a browser draws nothing
        root.set("xmlns", _SVG)
    return ET.tostring(root, encoding="unicode")


def _prune(element: ET.Element) -> None:
    for name, value in list(element.attrib.items()):
        if not _is_harmless(name, value):
            del element.attrib[name]
    for child in list(element):
        namespace, _, local = str(child.tag).rpartition("}")
        foreign = namespace not in {f"{{{_SVG}", ""} or local not in _DRAWS
        if foreign or (local == "style" and _FETCHES.search(child.text or "")):
            element.remove(child)
        else:
            _prune(child)


def _is_harmless(name: str, value: str) -> bool:
    local = name.rpartition("}")[2].lower()
    if local.startswith("on"):
        return False
    if local in {"href", "src"}:
        return value.startswith(("#", "data:image/png", "data:image/jpeg"))
    return not _FETCHES.search(value)
