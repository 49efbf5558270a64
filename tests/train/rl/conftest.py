"""Nothing here runs without torch; and what several tests train."""

import pytest

pytest.importorskip("torch", reason="reinforcement learning needs the extra 'learn' (torch)")
