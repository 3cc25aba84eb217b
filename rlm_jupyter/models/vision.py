"""Which models see images, and how many tokens an image takes at most, by the rules that providers publish.

https://platform.openai.com/docs/guides/images-vision, https://docs.claude.com/en/docs/build-with-claude/vision,
https://ai.google.dev/gemini-api/docs/tokens, https://docs.mistral.ai/capabilities/vision/
"""

from __future__ import annotations

import math
import re

from rlm_jupyter.models.providers import EMBEDDED, PROVIDERS

_SEEING = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4\.5|gpt-4-turbo|gpt-[5-9]|chatgpt-4o|computer-use|\bo1(?!-mini|-preview)|\bo3(?!-mini)|\bo4-mini"
    r"|claude-(?!2|instant)|gemini-|gemma-?3(?!.*(?:1b|270m))|gemma-?4|llava|pixtral|vision|[-_]vl\b|[a-z0-9]vl[-:_]|minicpm-v"
    r"|internvl|molmo|llama-?4|mistral-(?:small-3\.[1-9]|medium-3|large-3)|grok-[4-9]|grok-2-vision|kimi-k2\.5|glm-\d\.\dv"
)
_BLIND = re.compile(
    r"gpt-3|gpt-4(?:-\d{4}.*|-32k.*)?$|gpt-oss|\bo1-(?:mini|preview)|o3-mini|claude-(?:2|instant)|deepseek-(?:chat|reasoner)"
    r"|embedding|whisper|codestral|audio|realtime"
)
"""What sees none, of those whose names are known."""
_LEAST = 1_024
"""Tokens: for a small image some models have as many as for a larger one."""
_MINI = re.compile(r"gpt-4o-mini")
_GEMINI = re.compile(r"gemini")
_CLAUDE = re.compile(r"claude")
_PIXTRAL = re.compile(r"pixtral")
_GPT = re.compile(r"gpt|\bo[1-9]\b|computer-use")


def sees(name: str) -> bool | None:
    """Return whether a model sees images, by `provider/model`; `None`: its name does not tell."""
    provider, _, model = name.lower().partition("/")
    preset = PROVIDERS.get(provider)
    if preset is not None and preset.wire in EMBEDDED:
        return False
    if _BLIND.search(model):
        return False
    return True if _SEEING.search(model) else None


def image_tokens(name: str, width: int, height: int) -> int:
    """Return how many tokens an image takes at most, as the model counts that is called `provider/model`.

    Parameters
    ----------
    width, height
        In pixels, as it is sent.
    """
    model = name.lower().partition("/")[2]
    if _CLAUDE.search(model):
        # a token for 750 pixels, or for a patch of 28 by 28
        return max(math.ceil(width * height / 750), _patches(width, height, 28)) + 16
    if _GEMINI.search(model):
        unit = min(768, max(256, int(min(width, height) / 1.5)))
        return max(258 * _patches(width, height, unit), 2_240)
    if _MINI.search(model):
        return 2_833 + 5_667 * _tiles(width, height)
    if _GPT.search(model):
        # of the two rules, tiles of 512 and patches of 32, whichever takes more; the smallest models count a patch most
        return max(85 + 170 * _tiles(width, height), math.ceil(2.46 * _patches(width, height, 32)))
    if _PIXTRAL.search(model):
        # into 1,024 by 1,024, then a token for a patch of 16 by 16, and one for the end of each row
        scale = min(1.0, 1_024 / max(width, height))
        return max((math.ceil(width * scale / 16) + 1) * math.ceil(height * scale / 16), _LEAST)
    return most_image_tokens(width, height)


def most_image_tokens(width: int, height: int) -> int:
    """Return how many tokens an image takes at most where nothing is known of the model.

    Those that people serve themselves count a patch of 28 by 28 pixels as one, or every image as some hundred.
    """
    return max(_patches(width, height, 28) + 64, _LEAST)


def _patches(width: int, height: int, side: int) -> int:
    return math.ceil(width / side) * math.ceil(height / side)


def _tiles(width: int, height: int) -> int:
    """Return the tiles of 512 pixels after scaling into 2,048 by 2,048, and then to a shorter side of 768."""
    scale = min(1.0, 2_048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
