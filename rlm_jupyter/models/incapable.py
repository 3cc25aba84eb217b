"""`incapable`: the error for what a server can't do, now or later, so that nobody asks it again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rlm_jupyter.types.errors import ImagesRefusedError, ModelError

if TYPE_CHECKING:
    from rlm_jupyter.models.endpoint import Endpoint

_CANNOT = re.compile(r"not supported|unsupported|does not support|not implemented", re.I)
"""Sent as 500 by servers of one's own, though no repetition helps: an image without a model that sees, say."""
_IMAGES = re.compile(r"image|vision|multi-?modal|mmproj", re.I)
_NONE_SUCH = re.compile(
    r"format|media.?type|mime|size|dimension|pixel|too (large|many|big|small)|corrupt|process", re.I
)
"""Said of one image, where it is another reason than that the model sees none."""
_SEES_NONE = re.compile(
    r"not support|n't support|unsupported|not implemented|only supported by|not a multi-?modal", re.I
)
_NO_MATTER_OF_IMAGES = {401, 403, 408, 409, 429, 502, 503, 504, 529}
_NOT_IMPLEMENTED = 501


def incapable(status: int | None, detail: str, endpoint: Endpoint, *, has_images: bool) -> ModelError | None:
    """Return the error; `None`: the server says something else.

    Parameters
    ----------
    status, detail
        What it said.
    has_images
        It was sent images, and may refuse these.
    """
    name, title = endpoint.name, endpoint.preset.title
    if has_images and status not in _NO_MATTER_OF_IMAGES and _IMAGES.search(detail):
        code = f" ({status})" if status else ""
        return ImagesRefusedError(
            f"{name}: {title} refused the images{code}. {detail} If this model sees none, name one that does.",
            sees_none=bool(_SEES_NONE.search(detail)) and not _NONE_SUCH.search(detail),
        )
    if status == _NOT_IMPLEMENTED or (status is not None and status >= 500 and _CANNOT.search(detail)):
        return ModelError(f"{name}: {title} can't do that ({status}). {detail}")
    return None
